"""However many processes share a batch, and however they share weights, they learn the same."""

import json
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file
from scripts.fresh_process import SCRIPTS, run_fresh
from scripts.train_together import SAVED_AT, learn, make_learner

from vanilla_transformer import VanillaTransformerForConditionalGeneration

ROOT = Path(__file__).parents[1]
LAUNCH = ("-m", "accelerate.commands.launch", "--num_processes", "2", "--main_process_port", "0")
FILES = {"replicated": ("cpu.yaml", 50), "sharded": ("fsdp2.yaml", 10)}  # and numbers of steps


@pytest.fixture(scope="module", params=FILES)
def together(request, tmp_path_factory):
    """A folder with what two processes saw that share weights in some way."""
    folder = tmp_path_factory.mktemp(request.param)
    configuration, steps = FILES[request.param]
    script = SCRIPTS / "train_together.py", folder, steps
    launch = *LAUNCH, "--config_file", ROOT / "training" / "launch" / configuration
    run_fresh(*launch, *script, folder=folder, PYTHONPATH=str(ROOT))
    return folder


@pytest.fixture(scope="module")
def seen(together):
    return [json.loads((together / f"{rank}.json").read_text()) for rank in range(2)]


@pytest.fixture(scope="module")
def alone():
    """This process, which does all pieces of a step itself."""
    return Accelerator(cpu=True)


def test_two_processes_have_the_losses_of_one_that_accumulates(seen, alone):
    expected = learn(make_learner(alone, dropout=0.0), alone, last=len(seen[0]["losses"]))

    assert [one["processes"] for one in seen] == [2, 2]
    assert all(one["losses"] == pytest.approx(expected, abs=1e-4) for one in seen)


def test_two_processes_draw_the_dropout_of_one_that_accumulates(together, seen, alone):
    if "sharded" in together.name:
        pytest.skip("hooks of FSDP keep words padded on a CPU, so that dropout draws other numbers")
    expected = learn(make_learner(alone, dropout=0.1), alone)

    assert all(one["losses_with_dropout"] == pytest.approx(expected, abs=1e-4) for one in seen)


@pytest.mark.parametrize("fault", ["infinite loss", "no gradient"])
def test_a_fault_in_one_process_skips_the_step_on_all(fault, seen):
    for one in seen:
        assert one[fault]["finite"] == [False, True]
        assert one[fault]["untouched"]


def test_one_process_that_must_stop_stops_all(seen):
    assert [one["no gradient"]["stops"] for one in seen] == [[False, True]] * 2


def test_what_the_main_process_raises_all_raise(seen):
    assert [one["error"] for one in seen] == ["no space"] * 2
    assert [one["answer"] for one in seen] == [42] * 2


def test_a_run_resumes_to_the_bit(seen):
    assert all(one["resumes"] for one in seen)


def test_every_process_can_translate_with_the_whole_model(seen, alone):
    assert seen[0]["words"] == seen[1]["words"]


def test_a_checkpoint_is_an_ordinary_folder(together):
    model = VanillaTransformerForConditionalGeneration.from_pretrained(together / "saved")
    config = json.loads((together / "saved" / "config.json").read_text())

    assert type(model) is VanillaTransformerForConditionalGeneration
    assert config["dtype"] == "float32"
    assert "modeling_vanilla_transformer." in config["auto_map"]["AutoModelForSeq2SeqLM"]
    assert {one.dtype for one in load_file(together / "saved" / "model.safetensors").values()} == {
        torch.float32
    }


def test_one_process_goes_on_where_two_stopped(together, alone):
    settings = {"dropout": 0.1, "ema_decay": 0.9, "max_gradient_norm": 1.0}
    learner = make_learner(alone, **settings)
    learner.load(together / "saved")
    other = make_learner(alone, **settings)
    learn(other, alone, last=SAVED_AT)

    (found, averages), (expected, _) = learner.collect(), other.collect()

    assert found.steps == expected.steps == SAVED_AT
    assert averages.keys() == found.weights.keys() == expected.weights.keys()
    if "replicated" in together.name:
        for name, one in expected.moments["exp_avg"].items():
            torch.testing.assert_close(found.moments["exp_avg"][name], one, rtol=0, atol=1e-5)
