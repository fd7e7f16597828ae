"""`make translate TEXT="..."`: the text arrives as it is, and only its translation is printed."""

import os
import subprocess

import pytest
from scripts.fresh_process import REPOSITORY

TEXTS = {
    "a question": "Where is the train station?",
    "quotes": """It's "good", isn't it? 'Yes'""",
    "dollars": "It costs $5, $$10, ${HOME}, $(HOME), $@ or $(",
    "commands": "$(shell echo lost) $(error lost) `echo lost`; echo lost | cat & # lost",
    "lines": 'One.\nTwo\'s "two".\n\n\tFour $4.',
    "other variables": "a VENV=lost PYTHON=lost b=c -- -n -k",
    "backslashes": r"C:\new\table \ ",
    "a dash": "-n",
    "other scripts": "Größe 100 %, 東京 🙂 %s *",
}
# Stands for Python, pip and the command in one; all that it says of itself is noise.
STUB = """#!/bin/sh
case "$0" in *vanilla-transformer) cat; exit;; esac
echo noise
[ "$1 $2" = "-m venv" ] || exit 0
mkdir -p "$3/bin"
cp "$0" "$3/bin/python"
cp "$0" "$3/bin/vanilla-transformer"
"""


@pytest.fixture
def python(tmp_path):
    stub = tmp_path / "python"
    stub.write_text(STUB)
    stub.chmod(0o755)
    return stub


def make(*arguments, **environment):
    inherited = {name: value for name, value in os.environ.items() if name != "TEXT"}
    return subprocess.run(
        ["make", "--directory", str(REPOSITORY), "--no-print-directory", "translate", *arguments],
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_text_arrives_as_it_is_and_only_its_translation_is_printed(text, python, tmp_path):
    places = f"PYTHON={python}", f"VENV={tmp_path / 'venv'}"

    first = make(f"TEXT={text}", *places)
    second = make(*places, TEXT=text)  # from the environment, once all is built

    assert first.stdout == second.stdout == f"{text}\n", first.stderr
    assert "noise" in first.stderr
    assert second.stderr == ""


@pytest.mark.parametrize("arguments", [(), ("TEXT=",)])
def test_without_a_text_it_says_how_and_builds_nothing(arguments, python, tmp_path):
    result = make(*arguments, f"PYTHON={python}", f"VENV={tmp_path / 'venv'}")

    assert result.returncode != 0
    assert result.stdout == ""
    assert 'make translate TEXT="' in result.stderr
    assert not (tmp_path / "venv").exists()
