"""Our training loop, as training/train.py runs it between two evaluations."""

import os
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from tqdm.auto import tqdm
from transformers import AutoTokenizer

from benchmarks.end_to_end_folder import batches_of, read_corpus, recipe_for
from benchmarks.end_to_end_task import read_request
from benchmarks.turns import Step, Turns
from training.batching import Place
from training.learner import Learner
from training.loader import Loader
from training.recipe import Recipe
from vanilla_transformer import VanillaTransformerConfig, VanillaTransformerForConditionalGeneration


def build_model(recipe: Recipe) -> VanillaTransformerForConditionalGeneration:
    """Build the recipe's model, as training/train.py does."""
    tokenizer = AutoTokenizer.from_pretrained(recipe.corpus.tokenizer)
    config = VanillaTransformerConfig(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        **recipe.model,
    )
    return VanillaTransformerForConditionalGeneration(config)


def main() -> None:
    """Train for ever."""
    folder, task, settings = read_request()
    torch.set_num_threads(1)
    recipe, accelerator = recipe_for(folder, task, settings["precision"]), Accelerator(cpu=True)
    corpus = read_corpus(folder, recipe)
    set_seed(recipe.seed)
    learner = Learner(build_model(recipe), recipe.optimization, recipe.seed, accelerator)
    config = learner.model.config
    loader = Loader(corpus, batches_of(corpus, recipe), config, accelerator, recipe)
    turns, works, clock = Turns(), loader.after(Place()), time.process_time
    with open(os.devnull, "w") as nowhere, tqdm(file=nowhere, unit=" steps") as shown:
        number = 0
        while True:
            number, begun = number + 1, clock()
            work = next(works)
            ready = clock()
            outcome = learner.step(number, work.pieces, work.target_tokens)
            learned = clock()
            shown.update()
            shown.set_postfix(loss=f"{outcome.loss:.3f}", lr=f"{outcome.learning_rate:.2e}")
            source_tokens = sum(int(piece["attention_mask"].sum()) for piece in work.pieces)
            input_seconds = ready - begun + clock() - learned
            turns.done(Step(source_tokens, work.target_tokens, outcome.loss, input_seconds))


if __name__ == "__main__":
    main()
