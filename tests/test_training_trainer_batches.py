"""The library's Trainer trains on our batches, and resumes among them as if nothing had been."""

import json
from collections import Counter

import numpy as np
import pytest
import torch
from accelerate.data_loader import BatchSamplerShard
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from scripts.fresh_process import REPOSITORY, SCRIPTS, run_fresh
from scripts.resume_in_parallel import failures
from scripts.toy_translation import make_model, make_tokenizer
from test_accelerate import TWO_PROCESSES
from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainingArguments

from training.batching import Batches
from training.trainer_batches import EpochBatches, TranslationTrainer, collate_rows, shareable

TOKENS = 40
lengths = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=80)


def batches_of(pairs, processes):
    source, target = np.array(pairs).T
    batches = Batches(source, target, source_tokens=TOKENS, target_tokens=TOKENS, seed=1)
    return EpochBatches(batches, processes)


def shares_of(batches):
    """What accelerate gives each process."""
    processes = batches.processes
    return [list(BatchSamplerShard(batches, processes, rank)) for rank in range(processes)]


@given(lengths, st.integers(1, 4), st.integers(0, 2))
def test_processes_share_an_epoch_in_equally_many_batches(pairs, processes, epoch):
    batches = batches_of(pairs, processes)
    batches.set_epoch(epoch)

    shares = shares_of(batches)

    assert len({len(share) for share in shares}) == 1
    assert len(batches) == len(list(batches))
    seen = Counter(number for share in shares for batch in share for number in batch)
    assert seen.keys() == set(range(len(pairs)))
    if len(batches) % processes == 0:
        assert set(seen.values()) == {1}
    else:
        assert max(map(len, batches)) == 1  # there was nothing left to halve


@given(lengths, st.integers(1, 4))
def test_no_batch_of_a_process_is_larger_than_its_budget(pairs, processes):
    for batch in batches_of(pairs, processes):
        assert max(np.array(pairs)[batch].max(axis=0)) * len(batch) <= TOKENS


def test_the_fullest_batches_are_halved_until_processes_can_share_them():
    batches = [np.arange(2), np.arange(5), np.arange(3)]

    assert [len(batch) for batch in shareable(batches, 3)] == [2, 5, 3]
    assert [len(batch) for batch in shareable(batches, 5)] == [2, 2, 1, 2, 3]


def test_epochs_have_orders_of_their_own_and_keep_them():
    batches = batches_of([(1 + n % 7, 1 + n % 5) for n in range(100)], 2)
    orders = []
    for epoch in (0, 1, 2, 1):
        batches.set_epoch(epoch)
        orders.append(list(batches))

    assert orders[1] == orders[3]
    assert len({str(order) for order in orders}) == 3


@pytest.fixture(params=["ordinary", "with the padding id inside"])
def rows(request):
    padding = 0 if request.param != "ordinary" else 9
    return [
        {"input_ids": [5, padding, 6, 2], "labels": [7, 2]},
        {"input_ids": [5, 2], "labels": [padding, 8, padding, 7, 2]},
        {"input_ids": [padding, 2], "labels": [padding, 2]},
    ]


def test_the_collator_makes_what_the_librarys_makes(rows):
    model, tokenizer = make_model(), make_tokenizer()
    expected = DataCollatorForSeq2Seq(tokenizer, model=model)([dict(row) for row in rows])

    batch = collate_rows(rows, padding=0, start=1)

    is_word = batch["labels"] != -100
    assert batch.keys() == expected.keys()
    for name in ("input_ids", "attention_mask", "labels"):
        assert torch.equal(batch[name], expected[name])
    # The library's has an end behind the last word, where no loss looks.
    read, wanted = batch["decoder_input_ids"], expected["decoder_input_ids"]
    assert torch.equal(read[is_word], wanted[is_word])
    assert not read[~is_word].any()


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_collated_batch_has_the_loss_of_its_labels_alone(rows, mode):
    model = make_model(dropout=0.0)
    getattr(model, mode)()
    batch = collate_rows(rows, padding=0, start=1)
    losses = [
        model(**{**batch, "decoder_input_ids": made}).loss.item()
        for made in (batch["decoder_input_ids"], None)
    ]

    assert losses[0] == pytest.approx(losses[1], abs=1e-6)


def make_trainer(folder, train, **changes):
    return TranslationTrainer(
        make_model(),
        Seq2SeqTrainingArguments(
            output_dir=folder, use_cpu=True, disable_tqdm=True, report_to=[], **changes
        ),
        source_tokens=TOKENS,
        target_tokens=TOKENS,
        train_dataset=Dataset.from_list(train),
        processing_class=make_tokenizer(),
    )


def test_a_trainer_reads_batches_of_so_many_tokens(tmp_path):
    pairs = [{"input_ids": [5] * (1 + n % 9), "labels": [6] * (1 + n % 7)} for n in range(60)]
    trainer = make_trainer(tmp_path, pairs, dataloader_pin_memory=False)

    batches = list(trainer.get_train_dataloader())

    assert max(batch[name].numel() for batch in batches for name in batch) <= TOKENS
    assert sum(len(batch["labels"]) for batch in batches) == 60
    assert len({len(batch["labels"]) for batch in batches}) > 1


def test_a_pair_that_fits_no_batch_is_refused(tmp_path):
    with pytest.raises(ValueError, match="room for the longest pair"):
        make_trainer(tmp_path, [{"input_ids": [5] * 41, "labels": [2]}])


@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_training_resumed_anywhere_ends_with_the_same_weights(tmp_path, accumulation):
    result = failures(tmp_path, accumulation)

    assert result["batches"] == 5
    assert result["checkpoints"] == 3
    assert result["failed"] == []


@pytest.mark.slow
def test_two_processes_resumed_anywhere_end_with_the_same_weights(tmp_path):
    environment = {"ACCELERATE_USE_CPU": "true", "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY}/tests"}
    command = *TWO_PROCESSES, SCRIPTS / "resume_in_parallel.py", tmp_path / "results.json"
    run_fresh(*command, folder=tmp_path, **environment)

    for result in json.loads((tmp_path / "results.json").read_text()):
        assert (result["processes"], result["batches"], result["checkpoints"]) == (2, 3, 3)
        assert result["failed"] == []
