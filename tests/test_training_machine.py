"""A run's log says what it ran on."""

import platform

from training.machine import describe_machine


def test_a_machine_is_told_in_one_line():
    told = describe_machine()
    assert platform.system() in told
    assert "core" in told
    assert "\n" not in told
