"""A saved folder is all that anybody needs: it carries the code, and loads without the package."""

import json
import re
import shutil

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from scripts.fresh_process import SCRIPTS, run_fresh
from transformers import AutoConfig, AutoModelForSeq2SeqLM, Trainer, TrainingArguments

from vanilla_transformer import VanillaTransformerConfig, VanillaTransformerForConditionalGeneration

SEPARATE = {
    "share_encoder_decoder_embeddings": False,
    "tie_word_embeddings": False,
    "decoder_vocab_size": 50,
    "position_encoding": "learned",
    "attention_score": "additive",
    "attention_window": 2,
}
CHANGES = {"separate": SEPARATE, "untied": {"tie_word_embeddings": False}}
CODE = {"modeling_vanilla_transformer.py", "configuration_vanilla_transformer.py"}
WAYS_TO_SAVE = ("saved", "sharded", "checkpoint", "merged", "separate", "untied", "body")
REMOTE = "transformers_modules."


@pytest.fixture(scope="module")
def inputs(make_batch):
    torch.manual_seed(0)
    batch = make_batch([(5, 7), (3, 3), (9, 4)])
    return {name: batch[name] for name in ("input_ids", "attention_mask")}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("folders")


@pytest.fixture(scope="module")
def models(root, build_tiny):
    """The model behind each of the folders in `root`, which came to be in different ways."""
    torch.manual_seed(0)
    models = {name: build_tiny(**CHANGES.get(name, {})) for name in WAYS_TO_SAVE}
    for name in ("saved", "separate", "untied"):
        models[name].save_pretrained(root / name)
    models["sharded"].save_pretrained(root / "sharded", max_shard_size="4KB")
    models["body"].model.save_pretrained(root / "body")
    models["merged"] = merge_an_adapter(models["merged"])
    models["merged"].save_pretrained(root / "merged")
    train_to_checkpoint(models["checkpoint"], root)
    return {name: model.eval() for name, model in models.items()}


def train_to_checkpoint(model, root):
    """Two steps of the library's Trainer, which saves in its own way."""
    pair = {"input_ids": torch.tensor([5, 6, 2]), "labels": torch.tensor([8, 2])}
    settings = {"use_cpu": True, "report_to": [], "disable_tqdm": True}
    arguments = TrainingArguments(root / "runs", max_steps=2, save_steps=2, **settings)
    Trainer(model, arguments, train_dataset=[pair] * 16).train()
    shutil.copytree(root / "runs/checkpoint-2", root / "checkpoint")


def merge_an_adapter(model):
    adapter = LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    return get_peft_model(model, adapter).merge_and_unload()


def observe(model, inputs):
    with torch.no_grad():
        return {
            "logits": model(**inputs, decoder_input_ids=inputs["input_ids"]).logits,
            "generated": model.generate(**inputs, num_beams=2, max_new_tokens=8),
        }


@pytest.fixture(scope="module")
def abroad(models, inputs, root):
    """What one process without the package saw in every folder, and another in its re-saves."""
    VanillaTransformerConfig(dropout=0.3).save_pretrained(root / "configuration")
    seen = []
    for ending in ("", "-trained"):
        tasks = {
            "visit": {str(root / f"{name}{ending}"): inputs for name in models},
            "configure": [str(root / "configuration")],
        }
        torch.save(tasks, root / "tasks.pt")
        files = root / "tasks.pt", root / "results.pt"
        run_fresh(SCRIPTS / "without_package.py", *files, folder=root)
        seen.append(torch.load(root / "results.pt"))
    return seen


def assert_equal(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def in_folder(results, root, name):
    return results[str(root / name)]


@pytest.mark.parametrize("name", WAYS_TO_SAVE)
def test_every_way_to_save_writes_code_and_the_names_of_its_classes(name, models, root):
    files = {file.name for file in (root / name).iterdir()}
    auto_map = json.loads((root / name / "config.json").read_text())["auto_map"]

    assert files > CODE
    assert auto_map == {
        "AutoConfig": "configuration_vanilla_transformer.VanillaTransformerConfig",
        "AutoModel": "modeling_vanilla_transformer.VanillaTransformerModel",
        "AutoModelForSeq2SeqLM": (
            "modeling_vanilla_transformer.VanillaTransformerForConditionalGeneration"
        ),
    }


SAVED_MATRICES = {
    "saved": {"model.shared.weight"},
    "untied": {"model.shared.weight", "lm_head.weight"},
    "separate": {
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
        "lm_head.weight",
    },
}


@pytest.mark.parametrize("name", SAVED_MATRICES)
def test_a_matrix_of_words_is_saved_once(name, models, root):
    weights = load_file(root / name / "model.safetensors")

    matrices = {key for key in weights if re.search("shared|embed_tokens|lm_head", key)}
    assert matrices == SAVED_MATRICES[name]
    assert sum(tensor.numel() for tensor in weights.values()) == models[name].num_parameters()


def test_without_the_package_nothing_runs_before_the_user_trusts_the_folder(abroad):
    for results in abroad:
        assert results["modules before trust"] == []
        for refusal in results["untrusted"]:
            assert "trust_remote_code=True" in refusal


@pytest.mark.parametrize("name", WAYS_TO_SAVE)
def test_without_the_package_a_folder_gives_the_same_logits_and_words(
    name, models, inputs, root, abroad
):
    seen = in_folder(abroad[0]["visit"], root, name)

    assert seen.pop("module").startswith(REMOTE)
    assert_equal(seen, observe(models[name], inputs))


@pytest.mark.parametrize("name", WAYS_TO_SAVE)
def test_without_the_package_auto_model_gives_the_same_states(name, models, inputs, root, abroad):
    with torch.no_grad():
        states = models[name].model(**inputs, decoder_input_ids=inputs["input_ids"])

    assert_equal(in_folder(abroad[0]["states"], root, name), states.last_hidden_state)


@pytest.mark.parametrize("name", WAYS_TO_SAVE)
def test_what_was_trained_without_the_package_loads_without_it_again(name, root, abroad):
    first = in_folder(abroad[0]["trained"], root, name)
    second = in_folder(abroad[1]["visit"], root, f"{name}-trained")

    assert second.pop("module").startswith(REMOTE)
    assert_equal(second, first)
    assert not torch.equal(first["logits"], in_folder(abroad[0]["visit"], root, name)["logits"])


def test_without_the_package_a_configuration_loads_alone(root, abroad):
    config = AutoConfig.from_pretrained(root / "configuration")

    assert config.dropout == 0.3
    for results in abroad:
        assert in_folder(results["configs"], root, "configuration") == config.to_diff_dict()


@pytest.mark.parametrize("name", WAYS_TO_SAVE)
def test_with_the_package_a_folder_needs_no_trust_and_runs_no_code_of_its_own(
    name, models, inputs, root, tmp_path
):
    folder = shutil.copytree(root / name, tmp_path / name)
    for file in folder.glob("*.py"):
        file.write_text("raise SystemExit('it ran')")

    model = AutoModelForSeq2SeqLM.from_pretrained(folder)

    assert type(model) is VanillaTransformerForConditionalGeneration
    assert_equal(observe(model, inputs), observe(models[name], inputs))
