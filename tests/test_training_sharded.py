"""`accelerate launch training/train.py` in each way of sharing weights: whole runs of few steps."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from conftest import SENTENCES
from safetensors.torch import load_file
from scripts.fresh_process import run_fresh

from vanilla_transformer import VanillaTransformerForConditionalGeneration

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
LAUNCH = ("-m", "accelerate.commands.launch", "--num_processes", "2", "--main_process_port", "0")
WAYS = ("cpu", "fsdp2", "deepspeed-zero2", "deepspeed-zero3")
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "DS_ACCELERATOR": "cpu"}
RECIPE = """
corpus: {{train: [{{places: [{0}/train.tsv], weight: 8}}], validation: [{0}/train.tsv],
  tokenizer: {1}, checks: {{overlap: keep, duplicates: keep}}}}
model: {{d_model: 16, encoder_layers: 2, decoder_layers: 2, encoder_attention_heads: 2,
  decoder_attention_heads: 2, encoder_ffn_dim: 33, decoder_ffn_dim: 24, dropout: 0.0}}
batching: {{source_tokens: 120, target_tokens: 120}}
optimization: {{max_steps: 6, warmup_steps: 5, peak_learning_rate: 0.005, precision: float32,
  max_gradient_norm: 1.0}}
evaluation: {{every_steps: 3, num_beams: 2}}
checkpoints: {{every_steps: 3, average_last: 2}}
log: {{every_steps: 1}}
"""


@pytest.fixture(scope="module")
def train(bundle, tmp_path_factory):
    """Train by one recipe, launched in some way or not at all."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "train.tsv").write_text(SENTENCES, encoding="utf-8")
    (folder / "recipe.yaml").write_text(RECIPE.format(folder, bundle), encoding="utf-8")

    def command(way, output, *changes):
        launch = (*LAUNCH, "--config_file", ROOT / "training" / "launch" / f"{way}.yaml")
        script = ROOT / "training" / "train.py", "--config", folder / "recipe.yaml"
        return (*(launch if way else ()), *script, "--output", folder / output, *changes)

    def train(way, output, *changes):
        if "deepspeed" in (way or ""):
            pytest.importorskip("deepspeed")
        run_fresh(*command(way, output, *changes), folder=folder, **ENVIRONMENT)
        return folder / output

    train.command, train.folder = command, folder
    return train


@pytest.fixture(scope="module", params=WAYS)
def run(request, train):
    return train(request.param, request.param)


@pytest.fixture(scope="module")
def alone(train):
    return train(None, "alone", "--set", "batching.accumulation=2")


def losses(run):
    entries = map(json.loads, (run / "log.jsonl").read_text(encoding="utf-8").splitlines())
    return [entry["loss"] for entry in entries if entry["kind"] in ("train", "evaluation")]


def test_every_way_has_the_losses_of_one_process(run, alone):
    assert losses(run) == pytest.approx(losses(alone), abs=1e-4)


def test_the_result_is_an_ordinary_model(run, alone):
    model = VanillaTransformerForConditionalGeneration.from_pretrained(run / "model")

    assert {one.dtype for one in model.parameters()} == {torch.float32}
    files = [{file.name for file in (one / "model").iterdir()} for one in (run, alone)]
    assert files[0] == files[1]
    assert (run / "model/config.json").read_text() == (alone / "model/config.json").read_text()


def test_every_way_resumes_to_the_bit(run, train):
    last = run / "checkpoints" / "step-00000006"
    expected = [load_file(file) for file in sorted(last.rglob("*.safetensors"))]
    last.rename(run / "unresumed")

    train(run.name, run.name, "--resume")

    found = [load_file(file) for file in sorted(last.rglob("*.safetensors"))]
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_another_way_goes_on_where_one_stopped(run, train, alone):
    (run / "checkpoints" / "step-00000006").rename(run / "of-its-own")

    train(None, run.name, "--resume", "--set", "batching.accumulation=2")

    assert losses(run) == pytest.approx(losses(alone), abs=1e-4)


def test_an_interruption_of_one_process_stops_both_and_saves(train):
    endless = ("--set", "optimization.max_steps=100000", "--set", "checkpoints.every_steps=100000")
    more = ("--set", "evaluation.every_steps=100000")
    command = train.command("cpu", "interrupted", *endless, *more)
    run = train.folder / "interrupted"
    with subprocess.Popen(
        [sys.executable, *map(str, command)],
        env={**os.environ, **ENVIRONMENT, "OMP_NUM_THREADS": "1"},
        cwd=train.folder,
        stderr=subprocess.PIPE,
        text=True,
    ) as launcher:
        while not (run / "log.jsonl").exists() or len(losses(run)) < 5:
            assert launcher.poll() is None
            time.sleep(0.2)
        workers = psutil.Process(launcher.pid).children()
        workers[-1].send_signal(signal.SIGTERM)  # the last is not the main process
        _, complaint = launcher.communicate(timeout=120)

    assert "exitcode  : 75" in complaint
    saved = list((run / "checkpoints").glob("step-*"))
    assert len(saved) == 1
    assert (saved[0] / "model.safetensors").exists()
