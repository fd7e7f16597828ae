"""The example of fine-tuning does what it says: whole or by LoRA, as a command, resumed."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
import typer
from conftest import SENTENCES, TINY
from peft import PeftModel
from safetensors.torch import load_file
from scripts.fresh_process import REPOSITORY, run_fresh
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    T5Config,
    T5ForConditionalGeneration,
    pipeline,
)
from typer.testing import CliRunner

from training import finetune
from training.finetune import Options, fine_tune
from vanilla_transformer import VanillaTransformerConfig, VanillaTransformerForConditionalGeneration
from vanilla_transformer.translators import load_translator

QUICK = ("--max-steps", "12", "--every-steps", "6", "--tokens", "200", "--warmup-steps", "2")
FASTER = ("--learning-rate", "0.01")


@pytest.fixture(scope="module")
def place(bundle, tmp_path_factory):
    """A folder with a model, its tokenizer and text."""
    folder = tmp_path_factory.mktemp("place")
    torch.manual_seed(0)
    sizes = {**TINY, "vocab_size": len(AutoTokenizer.from_pretrained(bundle))}
    model = VanillaTransformerForConditionalGeneration(VanillaTransformerConfig(**sizes))
    model.save_pretrained(folder / "model")
    AutoTokenizer.from_pretrained(bundle).save_pretrained(folder / "model")
    (folder / "train.tsv").write_text(SENTENCES * 4, encoding="utf-8")
    (folder / "val.tsv").write_text(SENTENCES, encoding="utf-8")
    return folder


@pytest.fixture
def options(place, tmp_path):
    return Options(
        model=place / "model",
        train=[str(place / "train.tsv")],
        validation=[str(place / "val.tsv")],
        output=tmp_path / "new",
        max_steps=6,
        every_steps=4,
        warmup_steps=2,
        learning_rate=0.01,
        tokens=200,
    )


@pytest.fixture(scope="module")
def finetuned(place):
    """The folder that the command leaves."""
    command = (
        *(REPOSITORY / "training" / "finetune.py", "model", "--train", "train.tsv"),
        *("--validation", "val.tsv", "--output", "new", *QUICK, *FASTER),
    )
    run_fresh(*command, folder=place, PYTHONPATH=str(REPOSITORY))
    return place / "new"


def history_of(folder):
    last = max(folder.glob("checkpoint-*"), key=lambda one: int(one.name.split("-")[1]))
    return json.loads((last / "trainer_state.json").read_text())["log_history"]


def test_the_command_leaves_a_model_that_translates(finetuned):
    translate = pipeline("translation", model=str(finetuned), max_new_tokens=5)

    assert isinstance(translate("Where is it?")[0]["translation_text"], str)
    config = translate.model.generation_config
    assert (config.num_beams, config.max_extra_tokens, config.max_length) == (4, 50, None)


def test_the_loss_falls_and_scores_are_logged_with_their_signatures(finetuned):
    history = history_of(finetuned)
    losses = [entry["loss"] for entry in history if "loss" in entry]
    scores = [entry for entry in history if "eval_bleu" in entry]

    assert losses[-1] < losses[0] - 0.2
    assert scores[-1]["eval_loss"] < scores[0]["eval_loss"]
    assert scores[-1]["eval_bleu_signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|")
    assert "eval_chrf" in scores[-1]


@pytest.mark.parametrize("best", [4, 8])
def test_what_is_left_is_the_best_by_chrf_even_if_bleu_is_always_zero(best, options, monkeypatch):
    chrf = iter([60 if best == 4 else 20, 40, 50])
    monkeypatch.setattr(finetune, "score", lambda *_, **__: {"bleu": 0.0, "chrf": next(chrf)})

    fine_tune(replace(options, max_steps=8))

    left, expected = (
        load_file(folder / "model.safetensors")
        for folder in (options.output, options.output / f"checkpoint-{best}")
    )
    assert all(torch.equal(left[name], weight) for name, weight in expected.items())


def test_a_resumed_run_passes_over_a_broken_checkpoint_and_ends_the_same(options, caplog):
    fine_tune(options)
    whole = load_file(options.output / "model.safetensors")
    (options.output / "checkpoint-6" / "optimizer.pt").unlink()
    (options.output / "model.safetensors").unlink()

    fine_tune(options, resume=True)

    assert "passing over" in caplog.text
    resumed = load_file(options.output / "model.safetensors")
    assert all(torch.equal(resumed[name], weight) for name, weight in whole.items())


def test_lora_trains_an_adapter_alone_which_loads_and_merges(options):
    before = AutoModelForSeq2SeqLM.from_pretrained(options.model)
    sources = AutoTokenizer.from_pretrained(options.model)(["Where is it?"], return_tensors="pt")

    fine_tune(replace(options, lora=True))
    adapted = PeftModel.from_pretrained(
        AutoModelForSeq2SeqLM.from_pretrained(options.model), options.output
    )
    by_itself = AutoModelForSeq2SeqLM.from_pretrained(options.output)

    assert not (options.output / "model.safetensors").exists()
    names = load_file(options.output / "adapter_model.safetensors")
    assert len(names) == 2 * 2 * (2 + 2 * 2)  # A and B of q and v, in every attention
    assert any(weight.any() for name, weight in names.items() if "lora_B" in name)
    labels = torch.arange(3, 15).unsqueeze(0)
    with torch.no_grad(), adapted.disable_adapter():
        untouched = adapted(**sources, labels=labels).logits
        assert torch.equal(untouched, before(**sources, labels=labels).logits)
    with torch.no_grad():
        logits = adapted(**sources, labels=labels).logits
        assert not torch.allclose(logits, untouched, atol=1e-3)
        torch.testing.assert_close(by_itself(**sources, labels=labels).logits, logits)
        words = adapted.generate(**sources, max_new_tokens=8)
        merged = adapted.merge_and_unload()
        torch.testing.assert_close(merged(**sources, labels=labels).logits, logits)
    assert torch.equal(merged.generate(**sources, max_new_tokens=8), words)
    for precision in ("float32", "int8"):  # as the command line loads it, by its folder
        translate = load_translator(str(options.output), precision)
        assert isinstance(translate.model, VanillaTransformerForConditionalGeneration)
        if precision == "float32":
            assert torch.equal(translate.model.generate(**sources, max_new_tokens=8), words)


@pytest.mark.parametrize("lora", [False, True])
def test_a_model_saved_in_16_bits_is_trained_in_32(lora, place, tmp_path):
    tokenizer, model = finetune.load(place / "model", lora=False)
    model.bfloat16().save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)

    _, model = finetune.load(tmp_path, lora=lora)

    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


def test_a_model_whose_layers_lora_does_not_find_is_refused(options, tmp_path):
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    other = T5ForConditionalGeneration(T5Config(vocab_size=len(tokenizer), **sizes))
    other.save_pretrained(tmp_path / "t5")
    tokenizer.save_pretrained(tmp_path / "t5")

    with pytest.raises(ValueError, match=r"without q_proj and v_proj: name its own .* --lora out"):
        fine_tune(replace(options, model=tmp_path / "t5", lora=True))


def test_a_resumed_lora_ends_with_the_same_adapter(options):
    options = replace(options, lora=True)
    fine_tune(options)
    name = "adapter_model.safetensors"
    whole = load_file(options.output / name)
    shutil.rmtree(options.output / "checkpoint-6")

    fine_tune(options, resume=True)

    resumed = load_file(options.output / name)
    assert all(torch.equal(resumed[name], weight) for name, weight in whole.items())


@pytest.fixture
def refused(place, tmp_path):
    """What the command says when it refuses; arguments given replace the good ones."""
    app = typer.Typer()
    app.command()(finetune.main)

    def run(model=place / "model", *flags, **changed):
        good = {"train": place / "train.tsv", "validation": place / "val.tsv"}
        named = {**good, "output": tmp_path / "new", **changed}
        arguments = [str(part) for name, value in named.items() for part in (f"--{name}", value)]
        result = CliRunner().invoke(app, [str(model), *arguments, *QUICK, *flags])
        lines = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
        assert result.exit_code == 1
        assert len(lines) == 1
        return lines[0]

    return run


def test_a_folder_without_a_model_is_refused(refused, tmp_path):
    assert "must be the folder of a saved model" in refused(tmp_path / "nothing")
    (tmp_path / "adapter_config.json").write_text("{}")
    assert "merge_and_unload()" in refused(tmp_path)


def test_missing_and_empty_text_is_refused(refused, tmp_path):
    (tmp_path / "empty.tsv").write_text("")
    (tmp_path / "blank.tsv").write_text("\t\n\t\n")

    assert "There is no file" in refused(train=tmp_path / "nothing.tsv")
    assert "is empty" in refused(train=tmp_path / "empty.tsv")
    assert "must hold a pair of sentences" in refused(validation=tmp_path / "blank.tsv")


@pytest.mark.parametrize("languages", ["en", "en,de,fr", "en,en", "en,"])
def test_languages_are_two(refused, languages):
    assert "two names like en,de" in refused(languages=languages)


def test_text_of_which_every_pair_is_too_long_is_refused(refused, place):
    assert "at least one pair" in refused(place / "model", "--max-length", "2")


def test_a_folder_that_holds_something_is_kept(refused, finetuned, place):
    before = (finetuned / "model.safetensors").read_bytes()

    assert "go on with --resume or replace" in refused(output=finetuned)
    assert "another folder than the model's" in refused(output=place / "model")
    assert "got both" in refused(place / "model", "--resume", "--force", output=finetuned)
    assert (finetuned / "model.safetensors").read_bytes() == before


def test_a_folder_is_replaced_where_one_insists(options):
    for folder in (options.output / "checkpoint-90", options.output / "mine"):
        folder.mkdir(parents=True)
    (options.output / "model.safetensors").write_text("of an earlier run")

    fine_tune(replace(options, lora=True, max_steps=2), force=True)

    assert {one.name for one in options.output.iterdir() if one.is_dir()} == {
        *("mine", "checkpoint-2"),
    }
    assert not (options.output / "model.safetensors").exists()


def test_a_tokenizer_of_more_words_than_the_model_knows_is_refused(refused, place, tmp_path):
    shutil.copytree(place / "model", tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(place / "model")
    tokenizer.add_tokens(["one", "two"])
    tokenizer.save_pretrained(tmp_path / "model")

    assert "must know no more words than its model" in refused(tmp_path / "model")


def test_a_checkpoint_without_its_optimizer_is_refused(refused, options):
    fine_tune(replace(options, max_steps=2))
    (options.output / "checkpoint-2" / "optimizer.pt").unlink()

    assert "optimizer.pt is missing" in refused(options.model, "--resume", output=options.output)


def test_processes_that_do_not_know_of_each_other_are_refused(refused, monkeypatch):
    monkeypatch.setattr(finetune.os, "environ", {"WORLD_SIZE": "2"})

    assert "ACCELERATE_USE_CPU=true" in refused()


def test_control_c_says_how_to_go_on(options, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(finetune, "fine_tune", interrupt)
    command = typer.Typer()
    command.command()(finetune.main)
    train, validation = str(options.train[0]), str(options.validation[0])
    places = ["--train", train, "--validation", validation, "--output", str(options.output)]

    result = CliRunner().invoke(command, [str(options.model), *places])

    assert "--resume goes on after the last checkpoint" in str(result.exception)
