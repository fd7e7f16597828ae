"""What never changes a result, whatever the model: padding, batching, caching, kernels, saving."""

import copy
import tempfile
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
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


def assert_same(ours, theirs):
    assert_close(ours, theirs, rtol=0, atol=1e-5)


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


def are_close(ours, theirs, share):
    """Whether gradients differ by at most a share of themselves, and losses by 2 %."""
    left, right = (
        torch.cat([gradient.float().flatten() for gradient in found.values()])
        for found in (ours, theirs)
    )
    return (
        ours.keys() == theirs.keys()
        and (left - right).norm() < share * right.norm()
        and abs(ours["loss"] / theirs["loss"] - 1) < 0.02
    )


# Relations


@given(fields=ANY_FIELDS, lengths=LENGTHS, training=st.booleans(), more=st.integers(1, 5))
def test_padding_never_changes_a_result(
    way, build_tiny, make_batch, fields, lengths, training, more
):
    model, batch = build_tiny(**fields).train(training), make_batch(lengths)
    values = {"input_ids": 0, "attention_mask": 0, "labels": -100}
    padded = {
        name: functional.pad(ids, (0, more), value=values[name]) for name, ids in batch.items()
    }
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
def test_a_future_word_never_changes_the_past(way, build_tiny, make_batch, fields, training, place):
    model = build_tiny(**fields).train(training)
    batch = with_decoder_inputs(model, make_batch([(5, 9), (3, 9)]))
    changed = batch | {"decoder_input_ids": batch["decoder_input_ids"].clone()}
    changed["decoder_input_ids"][0, place:] = 30

    with torch.no_grad():
        before, after = model(**batch).logits, model(**changed).logits
    assert_same(after[0, :place], before[0, :place])
    assert_same(after[1], before[1])
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

    assert are_close(rounded, exact, share=0.8)  # 0.05, but where a softmax is saturated


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
    assert_same(logits_of(loaded, batch), logits_of(model, batch))


@given(fields=ANY_FIELDS, lengths=LENGTHS, is_reentrant=st.booleans())
def test_gradient_checkpointing_changes_no_gradient(
    way, build_tiny, make_batch, fields, lengths, is_reentrant
):
    model, batch = build_tiny(**fields | {"dropout": 0.2}).train(), make_batch(lengths)
    with torch.random.fork_rng():  # the same words are dropped in both runs
        plain = loss_and_gradients(model, batch)
    model.gradient_checkpointing_enable({"use_reentrant": is_reentrant})

    assert_same(loss_and_gradients(model, batch), plain)


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


# The loss of a training step


def with_gaps(batch, middle=1, unlabelled=None):
    """The batch without some of its labels, which then count for nothing."""
    labels = batch["labels"].clone()
    labels[:, middle] = -100
    labels[unlabelled or [], :] = -100
    decoder_input_ids = torch.cat([labels[:, :1].clamp(1, 1), batch["labels"][:, :-1].clamp(0)], 1)
    return batch | {"labels": labels, "decoder_input_ids": decoder_input_ids}


@contextmanager
def plain_loss(model):
    """A loss of somebody else's, for which all logits are made."""
    model.loss_function = lambda *args, **kwargs: smoothed_cross_entropy(*args, **kwargs)
    yield
    model.loss_function = smoothed_cross_entropy


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("num_items", [None, 50, 50.0, torch.tensor(50)], ids=repr)
@given(fields=ANY_FIELDS, lengths=LENGTHS, has_gaps=st.booleans())
@settings(max_examples=10)
def test_the_shortcut_to_the_loss_gives_the_gradients_of_the_long_way(
    build_tiny, make_batch, dtype, num_items, fields, lengths, has_gaps
):
    model, batch = build_tiny(**fields).to(dtype).train(), make_batch(lengths)
    batch = with_gaps(batch) if has_gaps else batch
    lean = loss_and_gradients(model, batch, num_items_in_batch=num_items)
    with plain_loss(model):
        plain = loss_and_gradients(model, batch, num_items_in_batch=num_items)

    if dtype == torch.float32:
        assert_close(lean, plain, rtol=1e-6, atol=1e-6)
    else:
        assert are_close(lean, plain, share=0.02)


