"""Our batches in the library's Seq2SeqTrainer: token budgets, the same order after any resumption.

The Trainer counts its batches in sentences, and forgets after a resumption which epoch's order it
was in. Here the order is a function of seed and epoch, and the Trainer is told the epoch.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, Sampler
from transformers import Seq2SeqTrainer, TrainerCallback
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.utils.hub import create_and_tag_model_card

from training.batching import Batches, Indices
from training.objective import Batch, collate
from vanilla_transformer import VanillaTransformerForConditionalGeneration
from vanilla_transformer.model_card import write_card_of
from vanilla_transformer.saved_folder import BLANK


class EpochBatches(Sampler[list[int]]):
    """The batches of one epoch after the other, equally many for every process.

    Where every batch is a single pair already, accelerate repeats some.
    """

    def __init__(self, batches: Batches, processes: int) -> None:
        self.batches, self.processes, self.epoch = batches, processes, 0
        self.length = sum(1 for _ in self)  # in every epoch: lengths are cut alike in any order

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        for batch in shareable(self.batches.epoch(self.epoch), self.processes):
            yield batch.tolist()

    def __len__(self) -> int:
        return self.length


def shareable(batches: list[Indices], processes: int) -> list[Indices]:
    """Halve the fullest batches until their number is a multiple of the processes'."""
    batches = list(batches)
    while len(batches) % processes and max(map(len, batches)) > 1:
        fullest = max(range(len(batches)), key=lambda number: len(batches[number]))
        batches[fullest : fullest + 1] = np.array_split(batches[fullest], 2)
    return batches


class TellEpoch(TrainerCallback):
    """Sets the epoch of the batches: after a resumption accelerate's wrappers hide them."""

    def __init__(self, batches: EpochBatches) -> None:
        self.batches = batches

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.batches.set_epoch(int(state.epoch or 0))


def collate_rows(rows: list[dict[str, list[int]]], padding: int, start: int) -> Batch:
    """The batch of some rows of a tokenized dataset; labels are padded with -100."""
    return collate([(row["input_ids"], row["labels"]) for row in rows], padding, start)


class TranslationTrainer(Seq2SeqTrainer):
    """Seq2SeqTrainer whose batches hold so many tokens, on every process and in every pass.

    `gradient_accumulation_steps` batches make a step; `per_device_train_batch_size` says nothing.
    """

    def __init__(
        self, model: Any, *args: Any, source_tokens: int, target_tokens: int, **kwargs: Any
    ) -> None:
        config = model.config
        collator = partial(
            collate_rows, padding=config.pad_token_id, start=config.decoder_start_token_id
        )
        super().__init__(model, *args, data_collator=collator, **kwargs)
        batches = Batches(
            *(self._lengths_of(column) for column in ("input_ids", "labels")),
            source_tokens=source_tokens,
            target_tokens=target_tokens,
            seed=self.args.seed,
        )
        self.batches = EpochBatches(batches, self.args.world_size)
        self.add_callback(TellEpoch(self.batches))

    def get_train_dataloader(self) -> DataLoader[Any]:
        """What the Trainer trains on: this process's part of the batches."""
        loader = DataLoader(
            self.train_dataset,
            batch_sampler=self.batches,
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.dataloader_pin_memory,
        )
        return self.accelerator.prepare(loader)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save as the library does, but leave no pickle of the arguments."""
        super().save_model(output_dir, _internal_call)
        if self.args.should_save:
            Path(output_dir or self.args.output_dir, TRAINING_ARGS_NAME).unlink(missing_ok=True)

    def create_model_card(self, *, model_name: str | None = None, **facts: Any) -> None:
        """Write the card of the model's own `push_to_hub`, unless the repository has one by hand.

        Cards with facts (`license=...`) and those of other models are the library's.
        """
        model = self.accelerator.unwrap_model(self.model)
        if facts or not isinstance(model, VanillaTransformerForConditionalGeneration):
            super().create_model_card(model_name=model_name, **facts)
        elif self.is_world_process_zero():
            folder = Path(self.args.output_dir).resolve()
            name = self.hub_model_id or model_name or folder.name
            card = write_card_of(model, name, is_as_loaded=self.state.global_step == 0)
            if self.hub_model_id:
                there = create_and_tag_model_card(self.hub_model_id, token=self.args.hub_token)
                card = card if BLANK in str(there) else str(there)
            (folder / "README.md").write_text(card, encoding="utf-8")

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Warn as the library does, but not of tied weights, which lie in a file only once."""
        tied = self.model.all_tied_weights_keys
        missing = [name for name in load_result.missing_keys if name not in tied]
        super()._issue_warnings_after_load(load_result._replace(missing_keys=missing))

    def _lengths_of(self, column: str) -> Indices:
        return np.array([len(ids) for ids in self.train_dataset[column]], dtype=np.int64)
