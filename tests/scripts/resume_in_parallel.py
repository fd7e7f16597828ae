"""Train with the library's Trainer and our batches, resume from every checkpoint, compare the ends.

    accelerate launch --multi_gpu --num_processes 2 resume_in_parallel.py RESULTS

With ACCELERATE_USE_CPU=true, and tests/ on the path. For each number of accumulated batches, the
checkpoints whose resumption did not end with the weights of the whole training go to a JSON file.
"""

import json
import sys
from pathlib import Path

import torch
from datasets import Dataset
from scripts.toy_translation import make_examples, make_model, make_pairs, make_tokenizer
from transformers import Seq2SeqTrainingArguments

from training.trainer_batches import TranslationTrainer
from training.trainer_folder import checkpoints_in

STEPS, EVERY = 7, 2


def make_trainer(folder, accumulation, seed=0):
    tokenizer = make_tokenizer()
    arguments = Seq2SeqTrainingArguments(
        output_dir=folder,
        max_steps=STEPS,
        save_steps=EVERY,
        gradient_accumulation_steps=accumulation,
        learning_rate=1e-2,
        logging_steps=STEPS,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        report_to=[],
        use_cpu=True,
    )
    return TranslationTrainer(
        make_model(seed=seed, dropout=0.3),
        arguments,
        source_tokens=40,
        target_tokens=40,
        train_dataset=Dataset.from_list(make_examples(tokenizer, make_pairs(34))),
        processing_class=tokenizer,
    )


def end_of(trainer, checkpoint=None):
    """The weights after the last step."""
    trainer.train(resume_from_checkpoint=checkpoint and str(checkpoint))
    return {name: weight.clone() for name, weight in trainer.model.state_dict().items()}


def failures(folder, accumulation):
    """Where resumption ends elsewhere, and how many steps make an epoch."""
    trainer = make_trainer(folder, accumulation)
    whole = end_of(trainer)
    failed = []
    for checkpoint in checkpoints_in(folder)[1:]:
        resumed = end_of(make_trainer(folder, accumulation, seed=1), checkpoint)
        if not all(torch.equal(resumed[name], weight) for name, weight in whole.items()):
            failed.append(checkpoint.name)
    return {
        "processes": trainer.args.world_size,
        "batches": len(trainer.get_train_dataloader()),
        "checkpoints": len(checkpoints_in(folder)) - 1,
        "failed": failed,
    }


def main(file):
    torch.set_num_threads(1)
    results = [failures(file.parent / f"runs-{number}", number) for number in (1, 2)]
    if results[0]["processes"] == 1 or torch.distributed.get_rank() == 0:
        file.write_text(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
