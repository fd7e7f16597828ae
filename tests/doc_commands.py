"""Runs the shell commands of a Markdown page in this process, trainings cut to a few steps."""

import re
import shlex

from scripts.fresh_process import REPOSITORY
from typer import Typer
from typer.testing import CliRunner

from training import finetune, report, train
from vanilla_transformer.cli import app

SMALL = {
    "optimization.max_steps": "4",
    "evaluation.every_steps": "4",
    "corpus.vocabulary_size": "320",
    "corpus.validation": "[few.tsv]",
    "corpus.tests": "{few: [few.tsv]}",
    "model": "{d_model: 16, encoder_layers: 1, decoder_layers: 1, encoder_ffn_dim: 16, "
    "decoder_ffn_dim: 16, encoder_attention_heads: 2, decoder_attention_heads: 2}",
}
SHORTER = {
    "training/train.py": [word for item in SMALL.items() for word in ("--set", "=".join(item))],
    "training/finetune.py": ["--max-steps", "2"],
}
PROGRAMS = {
    "training/train.py": train.main,
    "training/finetune.py": finetune.main,
    "training/report.py": report.main,
}
LAUNCHER = re.compile(r"accelerate launch --config_file \S+ ")


def commands_of(page):
    """Every command, continuation lines joined."""
    blocks = re.findall(r"```bash\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def run_command(line):
    """What a reader's shell would do, but in this process; returns what it wrote to stdout."""
    spoken, _, line = line.rpartition(" | ")
    words = shlex.split(LAUNCHER.sub("python ", line), comments=True)
    if words[0] in ("pip", "git", "make"):
        return check_by_eye(words)
    command, arguments = app, words[1:]
    if words[0] == "python":
        program, *arguments = arguments
        command = Typer()
        command.command()(PROGRAMS[program])
        arguments += SHORTER.get(program, [])
    result = CliRunner().invoke(command, arguments, input=" ".join(shlex.split(spoken)[1:]))
    assert result.exit_code == 0, f"{line}\n{result.output}\n{result.exception!r}"
    return result.stdout


def check_by_eye(words):
    """What sets up an environment is not run again; its names must exist."""
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text("utf-8"), re.M)
        assert words[1] in targets
    return ""
