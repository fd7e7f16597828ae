"""The command: options become a translation, and every refusal is one line."""

import io
import os
import random
import signal
import subprocess
import sys

import pytest
from scripts.fresh_process import REPOSITORY, run_fresh
from test_translate import LINES
from toy_models import texts_of
from transformers import pipeline
from typer.testing import CliRunner

from vanilla_transformer import cli
from vanilla_transformer.cli import app, report
from vanilla_transformer.translate import Step

# A whole command whose chunks are small, so that there is a middle to be killed in. It kills
# itself: on a busy machine somebody who looks from outside may come too late.
PROGRAM = """
import os, signal, threading, time
from pathlib import Path
from vanilla_transformer import cli, line_chunks

def kill_soon_after(output, size, seconds):
    while not output.exists() or output.stat().st_size < size:
        time.sleep(0.001)
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)

line_chunks.CHUNK_LINES = 3
if moment := os.environ.get("KILL"):
    output, size, seconds = moment.split()
    threading.Thread(
        target=kill_soon_after, args=(Path(output), int(size), float(seconds)), daemon=True
    ).start()
cli.main()
"""


@pytest.fixture(scope="module")
def model(toy_models, toy_tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    toy_models["ours"].save_pretrained(folder)
    toy_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def source(tmp_path):
    (tmp_path / "in").write_bytes("".join(f"{line}\n" for line in LINES).encode())
    return tmp_path / "in"


def run(*arguments, **options):
    return CliRunner().invoke(app, ["translate", *map(str, arguments)], **options)


def test_files_stdin_and_stdout_give_the_pipeline_s_text(model, source, tmp_path):
    expected = "".join(
        f"{text}\n" for text in texts_of(pipeline("translation", model=str(model))(LINES))
    )
    to_stdout = run(source, "--model", model)
    from_stdin = run("--model", model, input=source.read_bytes())
    to_file = run(source, "--model", model, "--output", tmp_path / "out")

    assert to_stdout.exit_code == from_stdin.exit_code == to_file.exit_code == 0
    assert to_stdout.stdout_bytes.decode() == from_stdin.stdout_bytes.decode() == expected
    assert (tmp_path / "out").read_bytes().decode() == expected
    assert "tokens/s" in to_stdout.stderr
    assert to_file.stdout == ""


def test_a_dash_is_stdout_and_makes_no_file(model, source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    to_stdout = run(source, "--model", model, "--output", "-")

    assert to_stdout.stdout_bytes == run(source, "--model", model).stdout_bytes
    assert not (tmp_path / "-").exists()
    assert run(source, "--model", model, "--output", "-", "--resume").exit_code == 2


def test_every_option_reaches_the_translation(model, source):
    result = run(
        source, "--model", model, "--batch-tokens", 50, "--beam", 3, "--dtype", "bfloat16",
        "--n-best", 2, "--scores", "--alignment", "--format", "tsv",
    )  # fmt: skip

    assert result.exit_code == 0, result.stderr
    lines = result.stdout_bytes.decode().split("\n")[:-1]
    assert [line.count("\t") for line in lines] == [2] * 2 * len(LINES)


REFUSED = {
    "no such input": ("missing.txt",),
    "a folder as input": (".",),
    "a file below a file": ("in/x",),
    "no such model": ("in", "--model", "no/such/folder"),
    "existing output": ("in", "--output", "taken"),
    "output is input": ("in", "--output", "in", "--force"),
    "no such folder": ("in", "--output", "no/where"),
    "bad text": ("bad",),
    "n-best over the model's beam": ("in", "--n-best", "9"),
}
MISUSED = {
    "resume to stdout": ("--resume",),
    "resume and force": ("--output", "taken", "--resume", "--force"),
    "scores in text": ("--scores",),
    "a beam of 0": ("--beam", "0"),
    "n-best over beam": ("--beam", "2", "--n-best", "3"),
    "an unknown format": ("--format", "xml"),
    "an unknown option": ("--bean", "4"),
}


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED)
def test_a_refusal_is_one_line_and_exit_code_1(arguments, model, source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "taken").write_text("mine")
    (tmp_path / "bad").write_bytes(b"\n\xff")

    result = run(*(() if "--model" in arguments else ("--model", model)), *arguments)

    assert result.exit_code == 1, result.stderr
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert "Errno" not in result.stderr
    assert result.stdout == ""
    assert (tmp_path / "taken").read_text() == "mine"


def test_who_types_is_told_how_to_end(model, monkeypatch):
    typed = io.TextIOWrapper(io.BytesIO(b"source1"))
    monkeypatch.setattr(typed, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin", typed)
    told = []
    monkeypatch.setattr(cli, "tell", told.append)

    cli.translate(model=str(model))

    assert any("Ctrl-D" in line for line in told)


@pytest.mark.parametrize("arguments", MISUSED.values(), ids=MISUSED)
def test_a_misuse_has_exit_code_2(arguments, model):
    assert run("--model", model, *arguments).exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["translate", "--help"],
        ["evaluate", "--help"],
        ["publish", "--help"],
        ["attention", "--help"],
    ],
    ids=" ".join,
)
def test_help_answers_without_the_libraries(arguments, tmp_path):
    program = (
        "import sys; from vanilla_transformer.cli import app; "
        f"app({arguments}, standalone_mode=False); "
        "assert not {'torch', 'transformers', 'numpy'} & sys.modules.keys()"
    )

    shown = run_fresh("-c", program, folder=tmp_path, PYTHONPATH=str(REPOSITORY))

    assert (arguments[0] if len(arguments) > 1 else "translate") in shown


