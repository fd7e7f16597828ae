"""Our search finds what the library's finds, and, where beams are wide, what is the best of all."""

import itertools

import pytest
import torch
from transformers import LogitsProcessor, LogitsProcessorList

from vanilla_transformer import generation_call
from vanilla_transformer.beam_search import GnmtPenalty, best_of_rows
from vanilla_transformer.target_decoder import TargetDecoder

VOCABULARY = 12
SMALL = {
    "vocab_size": VOCABULARY,
    "d_model": 8,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "tie_word_embeddings": False,  # tied, it would hardly say anything but the word before
}


@pytest.fixture
def library_loops(monkeypatch):
    """Calls inside go through the library's own loops."""

    def through_the_library(generate, *args, **options):
        with monkeypatch.context() as context:
            context.setattr(generation_call.GenerationCall, "is_plain", lambda call: False)
            return generate(*args, **options)

    return through_the_library


@pytest.fixture
def opinionated(build_tiny):
    """A small model with a seed of its own and clear preferences; in float64 nothing ties."""

    def build(seed, **changes):
        torch.manual_seed(seed)
        model = build_tiny(**(SMALL | changes)).double()
        with torch.no_grad():
            model.lm_head.weight.mul_(6)
        return model

    return build


def sources(batch, length=6):
    ids = torch.randint(3, VOCABULARY, (batch, length))
    lengths = torch.randint(1, length + 1, (batch,))
    mask = (torch.arange(length) < lengths.unsqueeze(1)).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


WAYS = [
    {},
    {"early_stopping": True},
    {"early_stopping": False},
    {"length_penalty_type": "standard", "length_penalty": 1.0},
    {"length_penalty_type": "standard", "length_penalty": -0.5},
    {"length_penalty": 0.0},
    {"bad_words_ids": [[5], [4, 6]]},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 3, "eos_token_id": [2, 7, 9]},
    {"no_repeat_ngram_size": 2, "repetition_penalty": 1.3},
    {"min_new_tokens": 4},
    {"max_new_tokens": 6, "forced_eos_token_id": 2},
    {"max_new_tokens": 1},
    {"eos_token_id": [2, 7, 9]},
    {"repetition_penalty": 1.3},
    {"max_extra_tokens": 2},
]


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("num_beams", [1, 2, 4, 5])
def test_the_search_finds_what_the_library_s_finds(num_beams, options, opinionated, library_loops):
    for seed in range(4):
        model, batch = opinionated(seed), sources(5)
        asked = {"num_beams": num_beams, "max_extra_tokens": 6, **options}
        for returned in {1, num_beams}:
            ours = model.generate(**batch, **asked, num_return_sequences=returned)
            library = library_loops(model.generate, **batch, **asked, num_return_sequences=returned)
            assert ours.equal(library)


@pytest.mark.slow
@pytest.mark.parametrize("num_beams", range(1, 13))
def test_500_models_agree_with_the_library(num_beams, opinionated, library_loops):
    for seed in range(num_beams, 500, 12):
        model, batch = opinionated(seed), sources(4)
        for options in WAYS:
            asked = {"num_beams": num_beams, "max_extra_tokens": 3, **options}
            ours = model.generate(**batch, **asked, num_return_sequences=num_beams)
            library = library_loops(
                model.generate, **batch, **asked, num_return_sequences=num_beams
            )
            assert ours.equal(library), (seed, options)


def log_probability(model, source, target):
    """Of a whole target after its start, word by word."""
    words = torch.tensor([[1, *target]])
    logits = model(**source, decoder_input_ids=words[:, :-1]).logits
    return logits.log_softmax(-1).gather(2, words[:, 1:, None]).sum()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
