"""The library's Trainer trains this model as it trains its own, with nothing special said."""

import time

import numpy as np
import pytest
import torch
from scripts.toy_translation import (
    make_collator,
    make_examples,
    make_model,
    make_pairs,
    make_tokenizer,
)
from torch.nn import functional
from transformers import (
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from vanilla_transformer.fast_linear import FastLinear

TOKENIZER = make_tokenizer()
EXAMPLES = make_examples(TOKENIZER, make_pairs(200))
FEW = EXAMPLES[:60]
IGNORED = -100
ON_CPU = {
    "use_cpu": True,
    "report_to": [],
    "disable_tqdm": True,
    "logging_steps": 1,
    "save_strategy": "no",
}
PLAIN_DESCENT = {"optim": "sgd", "learning_rate": 0.1}  # Adam would magnify rounding errors


class KilledError(Exception):
    """Somebody pulled the plug."""


class KillAt(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise KilledError


def exact_matches(prediction):
    texts = (
        TOKENIZER.batch_decode(np.where(ids == IGNORED, 0, ids), skip_special_tokens=True)
        for ids in prediction
    )
    return {"exact": np.mean([ours == theirs for ours, theirs in zip(*texts, strict=True)])}


def make_trainer(model, folder, examples=FEW, **changes):
    """A Seq2SeqTrainer if it shall generate, the plain Trainer if not."""
    generates = changes.get("predict_with_generate", False)
    arguments = Seq2SeqTrainingArguments if generates else TrainingArguments
    return (Seq2SeqTrainer if generates else Trainer)(
        model=model,
        args=arguments(output_dir=folder, **{**ON_CPU, **changes}),
        train_dataset=examples,
        eval_dataset=examples,
        data_collator=make_collator(TOKENIZER, model),
        processing_class=TOKENIZER,
        compute_metrics=exact_matches if generates else None,
    )


def trained(model, folder, **changes):
    trainer = make_trainer(model, folder, **changes)
    trainer.train()
    return trainer


def kill(trainer, step):
    trainer.add_callback(KillAt(step))
    with pytest.raises(KilledError):
        trainer.train()


def losses_of(trainer):
    return [float(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry]


def make_rectangle(model, examples=FEW):
    return make_collator(TOKENIZER, model)(examples)


def assert_same_weights(model, other, **tolerance):
    torch.testing.assert_close(dict(model.state_dict()), dict(other.state_dict()), **tolerance)


# Learning


def test_a_killed_and_resumed_training_learns_a_toy_language_to_the_last_word(tmp_path):
    settings = {
        "examples": EXAMPLES,
        "predict_with_generate": True,
        "generation_max_length": 12,
        "bf16": True,
        "gradient_accumulation_steps": 2,
        "per_device_train_batch_size": 20,
        "per_device_eval_batch_size": 100,
        "learning_rate": 2e-3,
        "warmup_steps": 50,
        "num_train_epochs": 50,
        "save_strategy": "steps",
        "save_steps": 120,
    }
    started = time.process_time()

    kill(make_trainer(make_model(dropout=0.0), tmp_path, **settings), step=150)
    trainer = make_trainer(make_model(seed=1, dropout=0.0), tmp_path, **settings)
    trainer.train(resume_from_checkpoint=True)

    assert trainer.model.config.label_smoothing == 0.1
    assert trainer.evaluate()["eval_exact"] == 1.0
    assert time.process_time() - started < 60


def test_a_resumed_training_ends_with_the_weights_of_an_uninterrupted_one(tmp_path):
    settings = {
        "predict_with_generate": True,
        "bf16": True,
        "gradient_accumulation_steps": 2,
        "per_device_train_batch_size": 6,
        "max_steps": 8,
        "save_strategy": "steps",
        "save_steps": 3,  # of 5 in an epoch
    }
    whole = trained(make_model(), tmp_path / "whole", **settings)

    kill(make_trainer(make_model(), tmp_path / "killed", **settings), step=4)
    resumed = make_trainer(make_model(seed=1), tmp_path / "killed", **settings)
    resumed.train(resume_from_checkpoint=True)

    assert_same_weights(resumed.model, whole.model, rtol=0, atol=0)


def test_grouped_lengths_and_gradient_checkpointing_learn_alike_and_well(tmp_path):
    settings = {
        "train_sampling_strategy": "group_by_length",
        "per_device_train_batch_size": 20,
        "learning_rate": 2e-3,
        "num_train_epochs": 10,
    }
    plain = trained(make_model(), tmp_path, **settings)
    checkpointed = trained(make_model(), tmp_path, gradient_checkpointing=True, **settings)

    assert losses_of(checkpointed) == pytest.approx(losses_of(plain), abs=1e-4)
    assert np.mean(losses_of(checkpointed)[-3:]) < 0.8 * losses_of(checkpointed)[0]


def test_no_logits_are_computed_while_a_trainer_trains(tmp_path, monkeypatch):
    widths = []
    forward = FastLinear.forward

    def noting_forward(self, hidden_states):
        widths.append(self.out_features)
        return forward(self, hidden_states)

    monkeypatch.setattr(FastLinear, "forward", noting_forward)
    model = make_model()
    trained(model, tmp_path, bf16=True, max_steps=2)

    assert widths
    assert model.config.vocab_size not in widths


@pytest.mark.slow
def test_a_compiled_training_has_the_losses_of_a_plain_one(tmp_path):
    settings = {"per_device_train_batch_size": 60, "max_steps": 3}
    plain = trained(make_model(dropout=0.0), tmp_path, **settings)
    compiled = trained(make_model(dropout=0.0), tmp_path, torch_compile=True, **settings)

    assert losses_of(compiled) == pytest.approx(losses_of(plain), abs=1e-3)


# The loss


@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize(("ours", "trainers"), [(0.0, 0.1), (0.1, 0.1)])
def test_labels_are_smoothed_once_whoever_is_asked_to(tmp_path, ours, trainers, accumulation):
    settings = {
        "per_device_train_batch_size": 6,
        "gradient_accumulation_steps": accumulation,
        "max_steps": 3,
        **PLAIN_DESCENT,
    }
    expected = trained(make_model(dropout=0.0, label_smoothing=0.1), tmp_path, **settings)

    model = make_model(dropout=0.0, label_smoothing=ours)
    asked = trained(model, tmp_path, label_smoothing_factor=trainers, **settings)

    assert losses_of(asked) == pytest.approx(losses_of(expected), abs=1e-3)
    assert_same_weights(asked.model, expected.model, rtol=0, atol=1e-6)


def test_accumulated_batches_train_like_one_large_batch(tmp_path):
    settings = {"max_steps": 3, **PLAIN_DESCENT}
    one = {"per_device_train_batch_size": 12}
    parts = {"per_device_train_batch_size": 3, "gradient_accumulation_steps": 4}
    large = trained(make_model(dropout=0.0), tmp_path, **settings, **one)
    accumulated = trained(make_model(dropout=0.0), tmp_path, **settings, **parts)

    assert losses_of(accumulated) == pytest.approx(losses_of(large), abs=1e-4)
    assert_same_weights(accumulated.model, large.model, rtol=0, atol=1e-6)


def test_the_evaluation_loss_is_the_plain_negative_log_likelihood(tmp_path):
    model = make_model(label_smoothing=0.4)
    trainer = make_trainer(model, tmp_path, per_device_eval_batch_size=len(FEW))
    batch = make_rectangle(model)
    with torch.no_grad():
        logits = model.eval()(**batch).logits

    expected = functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected.item(), rel=1e-5)


def test_predictions_are_the_logits_of_every_batch_side_by_side(tmp_path):
    model = make_model()
    trainer = make_trainer(model, tmp_path, per_device_eval_batch_size=16)
    batch = make_rectangle(model)
    with torch.no_grad():
        logits = model.eval()(**batch).logits

    prediction = trainer.predict(FEW)

    is_word = batch["labels"].numpy() != IGNORED
    np.testing.assert_array_equal(prediction.label_ids, batch["labels"])
    np.testing.assert_allclose(prediction.predictions[0][is_word], logits[is_word], atol=1e-4)


def test_evaluations_of_the_trainer_never_cut_later_translations(tmp_path):
    """The trainer leaves the library's default of 20 tokens in the model's settings."""
    model = make_model()
    torch.nn.init.zeros_(model.get_input_embeddings().weight[TOKENIZER.eos_token_id])  # no end
    source = torch.full((1, 30), 5)
    before = model.eval().generate(source, num_beams=1)
    trainer = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(tmp_path, predict_with_generate=True, **ON_CPU),
        data_collator=make_collator(TOKENIZER, model),
    )

    trainer.predict(FEW[:2])

    assert before.shape[1] > 20
    assert model.generate(source, num_beams=1).equal(before)
