"""An evaluation finds what a plain loop and sacrebleu find, whoever shares the work."""

import math
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
import sacrebleu
import torch
from torch import nn

from training import evaluation as evaluation_module
from training.evaluation import Evaluation, Score
from training.recipe import EvaluationSection

PAIRS = [
    ("Where is the train station?", "Wo ist der Bahnhof?"),
    ("Two dogs are playing in the snow.", "Zwei Hunde spielen im Schnee."),
    ("A dog.", "Ein Hund."),
    ("Two men look at the children in the snow.", "Zwei Männer schauen die Kinder an."),
    ("The hat is red.", "Der Hut ist rot."),
]
SECTION = EvaluationSection(num_beams=2, batch_tokens=60, samples=2)


def score_of(loss, translations=()):
    figures = {"bleu": 2.0, "chrf": 3.0, "exact": 0.0}
    signatures = {"bleu_signature": "", "chrf_signature": ""}
    return Score(loss=loss, translations=list(translations), **figures, **signatures)


@pytest.fixture
def model(build_tiny, tiny_tokenizer):
    return build_tiny(
        vocab_size=len(tiny_tokenizer),
        pad_token_id=tiny_tokenizer.pad_token_id,
        eos_token_id=tiny_tokenizer.eos_token_id,
        decoder_start_token_id=tiny_tokenizer.pad_token_id,
        label_smoothing=0.1,
    )


@pytest.fixture
def evaluate(tiny_tokenizer):
    def look(pairs=PAIRS, rank=0, processes=1, **section):
        accelerator = SimpleNamespace(
            process_index=rank, num_processes=processes, is_main_process=rank == 0
        )
        return Evaluation(pairs, tiny_tokenizer, replace(SECTION, **section), accelerator)

    return look


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.setattr(evaluation_module, "gather_object", lambda found: found)


def test_the_loss_is_that_of_a_plain_loop(model, evaluate, tiny_tokenizer):
    total, words = 0.0, 0
    for source, target in PAIRS:
        ids, labels = (
            torch.tensor([tiny_tokenizer(text)["input_ids"]]) for text in (source, target)
        )
        read = torch.cat([torch.tensor([[tiny_tokenizer.pad_token_id]]), labels[:, :-1]], dim=1)
        with torch.no_grad():
            logits = model(input_ids=ids, decoder_input_ids=read).logits
        total += float(nn.functional.cross_entropy(logits[0], labels[0], reduction="sum"))
        words += labels.numel()

    score = evaluate().of(model)

    assert score.loss == pytest.approx(total / words, rel=1e-5)
    assert score.perplexity == pytest.approx(math.exp(total / words), rel=1e-4)


def test_bleu_and_chrf_are_those_of_sacrebleu(model, evaluate):
    score = evaluate().of(model)

    references = [[target for _, target in PAIRS]]
    assert score.bleu == sacrebleu.corpus_bleu(score.translations, references).score
    assert score.chrf == sacrebleu.corpus_chrf(score.translations, references).score
    assert "tok:13a" in score.bleu_signature
    are_exact = [one == pair[1] for one, pair in zip(score.translations, PAIRS, strict=True)]
    assert score.exact == 100 * sum(are_exact) / len(PAIRS)


@pytest.mark.parametrize("size", [0, 1])
def test_translations_are_those_of_generate_in_the_order_of_the_pairs(
    size, model, evaluate, tiny_tokenizer
):
    score = evaluate(no_repeat_ngram_size=size).of(model)

    wanted = {"num_beams": 2, "length_penalty": 0.6, "no_repeat_ngram_size": size}
    for (source, _), translation in zip(PAIRS, score.translations, strict=True):
        ids = tiny_tokenizer(source, return_tensors="pt")["input_ids"]
        written = model.generate(input_ids=ids, **wanted)
        assert tiny_tokenizer.decode(written[0], skip_special_tokens=True) == translation


@pytest.mark.parametrize("processes", [2, 7])
def test_shared_by_processes_the_score_is_that_of_one(processes, model, evaluate, monkeypatch):
    """More of them than pairs: some have nothing to do."""
    alone, found = evaluate().of(model), []

    def keep(part):
        found.extend(part)
        return found

    monkeypatch.setattr(evaluation_module, "gather_object", keep)
    for rank in range(processes - 1):
        with suppress(KeyError):  # not all are translated yet
            evaluate(rank=rank, processes=processes).of(model)
    shared = evaluate(rank=processes - 1, processes=processes).of(model)

    assert shared.translations == alone.translations
    assert shared.loss == pytest.approx(alone.loss, rel=1e-6)
    assert (shared.bleu, shared.chrf) == (alone.bleu, alone.chrf)


@pytest.mark.parametrize("is_training", [True, False])
def test_a_model_is_left_as_it_was(is_training, model, evaluate):
    model.train(is_training)
    before, drawn = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()

    evaluate().of(model)

    assert model.training is is_training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), drawn)


def test_batches_keep_to_their_tokens(evaluate):
    one = evaluate(PAIRS * 4, batch_tokens=20)
    batches = one._batches()

    for batch in batches:
        longest = max(len(one.tokens[number][0]) for number in batch)
        assert len(batch) == 1 or len(batch) * longest <= 20
    assert sorted(number for batch in batches for number in batch) == list(range(20))


def test_samples_are_the_first_pairs(evaluate):
    translations = [f"translation {n}" for n in range(5)]
    score = score_of(1.0, translations)

    assert evaluate().samples(score) == [
        {"source": source, "reference": reference, "translation": f"translation {n}"}
        for n, (source, reference) in enumerate(PAIRS[:2])
    ]


@pytest.mark.parametrize(("best_by", "quality"), [("loss", -1.0), ("bleu", 2.0), ("chrf", 3.0)])
def test_quality_is_the_higher_the_better(best_by, quality):
    assert score_of(1.0).quality(best_by) == quality


def test_a_huge_loss_has_a_perplexity():
    assert math.isfinite(score_of(1e9).perplexity)