def test_wide_beams_find_the_best_of_all_targets(seed, alpha, opinionated):
    model, source = opinionated(seed, vocab_size=5), {"input_ids": torch.tensor([[3, 4, 2]])}
    longest, words = 4, [0, 1, 3, 4]
    targets = [
        (*body, 2) for length in range(longest) for body in itertools.product(words, repeat=length)
    ] + list(itertools.product(words, repeat=longest))
    with torch.no_grad():
        scores = {
            target: float(log_probability(model, source, target)) / ((5 + len(target)) / 6) ** alpha
            for target in targets
        }
    best = sorted(targets, key=scores.get, reverse=True)[:3]

    found = model.generate(
        **source,
        num_beams=len(words) ** longest,
        num_return_sequences=3,
        length_penalty=alpha,
        max_new_tokens=longest,
        return_dict_in_generate=True,
    )

    for sequence, score, target in zip(found.sequences, found.sequences_scores, best, strict=True):
        assert tuple(sequence[1 : 1 + len(target)].tolist()) == target
        assert float(score) == pytest.approx(scores[target], abs=1e-5)


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("num_beams", [1, 4])
def test_a_sentence_never_depends_on_its_batch(num_beams, options, opinionated, monkeypatch):
    monkeypatch.setattr(generation_call, "SENTENCES_AT_ONCE", 3)
    model, batch = opinionated(7), sources(8, length=9)
    asked = {"num_beams": num_beams, "max_extra_tokens": 6, **options}

    together = model.generate(**batch, **asked)

    for row, target in enumerate(together):
        length = int(batch["attention_mask"][row].sum())
        alone = model.generate(batch["input_ids"][row : row + 1, :length], **asked)[0]
        assert target[: len(alone)].equal(alone)
        assert len(set(target[len(alone) :].tolist())) <= 1


@pytest.mark.parametrize("num_beams", [1, 4])
def test_a_target_is_at_most_50_words_longer_than_its_source(num_beams, opinionated):
    model, batch = opinionated(3), sources(6, length=9)
    with torch.no_grad():
        model.model.shared.weight[2] = 0  # the end is never the best

    for row, target in enumerate(
        model.generate(**batch, num_beams=num_beams, bad_words_ids=[[2]]).tolist()
    ):
        assert len(target) <= 1 + 9 + 50
        said = [word for word in target[1:] if word != (0 if num_beams == 1 else 2)]
        assert len(said) <= int(batch["attention_mask"][row].sum()) + 50


@pytest.mark.parametrize("num_beams", [1, 4])
def test_sentences_leave_when_they_end_though_repetitions_are_banned(
    num_beams, opinionated, monkeypatch
):
    model, batch, sizes = opinionated(7), sources(8), []
    step = TargetDecoder.step

    def counted(decoder, words):
        sizes.append(len(words))
        return step(decoder, words)

    def translate(**options):
        sizes.clear()
        found = model.generate(**batch, num_beams=num_beams, max_extra_tokens=6, **options)
        return found, sizes.copy()

    monkeypatch.setattr(TargetDecoder, "step", counted)
    plain, plain_sizes = translate()
    unbothered, same_sizes = translate(no_repeat_ngram_size=20)
    changed, sizes_now = translate(no_repeat_ngram_size=1)

    assert unbothered.equal(plain)
    assert same_sizes == plain_sizes
    assert not changed.equal(plain)
    assert sizes_now[-1] < sizes_now[0]


class Counting(LogitsProcessor):
    """A processor that knows the rows of its batch."""

    def __init__(self):
        self.rows = []

    def __call__(self, input_ids, scores):
        self.rows.append(len(input_ids))
        scores[:, 3 + len(input_ids) % 2] -= 1.0
        return scores


@pytest.mark.parametrize("num_beams", [1, 3])
def test_custom_processors_see_whole_batches(num_beams, opinionated, library_loops):
    model, batch, seen = opinionated(5), sources(4), Counting()
    asked = {"num_beams": num_beams, "logits_processor": LogitsProcessorList([seen])}

    ours = model.generate(**batch, **asked)

    assert set(seen.rows) == {4 * num_beams}
    assert ours.equal(library_loops(model.generate, **batch, **asked))


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("columns", [128 * 40, 1000, 12])
def test_the_best_of_rows_are_the_best(rows, count, columns):
    scores = torch.randn(rows, columns)

    values, places = best_of_rows(scores, count)

    assert values.equal(scores.topk(count, dim=1).values)
    assert scores.gather(1, places).equal(values)


def test_the_penalty_is_that_of_gnmt():
    assert 7 ** GnmtPenalty(0.6) == pytest.approx(2**0.6)
    assert GnmtPenalty(1.0).of(torch.tensor([1, 13])) == pytest.approx(torch.tensor([1.0, 3.0]))


def test_an_unknown_penalty_is_refused(tiny_model, sentence_pairs):
    with pytest.raises(ValueError, match="length_penalty_type must be one of gnmt, standard"):
        tiny_model.generate(sentence_pairs["input_ids"], length_penalty_type="gnmtt")
