"""Runs the shell commands of a Markdown page in this process, trainings cut to a few steps."""

import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from string import Template

from scripts.fresh_process import REPOSITORY
from typer import Typer
from typer.testing import CliRunner

import tokenizer.show
import tokenizer.train
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
    "tokenizer.train": tokenizer.train.main,
    "tokenizer.show": tokenizer.show.main,
}
LAUNCHER = re.compile(r"accelerate launch --config_file \S+ ")
SAID = re.compile(r'echo "(.*)" \| ')
EXPORTED = re.compile(r"export (\w+)=(.*?)( +#.*)?")


def commands_of(block):
    """Every command of a block of shell, continuation lines joined."""
    lines = block.replace("\\\n", " ").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def run_command(line, export):
    """What a reader's shell would do, but in this process; `export` is told names and values."""
    if exported := EXPORTED.fullmatch(line):
        export(exported[1], value_of(exported[2]))
        return
    said = SAID.match(line)
    line = LAUNCHER.sub("python ", line[said.end() :] if said else line)
    words = [Template(word).substitute(os.environ) for word in shlex.split(line, comments=True)]
    if words[0] in ("python3", "pip", "git", "make", "hf"):
        check_by_eye(words)
        return
    command, arguments = app, words[1:]
    if words[0] == "python":
        program, *arguments = [word for word in arguments if word != "-m"]
        command = Typer()
        command.command()(PROGRAMS[program])
        arguments += SHORTER.get(program, [])
    result = CliRunner().invoke(command, arguments, input=said and said[1])
    assert result.exit_code == 0, f"{line}\n{result.output}\n{result.exception!r}"


def value_of(word):
    """A word as a shell reads it, whose `python` is this one."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": places, "PYTHONPATH": str(REPOSITORY)}
    told = subprocess.check_output(["bash", "-c", f"echo {word}"], env=environment, text=True)
    return told.strip()


def check_by_eye(words):
    """What sets up an environment is not run again; its names must exist."""
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text("utf-8"), re.M)
        assert words[1] in targets
    if words[0] == "hf":
        assert hasattr(import_module(f"huggingface_hub.cli.{words[1]}"), "_".join(words[1:3]))