@BOTH_MODES
def test_the_number_of_items_divides_the_sum(build_tiny, sentence_pairs, training):
    model = build_tiny(dropout=0.0).train(training)
    mean = model(**sentence_pairs).loss
    labelled = (sentence_pairs["labels"] != -100).sum()

    for items in (50, torch.tensor(50)):
        assert_same(model(**sentence_pairs, num_items_in_batch=items).loss, mean * labelled / 50)


@BOTH_MODES
def test_a_sentence_without_labels_teaches_nothing(way, build_tiny, sentence_pairs, training):
    model = build_tiny(dropout=0.0).train(training)
    others = {name: ids[[0, 2, 3]] for name, ids in sentence_pairs.items()}

    found = loss_and_gradients(model, with_gaps(sentence_pairs, unlabelled=[1]))
    assert_same(found, loss_and_gradients(model, with_gaps(others)))


@BOTH_MODES
def test_outputs_can_be_read_in_every_way_of_the_library(build_tiny, sentence_pairs, training):
    model = build_tiny(dropout=0.0).train(training)
    outputs = model(**sentence_pairs)
    read = [outputs.to_tuple(), outputs[:], model(**sentence_pairs, return_dict=False)]

    assert outputs[0] is outputs["loss"] is outputs.loss
    assert outputs[1] is outputs["logits"] is outputs.logits
    for values in read:
        assert isinstance(values, tuple)
        assert_same(values, tuple(outputs[name] for name in outputs))


# What a caller may bring and ask for


@BOTH_MODES
def test_hidden_states_are_whole_rectangles_of_every_layer(build_tiny, sentence_pairs, training):
    model = build_tiny(encoder_layers=3).train(training)
    outputs = model.model(**with_decoder_inputs(model, sentence_pairs), output_hidden_states=True)

    shapes = [tuple(states.shape) for states in outputs.encoder_hidden_states]
    assert shapes == 4 * [(4, 9, 16)]
    shapes = [tuple(states.shape) for states in outputs.decoder_hidden_states]
    assert shapes == 3 * [(4, 7, 16)]
    assert torch.equal(outputs.encoder_hidden_states[-1], outputs.encoder_last_hidden_state)
    assert torch.equal(outputs.decoder_hidden_states[-1], outputs.last_hidden_state)


@BOTH_MODES
@pytest.mark.parametrize(
    ("kept", "positions"), [(1, [6]), (3, [4, 5, 6]), (torch.tensor([0, 5]), [0, 5]), (0, range(7))]
)
def test_only_the_logits_asked_for_are_kept(build_tiny, sentence_pairs, training, kept, positions):
    model = build_tiny(dropout=0.0).train(training)
    batch = with_decoder_inputs(model, sentence_pairs)
    loss = model(**sentence_pairs).loss

    some = model(**batch, logits_to_keep=kept).logits
    assert_same(some, model(**batch).logits[:, list(positions)])
    with_labels = model(**batch, labels=sentence_pairs["labels"], logits_to_keep=kept)
    assert_same(with_labels.loss, loss)
    assert with_labels.logits.shape == some.shape


@BOTH_MODES
def test_embeddings_and_encoder_outputs_may_take_the_place_of_ids(
    way, build_tiny, sentence_pairs, training
):
    model = build_tiny(dropout=0.0).train(training)
    batch = with_decoder_inputs(model, sentence_pairs)
    mask, table = batch["attention_mask"], model.get_input_embeddings()
    states = model.model.encoder(batch["input_ids"], mask).last_hidden_state
    decoder_ids = {"decoder_input_ids": batch["decoder_input_ids"]}
    is_real = sentence_pairs["labels"] != -100

    for inputs in (
        {"inputs_embeds": table(batch["input_ids"])} | decoder_ids,
        {"input_ids": batch["input_ids"], "decoder_inputs_embeds": table(*decoder_ids.values())},
        {"encoder_outputs": BaseModelOutput(last_hidden_state=states)} | decoder_ids,
        {"encoder_outputs": (states,)} | decoder_ids,
    ):
        logits = model(**inputs, attention_mask=mask).logits
        assert_same(logits[is_real], logits_of(model, sentence_pairs)[is_real])


def test_ids_and_embeddings_together_or_neither_are_refused(tiny_model):
    ids = torch.tensor([[5, 6]])

    with pytest.raises(ValueError, match="either input_ids or inputs_embeds, got both"):
        tiny_model(input_ids=ids, inputs_embeds=torch.ones(1, 2, 16), decoder_input_ids=ids)
    with pytest.raises(ValueError, match=r"either .*input_ids .* got neither"):
        tiny_model(input_ids=ids)


