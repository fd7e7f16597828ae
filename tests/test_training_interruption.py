"""The first signal is a request, the second an end; nobody else's signals are touched."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from scripts.fresh_process import REPOSITORY

from training.interruption import INTERRUPTED, Interruption

LOOP = """
import multiprocessing, os, sys, time
from training.interruption import INTERRUPTED, Interruption

def work():
    os.write(1, b"ready")  # Python forgets a signal that comes while it forks
    time.sleep(600)

with Interruption() as interruption:
    worker = multiprocessing.get_context("fork").Process(target=work)
    worker.start()
    while not interruption.requested:
        time.sleep(0.01)
    assert worker.is_alive()
    worker.terminate()
    worker.join()
    assert worker.exitcode == -15
    os.write(1, b"saved")
    if sys.argv[1] == "slow":
        time.sleep(600)
    sys.exit(INTERRUPTED)
"""


@pytest.fixture
def loop():
    """Start a loop that a signal may stop, in a group of its own, as a terminal does."""
    started = []

    def start(speed):
        process = subprocess.Popen(
            [sys.executable, "-c", LOOP, speed],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout.read(5) == b"ready"
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):  # a worker may outlive it
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_lets_the_loop_save_and_end_with_its_code(loop, number):
    process = loop("quick")
    process.send_signal(number)

    output, complaints = process.communicate()

    assert (process.returncode, output) == (INTERRUPTED, b"saved"), complaints
    assert f"{number.name}: the next checkpoint".encode() in complaints


def test_control_c_reaches_workers_too_and_leaves_them_alive(loop):
    process = loop("quick")
    os.killpg(process.pid, signal.SIGINT)

    output, complaints = process.communicate()

    assert (process.returncode, output) == (INTERRUPTED, b"saved"), complaints
    assert complaints.count(b"the next checkpoint") == 1


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_process_at_once(loop, second):
    process = loop("slow")
    process.send_signal(signal.SIGTERM)
    assert process.stdout.read(5) == b"saved"
    process.send_signal(second)

    assert process.wait(60) == -second


def test_the_signals_are_given_back(capfd):
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with Interruption() as interruption:
        assert not interruption.requested
        signal.raise_signal(signal.SIGTERM)
        assert interruption.requested

    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
