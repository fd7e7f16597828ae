"""What never changes a result, whatever the model: padding, batching, caching, kernels, saving."""

import copy
import tempfile
from itertools import product
from pathlib import Path

import pytest
import torch
from accelerate.utils import convert_outputs_to_fp32
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional
from torch.testing import assert_close
from transformers import DynamicCache, EncoderDecoderCache, StaticCache
from transformers.modeling_outputs import BaseModelOutput

from vanilla_transformer import attention_plan
from vanilla_transformer import modeling_vanilla_transformer as modeling
from vanilla_transformer.attention_scores import SCORES
from vanilla_transformer.position_encodings import POSITION_ENCODINGS
from vanilla_transformer.smoothed_loss import LossWithLazyLogits, smoothed_cross_entropy

BOTH_MODES = pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
ONE_TABLE, TWO_TABLES = {}, {"share_encoder_decoder_embeddings": False}
TWO_VOCABULARIES = TWO_TABLES | {"decoder_vocab_size": 33}
HEADS = st.sampled_from([1, 2, 4])
FIELDS = {
    "dropout": st.just(0.0),  # training mode too must give the same number twice
    "encoder_layers": st.integers(1, 2),
    "decoder_layers": st.integers(1, 2),
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "d_k": st.none() | st.integers(1, 6),
    "d_v": st.none() | st.integers(1, 6),
    "position_encoding": st.sampled_from(sorted(POSITION_ENCODINGS)),
    "attention_window": st.none() | st.integers(1, 4),
    "scale_embedding": st.booleans(),
}


def fields_with(**fields):
    tables = st.sampled_from([ONE_TABLE, TWO_TABLES, TWO_VOCABULARIES])
    return st.builds(lambda a, b: a | b, st.fixed_dictionaries(FIELDS | fields), tables)


ANY_FIELDS = fields_with(attention_score=st.sampled_from(sorted(SCORES)))
WITH_KERNEL = sorted(name for name in SCORES if SCORES[name].is_dot_product)
KERNEL_FIELDS = fields_with(attention_score=st.sampled_from(WITH_KERNEL))
LENGTHS = st.lists(st.tuples(st.integers(2, 9), st.integers(2, 9)), min_size=1, max_size=4)


def assert_same(ours, theirs, bar=1e-5):
    assert_close(ours, theirs, rtol=0, atol=bar)


def with_decoder_inputs(model, batch):
    """The batch without labels, for whoever wants logits in training mode."""
    labels = batch["labels"]
    return {
        "input_ids": batch["input_ids"],
        "attention_mask": batch["attention_mask"],
        "decoder_input_ids": model.prepare_decoder_input_ids_from_labels(labels),
    }


def logits_of(model, batch):
    with torch.no_grad():
        return model(**with_decoder_inputs(model, batch)).logits


def loss_and_gradients(model, batch, **kwargs):
    model.zero_grad()
    loss = model(**batch, **kwargs).loss
    loss.backward()
    return {"loss": loss.detach()} | {
        name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None
    }


# Relations


@given(fields=ANY_FIELDS, lengths=LENGTHS, training=st.booleans(), more=st.integers(1, 5))
def test_padding_never_changes_a_result(
    way, build_tiny, make_batch, fields, lengths, training, more
):
    model, batch = build_tiny(**fields).train(training), make_batch(lengths)
    values = {"input_ids": 0, "attention_mask": 0, "labels": -100}
    padded = {name: functional.pad(ids, (0, more), value=values[name]) for name, ids in batch.items()}
    is_real = batch["labels"] != -100

    target_len = is_real.shape[1]
    assert_same(logits_of(model, padded)[:, :target_len][is_real], logits_of(model, batch)[is_real])
    assert_same(loss_and_gradients(model, padded), loss_and_gradients(model, batch))


@given(fields=ANY_FIELDS, lengths=LENGTHS, training=st.booleans())
def test_a_sentence_gets_in_a_batch_what_it_gets_alone(
    way, build_tiny, make_batch, fields, lengths, training
):
    model, batch = build_tiny(**fields).train(training), make_batch(lengths)
    together = logits_of(model, batch)

    for row, (source_len, target_len) in enumerate(lengths):
        alone = {
            name: ids[row : row + 1, : target_len if name == "labels" else source_len]
            for name, ids in batch.items()
        }
        assert_same(together[row, :target_len], logits_of(model, alone)[0])


@given(fields=ANY_FIELDS, lengths=LENGTHS, training=st.booleans(), data=st.data())
def test_the_order_of_a_batch_is_irrelevant(
    way, build_tiny, make_batch, fields, lengths, training, data
):
    model, batch = build_tiny(**fields).train(training), make_batch(lengths)
    order = data.draw(st.permutations(range(len(lengths))))
    shuffled = {name: ids[order] for name, ids in batch.items()}
    is_real = shuffled["labels"] != -100

    assert_same(logits_of(model, shuffled)[is_real], logits_of(model, batch)[order][is_real])
    assert_same(loss_and_gradients(model, shuffled), loss_and_gradients(model, batch))


@given(fields=ANY_FIELDS, training=st.booleans(), place=st.integers(0, 8))
def test_a_future_word_never_changes_the_past(
    way, build_tiny, make_batch, fields, training, place
):
    model = build_tiny(**fields).train(training)
    batch = with_decoder_inputs(model, make_batch([(5, 9), (3, 9)]))
    changed = batch | {"decoder_input_ids": batch["decoder_input_ids"].clone()}
    changed["decoder_input_ids"][0, place:] = 30

    with torch.no_grad():
        before, after = model(**batch).logits, model(**changed).logits
    assert_same(after[0, :place], before[0, :place], bar=1e-6)
    assert_same(after[1], before[1], bar=1e-6)
    assert (after[0, place] - before[0, place]).abs().max() > 1e-4


