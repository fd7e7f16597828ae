"""A training step takes shortcuts; here is where they must not change a thing."""

import pytest
import torch
from peft import PrefixTuningConfig, get_peft_model
from torch import nn

from vanilla_transformer.attention_plan import may_pack
from vanilla_transformer.attention_scores import SCORES
from vanilla_transformer.fast_linear import onednn_is_exact
from vanilla_transformer.smoothed_loss import LossWithLazyLogits, can_project


def plainly(model):
    """The same model, whose loss is the library's way: over whole logits."""
    ours = model.loss_function
    model.loss_function = lambda *args, **kwargs: ours(*args, **kwargs)
    return model


def test_a_prefix_in_the_cache_leaves_every_label_its_loss(build_tiny, sentence_pairs):
    tiny = build_tiny(dropout=0.0, d_k=None, d_v=None)
    heads = tiny.config.decoder_attention_heads
    config = PrefixTuningConfig(
        task_type="SEQ_2_SEQ_LM", num_virtual_tokens=3, num_attention_heads=heads
    )
    model = get_peft_model(tiny, config).train()

    lean = model(**sentence_pairs).loss
    plainly(model.base_model)

    torch.testing.assert_close(lean, model(**sentence_pairs).loss)


def test_labels_and_decoder_inputs_of_other_lengths_are_refused(tiny_model, sentence_pairs):
    longer = torch.ones(len(sentence_pairs["labels"]), 9, dtype=torch.long)

    for mode in (True, False):
        with pytest.raises(ValueError, match="must be the same words, shifted by one, got shapes"):
            tiny_model.train(mode)(**sentence_pairs, decoder_input_ids=longer)


def test_logits_of_a_step_cannot_be_read_after_its_weights_have_changed(build_tiny, sentence_pairs):
    model = build_tiny(dropout=0.0).train()
    optimizer = torch.optim.AdamW(model.parameters())
    before, after = model(**sentence_pairs), model(**sentence_pairs)
    logits = before.logits
    after.loss.backward()
    optimizer.step()

    assert logits is before.logits
    with pytest.raises(RuntimeError, match=r"read outputs.logits before optimizer.step\(\)"):
        _ = after.logits


def test_under_float16_autocast_gradients_wait_for_their_scale(tiny_model):
    labels = torch.zeros(2, 3, dtype=torch.long)

    with torch.autocast("cpu", torch.float16):
        assert not can_project(labels, tiny_model.lm_head)
    with torch.autocast("cpu", torch.bfloat16):
        assert can_project(labels, tiny_model.lm_head)


def test_a_hook_before_a_layer_meets_whole_rectangles(build_tiny, sentence_pairs):
    model, shapes = build_tiny(dropout=0.0).train(), []
    expected = model(**sentence_pairs).loss
    model.model.encoder.layers[0].fc1.register_forward_pre_hook(
        lambda module, args: shapes.append(args[0].shape[:2])
    )

    assert torch.allclose(model(**sentence_pairs).loss, expected)
    assert shapes == [sentence_pairs["input_ids"].shape]


def test_words_and_table_on_two_devices_are_not_packed(build_tiny, sentence_pairs):
    encoder = build_tiny().model.encoder
    words = sentence_pairs["input_ids"]
    assert may_pack(words, encoder)
    encoder.embed_tokens = nn.Embedding(40, 16, device="meta")

    assert not may_pack(words, encoder)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("recorded", [True, False])
def test_defaults_for_new_tensors_change_nothing(
    implementation, recorded, build_tiny, sentence_pairs
):
    model = build_tiny(dropout=0.1, attention_dropout=0.1).train()
    model.set_attn_implementation(implementation)
    seed, options = torch.get_rng_state(), {"output_hidden_states": recorded}
    expected = model(**sentence_pairs, **options).loss
    onednn_is_exact.cache_clear()

    torch.set_rng_state(seed)
    torch.set_default_dtype(torch.float16)
    try:
        found = model(**sentence_pairs, **options).loss
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(found, expected)
    if not recorded:
        torch.set_rng_state(seed)
        with torch.device("meta"):
            assert torch.equal(model(**sentence_pairs).loss, expected)
    assert onednn_is_exact()


@pytest.mark.parametrize("kernel", ["flash_attention_2", "kernels-community/flash-attn3"])
def test_a_window_is_refused_where_a_kernel_would_not_see_it(kernel, build_tiny):
    with pytest.raises(ValueError, match="attention_window needs attn_implementation='eager'"):
        build_tiny(attention_window=2).get_correct_attn_implementation(kernel)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_vector_of_nothing_has_a_cosine_in_any_precision(dtype, tiny_config):
    score = SCORES["cosine"](tiny_config, 4)
    states = torch.stack([torch.zeros(4), torch.ones(4) * 300]).to(dtype)

    prepared = score.prepare_key(states)

    assert prepared.dtype == dtype
    assert torch.equal(prepared, torch.tensor([[0.0] * 4, [0.5] * 4], dtype=dtype))


def test_a_step_without_reading_logits_gives_lazy_ones(build_tiny, sentence_pairs):
    assert isinstance(build_tiny().train()(**sentence_pairs), LossWithLazyLogits)
