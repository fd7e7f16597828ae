"""Layouts: packing loses no word, moves none to another sentence, and knows when not to pack."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vanilla_transformer.token_layout import PADDED, SIMILAR, packed_layouts

LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=9)
PAIRS_OF_LENGTHS = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1)


def mask_of(lengths, spare=0):
    """A mask `[batch, length]` with the padding at the end, and `spare` columns of nothing else."""
    return torch.arange(max(lengths) + spare) < torch.tensor(lengths).unsqueeze(1)


def layout_of(lengths, spare=0):
    mask = mask_of(lengths, spare)
    (layout,) = packed_layouts((mask, mask))
    return layout


def words_of(lengths, spare=0):
    """Words `[batch, length, 2]` that say whose they are and where they stand, from 1 on."""
    batch, length = mask_of(lengths, spare).shape
    sentences = torch.arange(batch).unsqueeze(1).expand(batch, length)
    positions = torch.arange(length).expand(batch, length)
    return torch.stack((sentences, positions), dim=-1) + 1


def states_of(layout, heads=1, width=1):
    """States `[tokens, heads, width]`, every number another."""
    tokens = int(layout.ordered.sum())
    return torch.arange(1, 1 + tokens * heads * width).view(tokens, heads, width)


@given(lengths=LENGTHS, spare=st.integers(0, 3))
def test_packing_keeps_the_real_words_sentence_by_sentence(lengths, spare):
    packed = layout_of(lengths, spare).pack(words_of(lengths, spare))[0]

    sentences = packed[:, 0].unique_consecutive().tolist()
    assert sorted(sentences) == list(range(1, len(lengths) + 1))
    expected = [[i, place] for i in sentences for place in range(1, lengths[i - 1] + 1)]
    assert packed.tolist() == expected


@given(lengths=LENGTHS, spare=st.integers(0, 3))
def test_unpacking_restores_real_words_and_leaves_zeros_elsewhere(lengths, spare):
    words, layout = words_of(lengths, spare), layout_of(lengths, spare)

    restored = layout.unpack(layout.pack(words))

    assert torch.equal(restored, words * mask_of(lengths, spare).unsqueeze(-1))


@given(lengths=LENGTHS)
def test_packing_again_changes_nothing(lengths):
    layout = layout_of(lengths)
    packed = layout.pack(words_of(lengths))

    assert torch.equal(layout.pack(layout.unpack(packed)), packed)


@given(lengths=LENGTHS)
def test_the_longest_sentences_come_first(lengths):
    assert layout_of(lengths).ordered.tolist() == sorted(lengths, reverse=True)


@given(lengths=LENGTHS, spare=st.integers(0, 3))
def test_gradients_find_their_way_through_packing_and_back(lengths, spare):
    mask, layout = mask_of(lengths, spare), layout_of(lengths, spare)
    states = torch.randn(*mask.shape, 2, requires_grad=True)
    upstream = torch.randn(*mask.shape, 2)

    layout.unpack(layout.pack(states)).backward(upstream)

    assert torch.equal(states.grad, upstream * mask.unsqueeze(-1))


@given(lengths=LENGTHS, spare=st.integers(0, 3))
def test_every_word_gets_the_encoding_of_its_own_position(lengths, spare):
    layout, words = layout_of(lengths, spare), words_of(lengths, spare)
    encodings = words[0, :, 1:]

    assert torch.equal(layout.spread(encodings), layout.pack(words)[..., 1:])


@given(lengths=LENGTHS)
def test_groups_hold_every_word_once_and_in_order(lengths):
    groups = layout_of(lengths).groups

    assert sum(group.sentences for group in groups) == len(lengths)
    tokens = [token for group in groups for token in range(sum(lengths))[group.tokens]]
    assert tokens == list(range(sum(lengths)))


@given(lengths=LENGTHS)
def test_sentences_of_a_group_are_similar_in_length(lengths):
    for group in layout_of(lengths).groups:
        words = group.is_real.sum(1)
        assert words.min() >= SIMILAR * words.max()
        assert words.max() == group.length


@given(lengths=LENGTHS)
def test_neighbouring_groups_are_not_similar(lengths):
    longest = [group.length for group in layout_of(lengths).groups]

    for longer, shorter in pairwise(longest):
        assert shorter < SIMILAR * longer


def test_lengths_are_cut_where_similarity_ends():
    assert layout_of([9, 40, 20, 50, 22]).group_sizes == [2, 2, 1]


@given(lengths=LENGTHS, heads=st.integers(1, 3), width=st.integers(1, 3))
def test_a_rectangle_holds_each_head_of_each_sentence(lengths, heads, width):
    layout = layout_of(lengths)
    states = states_of(layout, heads, width)
    sentences = iter(states.split(layout.ordered.tolist()))

    for group in layout.groups:
        rectangles = group.rectangle_of(states).view(group.sentences, heads, group.length, width)
        for rectangle, real in zip(rectangles, group.is_real, strict=True):
            assert torch.equal(rectangle[:, real].transpose(0, 1), next(sentences))


@given(lengths=LENGTHS)
def test_padding_in_a_rectangle_is_a_word_of_the_same_sentence(lengths):
    layout = layout_of(lengths)
    states = layout.pack(words_of(lengths)).transpose(0, 1)  # [tokens, 1 head, 2]

    for group in layout.groups:
        for rectangle in group.rectangle_of(states):
            assert len(rectangle[:, 0].unique()) == 1


@given(lengths=LENGTHS, heads=st.integers(1, 3), width=st.integers(1, 3))
def test_writing_tokens_undoes_taking_rectangles(lengths, heads, width):
    layout = layout_of(lengths)
    states = states_of(layout, heads, width)
    written = torch.zeros_like(states)

    for group in layout.groups:
        group.write_tokens(group.rectangle_of(states), written)

    assert torch.equal(written, states)


def test_a_group_writes_only_its_own_tokens():
    layout = layout_of([9, 2])
    states = states_of(layout)
    written = torch.zeros_like(states)
    layout.groups[0].write_tokens(layout.groups[0].rectangle_of(states), written)

    assert torch.equal(written[:9], states[:9])
    assert not written[9:].any()


@given(pairs=PAIRS_OF_LENGTHS)
def test_target_and_source_are_packed_in_one_order(pairs):
    sides = [mask_of(lengths) for lengths in zip(*pairs, strict=True)]
    target, source = packed_layouts(*((mask, mask) for mask in sides))
    orders = [
        layout.pack(words_of(lengths))[0, :, 0].unique_consecutive()
        for layout, lengths in zip((target, source), zip(*pairs, strict=True), strict=True)
    ]

    assert torch.equal(*orders)
    assert [group.sentences for group in target.groups] == [
        group.sentences for group in source.groups
    ]


@given(pairs=PAIRS_OF_LENGTHS)
def test_pairs_of_a_group_are_similar_in_their_longer_side(pairs):
    sides = [mask_of(lengths) for lengths in zip(*pairs, strict=True)]
    layouts = packed_layouts(*((mask, mask) for mask in sides))

    for groups in zip(*(layout.groups for layout in layouts), strict=True):
        longer = torch.stack([group.is_real.sum(1) for group in groups]).amax(0)
        assert longer.min() >= SIMILAR * longer.max()


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.int32, torch.float32])
def test_masks_of_ones_and_zeros_mean_the_same_in_every_type(dtype):
    mask = mask_of([2, 4, 3])
    (layout,) = packed_layouts((mask.to(dtype), mask))

    assert torch.equal(layout.rows, layout_of([2, 4, 3]).rows)


def test_without_a_mask_every_word_is_real():
    (layout,) = packed_layouts((None, torch.empty(3, 4, 8)))

    assert layout.ordered.tolist() == [4, 4, 4]


UNPACKABLE = {
    "padding on the left": torch.tensor([[0, 1, 1], [1, 1, 1]]),
    "a hole": torch.tensor([[1, 0, 1], [1, 1, 1]]),
    "a sentence without words": torch.tensor([[0, 0, 0], [1, 1, 1]]),
    "another batch size": torch.ones(1, 3, dtype=torch.long),
    "more columns than words": torch.ones(2, 5, dtype=torch.long),
    "fewer columns than words": torch.ones(2, 2, dtype=torch.long),
    "who may look at whom": torch.ones(2, 1, 3, 3, dtype=torch.bool),
    "numbers to add to scores": torch.tensor([[0.0, 0.0, -1e9], [0.0, 0.0, 0.0]]),
    "another device": torch.ones(2, 3, dtype=torch.long, device="meta"),
}


@pytest.mark.parametrize("mask", UNPACKABLE.values(), ids=UNPACKABLE)
def test_a_mask_that_is_no_padding_at_the_end_is_not_packed(mask):
    assert packed_layouts((mask, torch.empty(2, 3, 8))) is None


@pytest.mark.parametrize("mask", UNPACKABLE.values(), ids=UNPACKABLE)
def test_one_side_that_cannot_be_packed_leaves_both_padded(mask):
    packable, template = (None, torch.empty(2, 4, 8)), torch.empty(2, 3, 8)

    assert packed_layouts(packable, (mask, template)) is None
    assert packed_layouts((mask, template), packable) is None


class Sharded(torch.Tensor):
    """A tensor that is more than its numbers, as a DTensor is."""


@pytest.mark.parametrize(
    "template",
    [None, torch.empty(2, 3, 8, device="meta"), torch.empty(2, 3, 8).as_subclass(Sharded)],
    ids=["no source", "another device", "sharded"],
)
def test_words_that_do_not_lie_plainly_in_memory_are_not_packed(template):
    assert packed_layouts((None, template)) is None


def double_if_packed(template):
    return template if packed_layouts((None, template)) is None else template * 2


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(torch.jit.trace, marks=pytest.mark.filterwarnings("ignore")),
        lambda function, _: torch.compile(function, backend="eager", fullgraph=True),
    ],
    ids=["trace", "compile"],
)
def test_nothing_is_packed_while_torch_records_a_graph(record):
    template = torch.ones(2, 3, 8)

    assert torch.equal(record(double_if_packed, template)(template), template)
    assert torch.equal(double_if_packed(template), template * 2)


@pytest.mark.parametrize("with_mask", [True, False])
@pytest.mark.parametrize("shape", [(0, 3), (2, 0)], ids=["no sentences", "no words"])
def test_nothing_is_not_packed(shape, with_mask):
    mask = torch.ones(shape, dtype=torch.long) if with_mask else None

    assert packed_layouts((mask, torch.empty(*shape, 8))) is None


def test_a_padded_layout_leaves_everything_where_it_is():
    states, encodings = torch.randn(2, 5, 8), torch.randn(5, 8)

    assert PADDED.pack(states) is states
    assert PADDED.unpack(states) is states
    assert torch.equal(states + PADDED.spread(encodings), states + encodings)


@pytest.mark.parametrize("layout", [PADDED, layout_of([3, 5])], ids=["padded", "packed"])
def test_merging_heads_undoes_splitting_them(layout):
    states = layout.pack(torch.randn(2, 5, 12))
    heads = layout.split_heads(states, head_width=4)
    if layout is PADDED:
        heads = heads.transpose(1, 2)  # what attention over a rectangle gives back

    assert heads.shape[-2:] == (3, 4)
    assert torch.equal(layout.merge_heads(heads), states)
