"""Every score equals its six lines of loops, and works with everything else the model can do."""

import itertools
import math

import pytest
import torch
from torch.testing import assert_close

from vanilla_transformer import VanillaTransformerConfig, VanillaTransformerForConditionalGeneration
from vanilla_transformer.attention_scores import SCORES, ScaledDotProduct
from vanilla_transformer.modeling_vanilla_transformer import Attention, eager_attention_forward
from vanilla_transformer.position_encodings import POSITION_ENCODINGS

NEED_EAGER = [name for name, score in SCORES.items() if not score.is_dot_product]


def dot(left, right):
    return sum(a * b for a, b in zip(left, right, strict=True))


def times(matrix, vector):
    return [dot(row, vector) for row in matrix]


def length(vector):
    return math.sqrt(dot(vector, vector))


def additive(weights, query, key, _):
    pairs = zip(times(weights["query_proj"], query), times(weights["key_proj"], key), strict=True)
    return dot(weights["pair_proj"][0], [math.tanh(a + b) for a, b in pairs])


# One number for one query and one key at position j, from lists of Python's 64-bit numbers.
PAIR_BY_PAIR = {
    "dot_product": lambda _, query, key, j: dot(query, key),
    "scaled_dot_product": lambda _, query, key, j: dot(query, key) / math.sqrt(len(query)),
    "general": lambda weights, query, key, j: dot(times(weights["query_proj"], query), key),
    "cosine": lambda _, query, key, j: dot(query, key) / length(query) / length(key),
    "additive": additive,
    "location": lambda weights, query, key, j: times(weights["position_proj"], query)[j],
}


def looped_scores(name, score, query, key):
    weights = {path.split(".")[0]: value.tolist() for path, value in score.named_parameters()}
    scores = torch.empty(*query.shape[:-1], key.shape[-2])
    for b, h, i, j in itertools.product(*map(range, scores.shape)):
        pair = query[b, h, i].tolist(), key[b, h, j].tolist()
        scores[b, h, i, j] = PAIR_BY_PAIR[name](weights, *pair, j)
    return scores


