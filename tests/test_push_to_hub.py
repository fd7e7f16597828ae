"""`push_to_hub` of model, tokenizer and Trainer brings the folder that `publish` makes."""

import json

import pytest
import torch
from huggingface_hub import ModelCard
from transformers import Trainer, TrainingArguments

from vanilla_transformer.publishable_folder import make_folder

NAME = "alice/toy"


@pytest.fixture
def model(build_tiny, tiny_tokenizer):
    return build_tiny(vocab_size=len(tiny_tokenizer))


@pytest.fixture
def published(model, tiny_tokenizer, tmp_path):
    """The files that `publish` would bring."""
    model.save_pretrained(tmp_path / "source")
    tiny_tokenizer.save_pretrained(tmp_path / "source")
    (tmp_path / "made").mkdir()
    make_folder(tmp_path / "source", tmp_path / "made", name=NAME, card=None, exclude=())
    return {file.name: file.read_bytes() for file in (tmp_path / "made").iterdir()}


@pytest.mark.parametrize("order", [("model", "tokenizer"), ("tokenizer", "model")], ids="-".join)
def test_model_and_tokenizer_bring_what_publish_brings(
    order, model, tiny_tokenizer, published, at_hub
):
    parts = {"model": model, "tokenizer": tiny_tokenizer}
    with at_hub() as hub:
        for name in order:
            parts[name].push_to_hub(NAME)

    files = hub.repositories[NAME].files
    del files[".gitattributes"]
    assert files == published


def test_a_card_that_somebody_wrote_on_the_hub_stays(model, at_hub):
    with at_hub() as hub:
        model.push_to_hub(NAME)
        hub.repositories[NAME].files["README.md"] = b"---\nlicense: mit\n---\n\n# By hand\n"
        model.push_to_hub(NAME, tags=["more"])

    card = ModelCard(hub.repositories[NAME].files["README.md"].decode())
    assert card.text.strip() == "# By hand"
    assert card.data.tags == ["more"]


def test_the_trainer_brings_what_publish_brings_and_its_own_records(
    model, tiny_tokenizer, published, at_hub, tmp_path
):
    pair = {"input_ids": torch.tensor([5, 6, 2]), "labels": torch.tensor([8, 2])}
    arguments = TrainingArguments(
        tmp_path / "run", max_steps=1, use_cpu=True, report_to=[], hub_model_id=NAME
    )
    trainer = Trainer(model, arguments, train_dataset=[pair], processing_class=tiny_tokenizer)
    trainer.train()
    with at_hub() as hub:
        trainer.push_to_hub()

    files = hub.repositories[NAME].files
    assert files.keys() == {*published, ".gitattributes", "training_args.bin"}
    changed = {name for name in published if files[name] != published[name]}
    assert changed == {"README.md", "config.json", "model.safetensors"}  # trained, by the Trainer
    now, before = (json.loads(one["config.json"]) for one in (files, published))
    assert {name for name in before if now[name] != before[name]} == {"use_cache"}
