"""Memory stays what it was, however many shapes of batches have come by."""

import platform
import random
import sys

import pytest
from scripts.fresh_process import REPOSITORY, SCRIPTS, run_fresh

BAR = 10e6  # bytes
LINES, SETTLED = 6_000, 4  # lines, and parts of 500 after which the caches of products are full


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_thousands_of_mixed_lines_take_no_more_memory_than_two_thousand(
    dtype, toy_models, toy_tokenizer, tmp_path
):
    toy_models["ours"].save_pretrained(tmp_path / "model")
    toy_tokenizer.save_pretrained(tmp_path / "model")
    draw = random.Random(0)
    lengths = [draw.randint(0, 40) for _ in range(LINES)]
    lines = [" ".join(f"source{draw.randrange(20)}" for _ in range(size)) for size in lengths]
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))

    shown = run_fresh(
        SCRIPTS / "translate_in_steady_memory.py", "translate", tmp_path / "in", "--model",
        tmp_path / "model", "--dtype", dtype, "--output", tmp_path / "out", folder=tmp_path,
        PYTHONPATH=str(REPOSITORY),
    )  # fmt: skip

    first, *_, last = [int(number) for number in shown.split()][SETTLED - 1 :]
    assert last - first < BAR


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_freed_memory_is_there_for_the_next_step(tmp_path):
    program = """
import resource
from vanilla_transformer.steady_memory import keep_freed_memory
keep_freed_memory()
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    step = bytearray(100_000_000)
    del step
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    shown = run_fresh("-c", program, folder=tmp_path, PYTHONPATH=str(REPOSITORY))

    first, second = map(int, shown.split())
    assert second < first / 10