def our_scores(score, query, key):
    return score.compare(score.prepare_query(query), score.prepare_key(key))


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("key_len", [1, 6])
def test_a_score_equals_its_loop(name, key_len, tiny_config):
    score = SCORES[name](tiny_config, key_width=5)
    query, key = torch.randn(2, 3, 4, 5), torch.randn(2, 3, key_len, 5)

    scores = our_scores(score, query, key)
    assert_close(scores, looped_scores(name, score, query, key), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", SCORES)
def test_the_gradient_of_a_score_is_its_slope(name, tiny_config):
    score = SCORES[name](tiny_config, key_width=3).double()
    query, key = (torch.randn(1, 2, 3, 3, dtype=torch.float64, requires_grad=True) for _ in "qk")

    assert torch.autograd.gradcheck(lambda *pair: our_scores(score, *pair), (query, key))


def looped_attention(name, attention, states):
    """softmax(score(Q, K)) V for each head, joined and projected (3.2.1, 3.2.2)."""
    query, key, value = (
        getattr(attention, f"{letter}_proj")(states).unflatten(-1, (2, -1)).transpose(1, 2)
        for letter in "qkv"
    )
    scores = looped_scores(name, attention.score, query, key)
    heads = torch.zeros(1, states.shape[1], 2, value.shape[-1])
    for h, i in itertools.product(range(2), range(states.shape[1])):
        seen = range(i + 1 if attention.is_causal else states.shape[1])
        powers = [math.exp(scores[0, h, i, j]) for j in seen]
        for j in seen:
            heads[0, i, h] += powers[j] / sum(powers) * value[0, h, j]
    return attention.out_proj(heads.flatten(2))


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_attention_equals_its_loop(name, stack, way, build_tiny):
    model = build_tiny(attention_score=name, encoder_attention_heads=2, d_k=3, d_v=6).model
    stack, seen = getattr(model, stack), []
    attention = stack.layers[0].self_attn
    attention.register_forward_hook(lambda _, inputs, output: seen.append((inputs[0], output[0])))
    stack(torch.tensor([[5, 6, 7, 8, 2]]), use_cache=False)

    ((states, attended),) = seen
    assert_close(attended, looped_attention(name, attention, states), rtol=0, atol=1e-6)


def test_scores_112_and_96_become_weights_088_and_012():
    """The Illustrated Transformer's worked example: d_k is 64, so both are divided by 8."""
    attention = Attention(VanillaTransformerConfig(), num_heads=8)
    query, key, value = torch.zeros(1, 1, 1, 64), torch.zeros(1, 1, 2, 64), torch.zeros(1, 1, 2, 2)
    query[..., 0], key[0, 0, :, 0] = 8, torch.tensor([14, 12])
    value[0, 0] = torch.eye(2)
    assert (query @ key.mT).flatten().tolist() == [112, 96]

    assert isinstance(attention.score, ScaledDotProduct)
    assert attention.score.compare(query, key).flatten().tolist() == [14, 12]
    attended, weights = eager_attention_forward(attention, query, key, value, attention_mask=None)
    assert [round(weight, 2) for weight in weights.flatten().tolist()] == [0.88, 0.12]
    assert torch.equal(attended.flatten(), weights.flatten())


@pytest.mark.parametrize("name", SCORES)
def test_scores_of_zeros_are_numbers_with_a_gradient(name, tiny_config):
    score = SCORES[name](tiny_config, key_width=4)
    query, key = (torch.zeros(1, 1, 2, 4, requires_grad=True) for _ in "qk")

    scores = our_scores(score, query, key)
    scores.sum().backward()
    assert scores.tolist() == [[[[0, 0], [0, 0]]]]
    assert query.grad.isfinite().all()


def test_cosine_ignores_length(tiny_config):
    score = SCORES["cosine"](tiny_config, key_width=4)
    query, key = torch.randn(1, 1, 3, 4), torch.randn(1, 1, 5, 4)

    assert_close(our_scores(score, 7 * query, key / 9), our_scores(score, query, key))
    assert_close(our_scores(score, query, query).diagonal(dim1=-2, dim2=-1), torch.ones(1, 1, 3))


def test_location_never_looks_at_the_keys(tiny_config):
    score = SCORES["location"](tiny_config, key_width=4)
    query = torch.randn(1, 2, 3, 4)

    scores = [our_scores(score, query, torch.randn(1, 2, 5, 4)) for _ in range(2)]
    assert torch.equal(*scores)


def test_location_says_where_its_table_ends(tiny_config):
    score = SCORES["location"](tiny_config, key_width=4)
    query = torch.randn(1, 1, 1, 4)

    our_scores(score, query, torch.randn(1, 1, 32, 4))
    with pytest.raises(ValueError, match=r"knows 32 positions .* got 33 keys: shorten the input"):
        our_scores(score, query, torch.randn(1, 1, 33, 4))


# With a whole model


@pytest.mark.parametrize("name", NEED_EAGER)
def test_a_score_without_kernel_is_eager_unasked(name, build_tiny):
    assert build_tiny(attention_score=name).config._attn_implementation == "eager"


@pytest.mark.parametrize("name", NEED_EAGER)
def test_a_score_without_kernel_refuses_sdpa_at_every_door(name, build_tiny, tmp_path):
    model = build_tiny(attention_score=name)
    model.save_pretrained(tmp_path)
    doors = {
        "setting": lambda: model.set_attn_implementation("sdpa"),
        "loading": lambda: type(model).from_pretrained(tmp_path, attn_implementation="sdpa"),
        "building": lambda: build_tiny(attention_score=name, attn_implementation="sdpa"),
    }

    for door in doors.values():
        with pytest.raises(ValueError, match=f"attention_score='{name}' needs attn_implementation"):
            door()


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("positions", POSITION_ENCODINGS)
@pytest.mark.parametrize("score", SCORES)
def test_every_combination_learns_generates_saves_and_loads(
    score, positions, window, build_tiny, sentence_pairs, tmp_path
):
    model = build_tiny(
        attention_score=score, position_encoding=positions, attention_window=window
    ).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    model(**sentence_pairs).loss.backward()
    optimizer.step()
    idle = {name for name, weight in model.named_parameters() if torch.equal(weight, before[name])}
    assert not idle - biases_without_effect(model)

    source = {name: sentence_pairs[name] for name in ("input_ids", "attention_mask")}
    model.eval().save_pretrained(tmp_path)
    loaded = VanillaTransformerForConditionalGeneration.from_pretrained(tmp_path)
    written = model.generate(**source, max_new_tokens=6, num_beams=2)
    assert torch.equal(loaded.generate(**source, max_new_tokens=6, num_beams=2), written)


def biases_without_effect(model):
    """A constant added to all scores of a query changes no softmax; location reads no keys."""
    names = [name for name, _ in model.named_parameters() if ".k_proj." in name]
    if model.config.attention_score == "location":
        return set(names)
    return {name for name in names if name.endswith("bias")}
