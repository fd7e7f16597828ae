"""Let processes learn together, whichever way they share weights, and write down what they saw.

    train_together.py FOLDER STEPS

With ACCELERATE_USE_FSDP=true they share weights by FSDP2. Each process writes FOLDER/<number>.json;
a checkpoint lies in FOLDER/saved, the last weights in FOLDER/weights.safetensors.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from safetensors.torch import save_file

from training.batching import Batches, Place
from training.learner import Learner
from training.loader import Loader
from training.processes import on_main
from training.recipe import BatchingSection, OptimizationSection
from vanilla_transformer import (
    VanillaTransformerConfig,
    VanillaTransformerForConditionalGeneration,
)

SAVED_AT = 10
SIZES = dict.fromkeys(("encoder_layers", "decoder_layers"), 2) | {"vocab_size": 40, "d_model": 16}
HEADS = dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 2)
WIDTHS = {"encoder_ffn_dim": 32, "decoder_ffn_dim": 23}  # an odd one: shards differ in size


class Sentences:
    """A corpus of random words; its longest pair fills a batch alone."""

    def __init__(self):
        draw = np.random.default_rng(1)
        self.source_lengths = np.array([*draw.integers(2, 9, 60), 30])
        self.target_lengths = np.array([*draw.integers(2, 9, 60), 30])
        self.words = draw.integers(3, 40, (61, 2, 30))

    def pairs(self, indices, epoch):
        lengths = zip(self.source_lengths[indices], self.target_lengths[indices], strict=True)
        return [
            (source[:n].tolist(), target[:m].tolist())
            for (source, target), (n, m) in zip(self.words[indices], lengths, strict=True)
        ]


def make_learner(accelerator, dropout, **changes):
    torch.manual_seed(0)
    model = VanillaTransformerForConditionalGeneration(
        VanillaTransformerConfig(**SIZES, **HEADS, **WIDTHS, dropout=dropout)
    )
    settings = {"peak_learning_rate": 1e-3, "warmup_steps": 10, "precision": "float32"}
    return Learner(model, OptimizationSection(**settings | changes), 1, accelerator)


def all_work(accelerator, pieces):
    """Every step is cut into so many pieces, whether by processes or by accumulation."""
    corpus, config = Sentences(), VanillaTransformerConfig(**SIZES)
    lengths = corpus.source_lengths, corpus.target_lengths
    batches = Batches(*lengths, source_tokens=32, target_tokens=32, seed=1)
    section = BatchingSection(accumulation=pieces // accelerator.num_processes)
    return Loader(corpus, batches, section, config, accelerator).after(Place())


def learn(learner, accelerator, first=1, last=SAVED_AT, pieces=2):
    """The losses of some steps."""
    work = zip(range(1, last + 1), all_work(accelerator, pieces), strict=False)
    return [
        learner.step(number, one.pieces, one.target_tokens).loss
        for number, one in work
        if number >= first
    ]


def save_and_resume(accelerator, folder):
    """Train, saving on the way, and once more from what was saved; returns both weights."""
    settings = {"dropout": 0.1, "ema_decay": 0.9, "max_gradient_norm": 1.0}
    one = make_learner(accelerator, **settings)
    learn(one, accelerator, last=SAVED_AT)
    collected = one.collect()
    (folder / "saved" / "training").mkdir(parents=True, exist_ok=True)
    on_main(accelerator, lambda: one.save(folder / "saved", collected))
    learn(one, accelerator, first=SAVED_AT + 1, last=2 * SAVED_AT)
    other = make_learner(accelerator, **settings)
    other.load(folder / "saved")
    learn(other, accelerator, first=SAVED_AT + 1, last=2 * SAVED_AT)
    return one.collect(), other.collect()


def are_equal(one, other):
    (saved, averages), (same, same_averages) = one, other
    trees = [(saved.weights, same.weights), (averages, same_averages)]
    trees += [(saved.moments[key], same.moments[key]) for key in saved.moments]
    return saved.steps == same.steps and all(
        a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a) for a, b in trees
    )


def meet_no_number(accelerator, factors):
    """What all do when one process finds an infinite loss, or gradients that are no numbers."""
    learner = make_learner(accelerator, dropout=0.1)
    before = {name: one.clone() for name, one in learner.collect()[0].weights.items()}
    is_last = accelerator.process_index == accelerator.num_processes - 1
    work = next(all_work(accelerator, 2))
    if is_last:
        objective = learner.objective
        learner.objective = lambda *args: [
            one * factor for one, factor in zip(objective(*args), factors, strict=True)
        ]
    wrong = learner.step(1, work.pieces, work.target_tokens)
    if is_last:
        learner.objective = objective
    after = learner.collect()[0]
    is_same = all(torch.equal(before[name], one) for name, one in after.weights.items())
    right = learner.step(2, work.pieces, work.target_tokens, must_stop=is_last)
    return {
        "finite": [wrong.is_finite, right.is_finite],
        "stops": [wrong.must_stop, right.must_stop],
        "untouched": is_same and after.steps == 0,
    }


def fail_on_main(accelerator):
    def fail():
        raise OSError("no space")

    try:
        on_main(accelerator, fail)
    except (ValueError, OSError) as error:
        return str(error)


def main(folder, steps):
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    learner = make_learner(accelerator, dropout=0.0)
    found = {
        "processes": accelerator.num_processes,
        "losses": learn(learner, accelerator, last=steps),
        "losses_with_dropout": learn(make_learner(accelerator, dropout=0.1), accelerator),
        "infinite loss": meet_no_number(accelerator, factors=(1.0, torch.inf)),
        "no gradient": meet_no_number(accelerator, factors=(torch.nan, 1.0)),
        "error": fail_on_main(accelerator),
        "answer": on_main(accelerator, lambda: 42 + accelerator.process_index),
    }
    with learner.best_weights() as model:
        words = model.generate(torch.tensor([[5, 6, 7, 2]]), num_beams=2, max_new_tokens=5)
        found["words"] = words.tolist()
    found["resumes"] = are_equal(*save_and_resume(accelerator, folder))
    weights = learner.collect()[0].weights
    if accelerator.is_main_process:
        save_file(weights, folder / "weights.safetensors")
    text = json.dumps(found)
    (folder / f"{accelerator.process_index}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
