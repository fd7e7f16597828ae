"""`push_to_hub` of model, tokenizer and Trainer brings the folder that `publish` makes."""

import json
from functools import partial

import pytest
import torch
from datasets import Dataset
from huggingface_hub import ModelCard
from small_training import train
from transformers import AutoModelForSeq2SeqLM, Seq2SeqTrainer, Seq2SeqTrainingArguments

from training.trainer_batches import TranslationTrainer
from vanilla_transformer.publishable_folder import make_folder

NAME = "alice/toy"
OURS = partial(TranslationTrainer, source_tokens=40, target_tokens=40)


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


def test_a_card_tells_of_a_run_only_while_the_weights_are_its_result(
    small_training, tmp_path, at_hub
):
    assert train(small_training, tmp_path / "run") == 0
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "run" / "model")
    with at_hub() as hub:
        model.push_to_hub("alice/as-trained")
        torch.nn.init.zeros_(model.lm_head.weight)
        model.push_to_hub("alice/trained-further")
        model.save_pretrained(tmp_path / "run" / "model")
        model.push_to_hub("alice/saved-over-it")

    told = {
        name: bool(ModelCard(repository.files["README.md"].decode()).data.eval_results)
        for name, repository in hub.repositories.items()
    }
    assert told == {
        "alice/as-trained": True,
        "alice/trained-further": False,
        "alice/saved-over-it": False,
    }


@pytest.fixture
def trainer_of(model, tiny_tokenizer, tmp_path):
    def make(trainer_class):
        arguments = Seq2SeqTrainingArguments(
            tmp_path / "run", max_steps=1, use_cpu=True, report_to=[], hub_model_id=NAME
        )
        pair = {"input_ids": [5, 6, 2], "labels": [8, 2]}
        return trainer_class(
            model,
            arguments,
            train_dataset=Dataset.from_list([pair]),
            processing_class=tiny_tokenizer,
        )

    return make


@pytest.mark.parametrize(
    ("trainer_class", "records"),
    [(OURS, set()), (Seq2SeqTrainer, {"training_args.bin"})],
    ids=["ours", "library"],
)
def test_a_trainer_brings_what_publish_brings(
    trainer_class, records, trainer_of, published, at_hub
):
    trainer = trainer_of(trainer_class)
    trainer.train()
    with at_hub() as hub:
        trainer.push_to_hub()

    files = hub.repositories[NAME].files
    assert files.keys() == {*published, ".gitattributes", *records}
    changed = {name for name in published if files[name] != published[name]}
    own_card = {"README.md"} if records else set()
    assert changed == {"config.json", "model.safetensors", *own_card}  # trained, by the Trainer
    now, before = (json.loads(one["config.json"]) for one in (files, published))
    assert {name for name in before if now[name] != before[name]} == {"use_cache"}


def test_a_card_that_somebody_wrote_on_the_hub_stays_with_our_trainer(trainer_of, at_hub):
    trainer = trainer_of(OURS)
    with at_hub() as hub:
        trainer.push_to_hub()
        hub.repositories[NAME].files["README.md"] = b"---\nlicense: mit\n---\n\n# By hand\n"
        trainer.push_to_hub()

    assert ModelCard(hub.repositories[NAME].files["README.md"].decode()).text.strip() == "# By hand"


def test_facts_told_to_our_trainer_stand_in_the_librarys_card(trainer_of, tmp_path):
    trainer = trainer_of(OURS)
    trainer.create_model_card(license="cc-by-4.0", language="de")

    data = ModelCard.load(tmp_path / "run" / "README.md").data
    assert (data.license, data.language) == ("cc-by-4.0", ["de"])
