"""Train a toy translator on whole batches, split over as many processes as there are.

    python train_in_parallel.py RESULTS
    accelerate launch --multi_gpu --num_processes 2 train_in_parallel.py RESULTS

Both with ACCELERATE_USE_CPU=true. The losses of a loop written with accelerate, of the same with
each layer split over the processes, and of the library's Trainer go to a JSON file.
"""

import json
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils.dataclasses import get_module_class_from_name
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader
from toy_translation import make_collator, make_examples, make_model, make_pairs, make_tokenizer
from transformers import Trainer, TrainingArguments

GLOBAL_BATCH = 8
STEPS = 5
LEARNING_RATE = 0.1
IGNORED = -100


def prepare():
    tokenizer = make_tokenizer()
    model = make_model(dropout=0.0)
    examples = make_examples(tokenizer, make_pairs(GLOBAL_BATCH * STEPS))
    return model, examples, make_collator(tokenizer, model)


def losses_of_loop(accelerator, distribute):
    """What a user writes: each word counts alike, whichever process it is in."""
    model, examples, collator = prepare()
    model = distribute(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    size = GLOBAL_BATCH // accelerator.num_processes
    losses = []
    for batch in accelerator.prepare(DataLoader(examples, size, collate_fn=collator)):
        words = accelerator.gather((batch["labels"] != IGNORED).sum()).sum()
        loss = model(**batch, num_items_in_batch=words).loss
        accelerator.backward(loss * accelerator.num_processes)  # gradients are averaged
        optimizer.step()
        optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()).sum().item())
    return losses


def shard(model):
    """Split the layers over all processes (FSDP2), each as a whole, as the model hints."""
    mesh = init_device_mesh("cpu", (Accelerator().num_processes,))
    whole = {get_module_class_from_name(model, name) for name in model._no_split_modules}
    for module in model.modules():
        if type(module) in whole:
            fully_shard(module, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def losses_of_trainer(processes, folder):
    model, examples, collator = prepare()
    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=GLOBAL_BATCH // processes,
        train_sampling_strategy="sequential",
        max_steps=STEPS,
        optim="sgd",
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
        report_to=[],
        use_cpu=True,
    )
    trainer = Trainer(model, arguments, train_dataset=examples, data_collator=collator)
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def main(file):
    torch.set_num_threads(1)
    accelerator = Accelerator()
    processes = accelerator.num_processes
    results = {
        "processes": processes,
        "loop": losses_of_loop(accelerator, accelerator.prepare),
        "sharded": losses_of_loop(accelerator, shard) if processes > 1 else None,
        "trainer": losses_of_trainer(processes, file.parent / "runs"),
    }
    if accelerator.is_main_process:
        file.write_text(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