def caches(model, source_len):
    config = model.config
    yield EncoderDecoderCache(DynamicCache(config=config), DynamicCache(config=config))
    yield EncoderDecoderCache(
        StaticCache(config=config, max_cache_len=12),
        StaticCache(config=config, max_cache_len=source_len),
    )


@given(fields=ANY_FIELDS, lengths=LENGTHS, first=st.integers(1, 4), training=st.booleans())
def test_words_one_by_one_get_what_they_get_at_once(
    way, build_tiny, make_batch, fields, lengths, first, training
):
    model = build_tiny(**fields).train(training)
    batch = with_decoder_inputs(model, make_batch(lengths))
    words = batch.pop("decoder_input_ids")

    with torch.no_grad():
        at_once = model(**batch, decoder_input_ids=words, use_cache=False).logits
        encoded = {
            "encoder_outputs": model.model.encoder(**batch),
            "attention_mask": batch["attention_mask"],
        }
        for cache in caches(model, batch["input_ids"].shape[1]):
            steps = [words[:, :first], *words[:, first:].split(1, dim=1)]
            one_by_one = [
                model(**encoded, decoder_input_ids=step, past_key_values=cache, use_cache=True)
                for step in steps
                if step.numel()
            ]
            assert_same(torch.cat([output.logits for output in one_by_one], dim=1), at_once)


@given(fields=KERNEL_FIELDS, lengths=LENGTHS, training=st.booleans())
def test_every_way_of_attending_gives_the_same(build_tiny, make_batch, fields, lengths, training):
    model, batch = build_tiny(**fields).train(training), make_batch(lengths)
    found = [loss_and_gradients(model, batch)]
    for implementation, pairs in product(("sdpa", "eager"), (0, 10**6)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(attention_plan, "PACKED_PAIRS", 0)
            patch.setattr(attention_plan, "EXPLICIT_PAIRS", pairs)
            model.set_attn_implementation(implementation)
            found.append(loss_and_gradients(model, batch))

    for others in found[1:]:
        assert_same(others, found[0])


def test_each_way_of_attending_is_the_one_asked_for(tiny_model, sentence_pairs, way, monkeypatch):
    taken = set()

    def spy_on(holder, name, label):
        original = getattr(holder, name)

        def spy(*args, **kwargs):
            taken.add(label)
            return original(*args, **kwargs)

        monkeypatch.setattr(holder, name, spy)

    spy_on(modeling, "packed_attention_forward", "packed")
    spy_on(modeling, "eager_attention_forward", "products")
    spy_on(functional, "scaled_dot_product_attention", "kernel")
    tiny_model.train()(**sentence_pairs)

    assert taken == {way}


@given(fields=ANY_FIELDS, lengths=LENGTHS, training=st.booleans())
def test_bfloat16_is_close_to_float32(way, build_tiny, make_batch, fields, lengths, training):
    model, batch = build_tiny(**fields).train(training), make_batch(lengths)
    exact = loss_and_gradients(model, batch)
    rounded = loss_and_gradients(copy.deepcopy(model).bfloat16(), batch)

    assert rounded.keys() == exact.keys()
    assert rounded["loss"].item() == pytest.approx(exact["loss"].item(), rel=0.05)
    ours, theirs = (torch.cat([g.float().flatten() for g in found.values()]) for found in (rounded, exact))
    assert functional.cosine_similarity(ours, theirs, dim=0) > 0.97


@given(fields=ANY_FIELDS, dtype=st.sampled_from([torch.float32, torch.bfloat16]))
def test_saving_and_loading_changes_no_bit(build_tiny, make_batch, fields, dtype):
    model, batch = build_tiny(**fields).to(dtype), make_batch([(5, 7), (3, 4)])

    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder, "first"), Path(folder, "second")
        model.save_pretrained(first)
        loaded = type(model).from_pretrained(first)
        loaded.save_pretrained(second)
        assert {file.name: file.read_bytes() for file in first.iterdir()} == {
            file.name: file.read_bytes() for file in second.iterdir()
        }
    assert loaded.dtype == dtype
    assert_close(loaded.state_dict(), model.state_dict(), rtol=0, atol=0)
    assert_same(logits_of(loaded, batch), logits_of(model, batch), bar=1e-6)


@given(fields=ANY_FIELDS, lengths=LENGTHS, is_reentrant=st.booleans())
def test_gradient_checkpointing_changes_no_gradient(
    way, build_tiny, make_batch, fields, lengths, is_reentrant
):
    model, batch = build_tiny(**fields | {"dropout": 0.2}).train(), make_batch(lengths)
    with torch.random.fork_rng():  # the same words are dropped in both runs
        plain = loss_and_gradients(model, batch)
    model.gradient_checkpointing_enable({"use_reentrant": is_reentrant})

    assert_same(loss_and_gradients(model, batch), plain, bar=1e-6)


@BOTH_MODES
@pytest.mark.parametrize("score", ["scaled_dot_product", "additive"])
def test_compiled_equals_not_compiled(build_tiny, sentence_pairs, training, score):
    model = build_tiny(
        attention_score=score, dropout=0.0, encoder_layers=1, decoder_layers=1
    ).train(training)
    plain = loss_and_gradients(model, sentence_pairs)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")

    model.zero_grad()
    loss = compiled(**sentence_pairs).loss
    loss.backward()
    assert_same({"loss": loss.detach()} | {n: w.grad for n, w in model.named_parameters()}, plain)
