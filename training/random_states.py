"""What the random generators of one process will say next: Python's, numpy's, torch's."""

import logging
import random
from typing import Any

import numpy as np
import torch

logger = logging.getLogger(__name__)


def random_states() -> dict[str, Any]:
    """All generators of this process, in a form that `save_state` takes."""
    numpy_state: dict[str, Any] = dict(np.random.get_state(legacy=False))
    numpy_state["state"] = {**numpy_state["state"], "key": numpy_state["state"]["key"].tolist()}
    states = {"python": random.getstate(), "numpy": numpy_state, "torch": torch.get_rng_state()}
    if device := torch.accelerator.current_accelerator():
        states[device.type] = torch.get_device_module(device).get_rng_state()
    return states


def restore_random_states(states: dict[str, Any]) -> None:
    """Let every generator continue where `random_states` saw it."""
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])
    torch.set_rng_state(states["torch"])
    device = torch.accelerator.current_accelerator()
    saved_devices = states.keys() - {"python", "numpy", "torch"}
    if device and device.type in saved_devices:
        torch.get_device_module(device).set_rng_state(states[device.type])
    elif device or saved_devices:
        logger.warning(
            "The run was on %s and continues on %s: dropout will draw other numbers than it would "
            "have drawn there.",
            ", ".join(saved_devices) or "cpu",
            device.type if device else "cpu",
        )
