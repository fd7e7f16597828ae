"""The files for `accelerate launch` say only what it knows, and how they are used."""

import argparse
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import launch_command_parser

from training.sharded_weights import refuse_other_settings

FILES = sorted((Path(__file__).parents[1] / "training" / "launch").glob("*.yaml"))
NAMES = {"cpu", "deepspeed-zero2", "deepspeed-zero3", "fsdp2", "gpus", "nodes", "one-gpu"}


def test_there_is_a_file_for_each_way():
    assert {file.stem for file in FILES} == NAMES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_accelerate_knows_every_key(file):
    parser: argparse.ArgumentParser = launch_command_parser()
    options = {action.dest for action in parser._actions}
    values = yaml.safe_load(file.read_text(encoding="utf-8"))

    assert load_config_from_file(str(file)).num_processes == values["num_processes"]
    for section in ("fsdp_config", "deepspeed_config"):
        assert set(values.get(section, {})) <= options


def test_what_is_not_done_with_fsdp_is_refused():
    plugin = SimpleNamespace(
        fsdp_version=1,
        cpu_offload=None,
        activation_checkpointing=False,
        cpu_ram_efficient_loading=True,
    )

    with pytest.raises(
        ValueError, match=r"needs fsdp_version=2, got 1; .*loading=False, got True:"
    ):
        refuse_other_settings(plugin)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_begins_with_its_command_and_when_to_use_it(file):
    command, purpose, *_ = file.read_text(encoding="utf-8").splitlines()

    assert f"accelerate launch --config_file training/launch/{file.name}" in command
    assert purpose.startswith("# for ")
