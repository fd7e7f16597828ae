"""After a resume, every generator says what it would have said."""

import random

import numpy as np
import torch

from training.random_states import random_states, restore_random_states
from training.saved_state import load_state, save_state


def draw():
    return (
        random.random(),
        random.gauss(0, 1),
        np.random.random(),
        np.random.standard_normal(),
        torch.rand(3).tolist(),
        torch.nn.functional.dropout(torch.ones(20)).tolist(),
    )


def test_restored_generators_repeat_themselves(tmp_path):
    draw()  # each second normal number was drawn with the first: half of one is remembered
    save_state(random_states(), tmp_path / "random-states")
    first = draw()
    draw()
    restore_random_states(load_state(tmp_path / "random-states"))

    assert draw() == first


def test_another_device_is_told(caplog):
    restore_random_states({**random_states(), "a-device-we-lack": torch.zeros(1)})

    assert "The run was on a-device-we-lack and continues on" in caplog.text