@BOTH_MODES
@pytest.mark.parametrize("side", ["input_ids", "decoder_input_ids", "labels"])
@pytest.mark.parametrize("wrong", [40, -1])
def test_a_word_outside_the_vocabulary_is_refused(tiny_model, training, side, wrong):
    ids = torch.tensor([[5, 6]])
    batch = {"input_ids": ids, "decoder_input_ids": ids, "labels": ids}

    with pytest.raises(ValueError, match=f"below the vocabulary size 40, got {wrong}: use the tok"):
        tiny_model.train(training)(**batch | {side: torch.tensor([[5, wrong]])})


# Vocabularies


def resize(model, side, size):
    if side != "target":
        model.resize_token_embeddings(size)
    if side != "source":
        model.resize_decoder_token_embeddings(size)


@pytest.mark.parametrize("size", [50, 35])
@pytest.mark.parametrize(
    ("tables", "side"),
    [(ONE_TABLE, "source"), *product((TWO_TABLES, TWO_VOCABULARIES), ("source", "target", "both"))],
)
@pytest.mark.parametrize("is_tied", [True, False])
def test_a_resized_model_keeps_its_words_and_can_be_saved(
    build_tiny, sentence_pairs, tmp_path, tables, side, size, is_tied
):
    model = build_tiny(**tables, tie_word_embeddings=is_tied, dropout=0.0)
    before, target_size = logits_of(model, sentence_pairs), model.config.target_vocab_size
    resize(model, side, size)
    model.save_pretrained(tmp_path)

    expected = size if side != "source" or tables is ONE_TABLE else target_size
    assert model.config.vocab_size == (40 if side == "target" else size)
    for resized in (model, type(model).from_pretrained(tmp_path)):
        after, known = logits_of(resized, sentence_pairs), min(expected, target_size)
        assert after.shape[-1] == resized.config.target_vocab_size == expected
        assert_same(after[..., :known], before[..., :known])
        assert isinstance(resized.train()(**sentence_pairs), LossWithLazyLogits)


def test_a_shared_table_has_no_side_to_resize(tiny_model):
    with pytest.raises(ValueError, match="the table is shared, use resize_token_embeddings"):
        tiny_model.resize_decoder_token_embeddings(50)


@pytest.mark.parametrize("tables", [ONE_TABLE, TWO_TABLES, TWO_VOCABULARIES])
@pytest.mark.parametrize("is_tied", [True, False])
def test_every_parameter_learns(build_tiny, sentence_pairs, tables, is_tied):
    model = build_tiny(**tables, tie_word_embeddings=is_tied)

    found = loss_and_gradients(model, sentence_pairs)
    assert found.keys() - {"loss"} == dict(model.named_parameters()).keys()


# Generation


@pytest.mark.parametrize("tables", [ONE_TABLE, TWO_VOCABULARIES])
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("num_beams", [1, 3])
def test_no_cache_changes_what_is_generated(
    way, build_tiny, sentence_pairs, tables, window, num_beams
):
    model = build_tiny(attention_window=window, **tables)
    source = {name: sentence_pairs[name] for name in ("input_ids", "attention_mask")}
    options = {"max_new_tokens": 8, "num_beams": num_beams, "do_sample": False}

    dynamic, static, none = (
        model.generate(**source, **options, **cache)
        for cache in ({}, {"cache_implementation": "static"}, {"use_cache": False})
    )
    assert dynamic.shape[0] == 4
    assert torch.equal(dynamic, none)
    assert torch.equal(static, none)


def test_a_sentence_is_translated_in_a_batch_as_alone(way, tiny_model, make_batch):
    lengths = [(5, 2), (9, 2), (2, 2)]
    batch = make_batch(lengths)
    together = tiny_model.generate(
        batch["input_ids"], attention_mask=batch["attention_mask"], max_new_tokens=8
    )

    for row, (length, _) in enumerate(lengths):
        alone = tiny_model.generate(batch["input_ids"][row : row + 1, :length], max_new_tokens=8)
        padded = functional.pad(alone[0], (0, together.shape[1] - alone.shape[1]))
        assert torch.equal(together[row], padded)