def test_it_runs_as_a_module(model, source, tmp_path):
    run_fresh(
        "-m", "vanilla_transformer", "translate", source, "--model", model, "--output",
        tmp_path / "out", folder=tmp_path, PYTHONPATH=str(REPOSITORY),
    )  # fmt: skip

    assert (tmp_path / "out").read_bytes() == run(source, "--model", model).stdout_bytes


def kill_and_resume(moments, model, source, output):
    """Run the command, killed soon after a size of the output, until it comes to its end."""
    command = [
        sys.executable, "-c", PROGRAM, "translate", str(source), "--model", str(model),
        "--output", str(output), "--resume",
    ]  # fmt: skip
    for moment in [*moments, None]:
        environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "HF_HUB_OFFLINE": "1"}
        if moment is not None:  # wherever it is then in a chunk
            environment["KILL"] = f"{output} {moment} {random.uniform(0, 0.01)}"
        process = subprocess.run(command, env=environment, capture_output=True, timeout=300)
        expected = 0 if moment is None else -signal.SIGKILL
        assert process.returncode == expected, process.stderr


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_a_killed_run_resumes_to_the_same_bytes(kills, model, source, tmp_path):
    source.write_bytes(source.read_bytes() * 4 * kills)
    expected = run(source, "--model", model).stdout_bytes
    moments = sorted(random.randrange(len(expected) * 4 // 5) for _ in range(kills))

    kill_and_resume(moments, model, source, tmp_path / "out")

    assert (tmp_path / "out").read_bytes() == expected


def test_a_hidden_progress_bar_shows_nothing_of_what_was_there_before(capsys):
    report(iter([Step(5), Step(2, tokens=7)]), 7, hide=True)

    assert capsys.readouterr().err == ""


def test_who_wants_no_progress_bars_of_tqdm_gets_none(tmp_path):
    program = (
        "import io, sys; sys.stderr = io.StringIO(); from vanilla_transformer.cli import report; "
        "from vanilla_transformer.translate import Step; report(iter([Step(5), Step(2, 7)]), 7); "
        "assert sys.stderr.getvalue() == ''"
    )

    run_fresh("-c", program, folder=tmp_path, PYTHONPATH=str(REPOSITORY), TQDM_DISABLE="1")
