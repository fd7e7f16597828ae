"""PEFT adapts this model: small additions learn, merge into the weights, and save."""

import pytest
import torch
from peft import (
    IA3Config,
    LoraConfig,
    PeftModel,
    PromptTuningConfig,
    TaskType,
    get_peft_model,
)
from torch.nn import functional
from transformers import AutoModelForSeq2SeqLM

TASK = TaskType.SEQ_2_SEQ_LM
ATTENTION = ["q_proj", "v_proj"]
LORAS = {
    "attention": {"target_modules": ATTENTION},
    "all-linear": {"target_modules": "all-linear"},
    "head": {"target_modules": [*ATTENTION, "lm_head"]},
    "embeddings": {"target_modules": [*ATTENTION, "embed_tokens"]},
    "saved head": {"target_modules": ATTENTION, "modules_to_save": ["lm_head"]},
    "saved embeddings": {"target_modules": ATTENTION, "modules_to_save": ["embed_tokens"]},
    "rank-stabilised": {"target_modules": ATTENTION, "use_rslora": True},
    "decomposed": {"target_modules": ATTENTION, "use_dora": True},
}
# Merged into one of several weights that are one matrix, these would change all of them.
UNTIED = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}
NEED_UNTIED = {"head", "embeddings", "saved embeddings"}
each_lora = pytest.mark.parametrize("name", LORAS)


@pytest.fixture
def mergeable(name, build_tiny):
    return build_tiny(**UNTIED if name in NEED_UNTIED else {})


def with_lora(model, name, **changes):
    settings = {"task_type": TASK, "r": 4, "lora_alpha": 16} | LORAS[name] | changes
    return get_peft_model(model, LoraConfig(**settings))


def trained(model, batch, steps=8):
    """The losses of some steps on one batch."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-2)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model.train()(**batch).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    return losses


def logits_of(model, batch):
    with torch.no_grad():
        return model.eval()(**batch).logits


@each_lora
def test_an_adapter_learns_and_leaves_the_model_alone(name, build_tiny, sentence_pairs):
    model = build_tiny(dropout=0.0)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    losses = trained(adapted := with_lora(model, name), sentence_pairs)

    assert losses[-1] < losses[0] - 0.1
    with adapted.disable_adapter():
        for name, weight in adapted.get_base_model().named_parameters():
            if name in before:
                assert torch.equal(weight, before[name])


@each_lora
def test_every_adapted_weight_gets_a_gradient(name, build_tiny, sentence_pairs):
    adapted = with_lora(build_tiny(dropout=0.0), name, init_lora_weights=False)

    adapted.train()(**sentence_pairs).loss.backward()

    trainable = {n: p.grad for n, p in adapted.named_parameters() if p.requires_grad}
    assert trainable
    assert [name for name, grad in trainable.items() if grad is None or not grad.any()] == []


@each_lora
def test_the_loss_of_an_adapted_model_is_that_of_its_logits(name, build_tiny, sentence_pairs):
    model = build_tiny(dropout=0.0, label_smoothing=0.1)
    adapted = with_lora(model, name, init_lora_weights=False)

    outputs = adapted.train()(**sentence_pairs)

    expected = functional.cross_entropy(
        outputs.logits.flatten(0, 1), sentence_pairs["labels"].flatten(), label_smoothing=0.1
    )
    assert outputs.loss.item() == pytest.approx(expected.item(), abs=1e-5)


@each_lora
def test_a_merged_adapter_gives_the_same_logits(name, mergeable, sentence_pairs):
    adapted = with_lora(mergeable, name)
    trained(adapted, sentence_pairs)
    expected = logits_of(adapted, sentence_pairs)

    merged = adapted.merge_and_unload()

    torch.testing.assert_close(logits_of(merged, sentence_pairs), expected, rtol=0, atol=1e-4)


@each_lora
def test_a_saved_adapter_loads_onto_the_same_model(name, mergeable, sentence_pairs, tmp_path):
    mergeable.save_pretrained(tmp_path / "model")
    adapted = with_lora(mergeable, name)
    trained(adapted, sentence_pairs)
    adapted.save_pretrained(tmp_path / "adapter")

    fresh = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model")
    loaded = PeftModel.from_pretrained(fresh, tmp_path / "adapter")

    torch.testing.assert_close(
        logits_of(loaded, sentence_pairs), logits_of(adapted, sentence_pairs), rtol=0, atol=1e-5
    )


@each_lora
def test_a_merged_model_is_saved_whole(name, mergeable, sentence_pairs, tmp_path):
    adapted = with_lora(mergeable, name)
    trained(adapted, sentence_pairs)
    merged = adapted.merge_and_unload()
    merged.save_pretrained(tmp_path)

    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)

    torch.testing.assert_close(
        logits_of(loaded, sentence_pairs), logits_of(merged, sentence_pairs), rtol=0, atol=0
    )


def test_the_library_loads_an_adapter_folder_by_itself(build_tiny, sentence_pairs, tmp_path):
    model = build_tiny()
    model.save_pretrained(tmp_path / "model")
    model.name_or_path = str(tmp_path / "model")
    adapted = with_lora(model, "attention")
    trained(adapted, sentence_pairs)
    adapted.save_pretrained(tmp_path / "adapter")

    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "adapter")

    torch.testing.assert_close(
        logits_of(loaded, sentence_pairs), logits_of(adapted, sentence_pairs), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("name", ["attention", "head"])
def test_an_adapted_model_generates_as_its_merged_self(name, mergeable, sentence_pairs):
    adapted = with_lora(mergeable, name)
    trained(adapted, sentence_pairs)
    source = {key: sentence_pairs[key] for key in ("input_ids", "attention_mask")}
    expected = adapted.generate(**source, max_new_tokens=8, num_beams=2)

    merged = adapted.merge_and_unload()

    assert torch.equal(merged.generate(**source, max_new_tokens=8, num_beams=2), expected)


@pytest.mark.parametrize(
    "config",
    [
        IA3Config(task_type=TASK, target_modules=["k_proj", "fc2"], feedforward_modules=["fc2"]),
        PromptTuningConfig(task_type=TASK, num_virtual_tokens=3, num_attention_heads=4),
    ],
    ids=["IA3", "prompt tuning"],
)
def test_other_methods_learn_too(config, build_tiny, sentence_pairs):
    losses = trained(get_peft_model(build_tiny(dropout=0.0), config), sentence_pairs, steps=20)

    assert losses[-1] < losses[0]
