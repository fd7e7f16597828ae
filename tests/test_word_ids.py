"""Word ids: checked, and shifted into what a decoder reads."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.marian.modeling_marian import shift_tokens_right

from vanilla_transformer.word_ids import (
    IGNORED,
    refuse_unknown_ids,
    shift_right,
    up_to_last_label,
)

PAD, START = 0, 1


@st.composite
def batches_of_labels(draw):
    """`[batch, length]`, labels and IGNORED in any order."""
    batch, length = draw(st.integers(1, 5)), draw(st.integers(1, 7))
    labels = st.one_of(st.just(IGNORED), st.integers(0, 9))
    row = st.lists(labels, min_size=length, max_size=length)
    return torch.tensor(draw(st.lists(row, min_size=batch, max_size=batch)))


@given(labels=batches_of_labels())
def test_labels_are_shifted_as_marian_shifts_them(labels):
    assert torch.equal(shift_right(labels, PAD, START), shift_tokens_right(labels, PAD, START))


@given(labels=batches_of_labels())
def test_a_decoder_reads_the_start_and_all_labels_but_the_last(labels):
    shifted = shift_right(labels, PAD, START)

    expected = [[START, *row[:-1]] for row in labels.tolist()]
    assert shifted.tolist() == [[PAD if word == IGNORED else word for word in r] for r in expected]


def test_shifting_leaves_the_labels_alone():
    labels = torch.tensor([[5, 6, IGNORED]])
    shift_right(labels, PAD, START)

    assert labels.tolist() == [[5, 6, IGNORED]]


@given(labels=batches_of_labels())
def test_words_count_up_to_the_last_label_of_their_sentence(labels):
    expected = [
        [any(label != IGNORED for label in row[place:]) for place in range(len(row))]
        for row in labels.tolist()
    ]

    assert up_to_last_label(labels).tolist() == expected


@given(labels=batches_of_labels())
def test_no_label_lies_behind_the_last_word_that_counts(labels):
    assert not ((labels != IGNORED) & ~up_to_last_label(labels)).any()


@pytest.mark.parametrize(
    "ids",
    [
        torch.tensor([[0, 9], [3, 4]]),
        torch.tensor([[9]], dtype=torch.int32),
        torch.empty(0, 5, dtype=torch.long),
        torch.empty(2, 0, dtype=torch.long),
    ],
    ids=["all known", "int32", "no sentences", "no words"],
)
def test_known_ids_pass(ids):
    refuse_unknown_ids(ids, vocab_size=10, name="input_ids")


@pytest.mark.parametrize(
    ("ids", "shown"), [([[0, 10]], 10), ([[-1, 3]], -1), ([[3, 4], [99, 1]], 99), ([[-7, 99]], -7)]
)
def test_unknown_ids_are_refused_with_name_rule_value_and_way_out(ids, shown):
    with pytest.raises(ValueError, match=f"got {shown}:") as refusal:
        refuse_unknown_ids(torch.tensor(ids), vocab_size=10, name="labels")

    message = str(refusal.value)
    assert message.startswith("labels must be at least 0 and below the vocabulary size 10")
    assert "tokenizer" in message
    assert "resize" in message


def test_ids_on_another_device_are_not_waited_for():
    refuse_unknown_ids(torch.full((2, 3), 99, device="meta"), vocab_size=10, name="input_ids")


@pytest.mark.parametrize(
    "recording", [(torch.compiler, "is_compiling"), (torch.jit, "is_tracing")], ids=lambda r: r[1]
)
def test_ids_are_not_looked_at_while_a_graph_is_recorded(recording, monkeypatch):
    monkeypatch.setattr(*recording, lambda: True)

    refuse_unknown_ids(torch.tensor([99]), vocab_size=10, name="input_ids")


@pytest.mark.parametrize(
    ("name", "named"),
    [("input_ids", "input_ids"), ("decoder_input_ids", "(?i)decoder.*ids"), ("labels", "labels")],
)
def test_the_model_names_the_ids_it_refuses(name, named, tiny_model, sentence_pairs):
    ids = sentence_pairs.get(name, sentence_pairs["labels"].clamp(min=0)).clone()
    ids[0, 0] = tiny_model.config.vocab_size

    with pytest.raises(ValueError, match=f"{named} must be"):
        tiny_model(**{**sentence_pairs, name: ids})
