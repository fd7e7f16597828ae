"""A Trainer's checkpoint that is not whole is passed over, and named."""

import logging

import pytest
import torch
from safetensors.torch import save_file

from training.trainer_folder import checkpoints_in, fault_of, last_whole_checkpoint

FILES = ["model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"]


def write_checkpoint(folder, names=FILES):
    folder.mkdir()
    for name in names:
        if name.endswith("safetensors"):
            save_file({"weight": torch.ones(9)}, folder / name)
        elif name.endswith("json"):
            (folder / name).write_text('{"global_step": 3}')
        else:
            torch.save({"state": torch.ones(9)}, folder / name)


DAMAGES = {
    "missing": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-7]),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_file_that_is_not_whole_is_found(name, damage, tmp_path):
    write_checkpoint(tmp_path / "checkpoint-3")
    assert fault_of(tmp_path / "checkpoint-3", processes=1, is_adapter=False) == ""

    DAMAGES[damage](tmp_path / "checkpoint-3" / name)

    assert name in fault_of(tmp_path / "checkpoint-3", processes=1, is_adapter=False)


def test_the_checkpoint_before_a_broken_one_is_taken(tmp_path, caplog):
    for step in (3, 9, 12):
        write_checkpoint(tmp_path / f"checkpoint-{step}")
    (tmp_path / "checkpoint-12" / "optimizer.pt").unlink()
    (tmp_path / "checkpoint-new").mkdir()

    with caplog.at_level(logging.WARNING, "training"):
        found = last_whole_checkpoint(tmp_path, processes=1, is_adapter=False)

    assert found == tmp_path / "checkpoint-9"
    assert "checkpoint-12: optimizer.pt is missing" in caplog.text
    assert [one.name[11:] for one in checkpoints_in(tmp_path)] == ["12", "9", "3"]


def test_where_no_checkpoint_is_training_begins(tmp_path):
    assert last_whole_checkpoint(tmp_path / "new", processes=1, is_adapter=False) is None


@pytest.mark.parametrize(
    ("changed", "missing"),
    [({"processes": 2}, "rng_state_0.pth"), ({"is_adapter": True}, "adapter_model.safetensors")],
)
def test_a_run_cannot_go_on_as_another_kind_of_run(changed, missing, tmp_path):
    write_checkpoint(tmp_path / "checkpoint-3")

    with pytest.raises(ValueError, match=f"in checkpoint-3 {missing} is missing"):
        last_whole_checkpoint(tmp_path, **{"processes": 1, "is_adapter": False, **changed})
