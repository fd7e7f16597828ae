"""Several processes write what one process writes."""

import os
import sys
from dataclasses import dataclass
from threading import Barrier, Thread

import pytest
from scripts.fresh_process import REPOSITORY, run_fresh
from test_accelerate import TWO_PROCESSES
from test_translate import LINES, NBEST, interrupt, run

from vanilla_transformer import line_chunks
from vanilla_transformer.translate import Options
from vanilla_transformer.translate_in_parallel import (
    join_processes,
    name_parts,
    translate_in_parallel,
)


@dataclass
class Process:
    """What accelerate knows of a process, which is a thread here."""

    process_index: int
    num_processes: int
    barrier: Barrier

    def wait_for_everyone(self):
        self.barrier.wait(timeout=60)


@pytest.fixture
def source(tmp_path):
    (tmp_path / "in").write_bytes("".join(f"{line}\n" for line in LINES).encode())
    return tmp_path / "in"


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(line_chunks, "CHUNK_LINES", 3)


def run_together(num_processes, *task):
    barrier = Barrier(num_processes)
    threads = [
        Thread(target=lambda process: list(translate_in_parallel(process, *task)), args=(process,))
        for process in (Process(rank, num_processes, barrier) for rank in range(num_processes))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("options", [Options(), NBEST], ids=["text", "n-best"])
@pytest.mark.parametrize("num_processes", [2, 3, 9])
def test_the_output_is_that_of_one_process(num_processes, options, translate, source, tmp_path):
    expected, _ = run(translate, source, tmp_path / "expected", options)

    run_together(num_processes, translate, [source], tmp_path / "out", options)

    assert (tmp_path / "out").read_bytes() == expected
    assert {file.name for file in tmp_path.iterdir()} == {"in", "expected", "out"}


def test_interrupted_parts_are_continued(translate, source, tmp_path):
    expected, _ = run(translate, source, tmp_path / "expected")
    for rank, num_steps in enumerate([2, 3]):  # one within its chunks, one at their end
        process = Process(rank, 2, Barrier(1))
        steps = translate_in_parallel(process, translate, [source], tmp_path / "out", Options())
        for _ in range(num_steps):
            next(steps)
        steps.close()
    first, second = name_parts(tmp_path / "out", 2)
    assert first.stat().st_size > 0
    assert second.stat().st_size > 0

    run_together(2, translate, [source], tmp_path / "out", Options(), "resume")
    run_together(2, translate, [source], tmp_path / "out", Options(), "resume")  # nothing to do

    assert (tmp_path / "out").read_bytes() == expected
    assert {file.name for file in tmp_path.iterdir()} == {"in", "expected", "out"}


def test_what_cannot_be_shared_is_refused(translate, source, tmp_path):
    def attempt(*task):
        return list(translate_in_parallel(Process(0, 1, Barrier(1)), translate, *task))

    with pytest.raises(ValueError, match="need --output, got stdout"):
        attempt([source], None, Options())
    with pytest.raises(ValueError, match="can be read again, got -"):
        attempt([], tmp_path / "out", Options())
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"can be read again, got .*pipe"):
        attempt([source, tmp_path / "pipe"], tmp_path / "out", Options())
    interrupt(translate, source, tmp_path / "out", chunks=1)
    with pytest.raises(ValueError, match="must be resumed by one process"):
        attempt([source], tmp_path / "out", Options(), "resume")
    (tmp_path / "out").rename(tmp_path / "out.part-1-of-1")
    with pytest.raises(ValueError, match="no parts of an earlier run"):
        attempt([source], tmp_path / "out", Options())


def test_alone_it_joins_nobody(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert join_processes() is None

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(ValueError, match=r"vanilla-transformer\[train\]"):
        join_processes()


@pytest.mark.slow
def test_accelerate_launches_it(toy_models, toy_tokenizer, translate, source, tmp_path):
    toy_models["ours"].save_pretrained(tmp_path / "model")
    toy_tokenizer.save_pretrained(tmp_path / "model")
    source.write_bytes(source.read_bytes() * 300)  # several chunks of the usual size

    def command(*launcher, output):
        run_fresh(
            "-m", *launcher, "vanilla_transformer", "translate", source, "--model",
            tmp_path / "model", "--beam", 1, "--output", output, folder=tmp_path,
            PYTHONPATH=str(REPOSITORY), ACCELERATE_USE_CPU="true",
        )  # fmt: skip

    command(output=tmp_path / "alone")
    launcher = (*TWO_PROCESSES[1:], "--module")
    command(*launcher, output=tmp_path / "together")

    assert (tmp_path / "together").read_bytes() == (tmp_path / "alone").read_bytes()
