"""Train again and again, each time killed, until a last time: `train_and_die.py PLAN.json`.

The plan: `recipe`, `output`, `changes`, `processes`, and `kills`, a list of moments to die at:

    {"operation": 120}                     at the 120th operation on files
    {"phase": "rotating", "after": 0.01}   so many seconds into the next such phase
    {"signals": 7}                         asked to stop in step 7, and again while it saves

Libraries are imported once, here; every attempt is a fork of this process. Prints, as JSON, in
which phase each attempt died and how the last one ended.
"""

import json
import mmap
import os
import signal
import socket
import sys
import time
import traceback
from pathlib import Path

import torch

from training import train
from training.checkpoints import Checkpoints
from training.evaluation import Evaluation
from training.learner import Learner

FILE_OPERATIONS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}
PHASES = {
    "learning": (Learner, "step"),
    "saving": (Checkpoints, "save"),
    "rotating": (Checkpoints, "tidy"),
    "evaluating": (Evaluation, "of"),
    "averaging": (train, "write_model"),
}
NAMES = ["starting", *PHASES]
DIED = 9
PATIENCE = 120  # seconds, more than a run takes

phase = mmap.mmap(-1, 1)  # shared with all forks


def watch_phases():
    for number, (owner, name) in enumerate(PHASES.values(), start=1):
        setattr(owner, name, watched(getattr(owner, name), number))


def watched(function, number):
    def run(*args, **kwargs):
        before, phase[0] = phase[0], number
        try:
            return function(*args, **kwargs)
        finally:
            phase[0] = before

    return run


def die_at(operation, output):
    """Count what happens to files of the run, in this process."""
    left = [operation]

    def hear(event, arguments):
        if event in FILE_OPERATIONS and concerns(event, arguments[0], output):
            left[0] -= 1
            if left[0] < 0:
                os._exit(DIED)

    sys.addaudithook(hear)


def signal_at(step):
    """Ask this process to stop, twice."""
    take, commit = Learner.step, Checkpoints._commit

    def step_and_signal(learner, number, *args, **kwargs):
        if number == step:
            signal.raise_signal(signal.SIGTERM)
            Checkpoints._commit = signal_and_commit
        return take(learner, number, *args, **kwargs)

    def signal_and_commit(*args, **kwargs):
        signal.raise_signal(signal.SIGTERM)
        return commit(*args, **kwargs)

    Learner.step = step_and_signal


def concerns(event, path, output):
    return event != "open" or (isinstance(path, str | os.PathLike) and str(path).startswith(output))


def attempt(plan, kill, resume):
    """One run, on all its processes; returns its exit codes and the phase it died in."""
    phase[0] = 0
    port = free_port()
    ranks = range(plan["processes"])
    group = 0
    children = []
    for rank in ranks:
        if not (child := os.fork()):
            os.setpgid(0, group)
            be_rank(rank, plan, port, kill, resume)
        group = group or child
        os.setpgid(child, group)  # here too: whoever comes first
        children.append(child)
    if "phase" in kill:
        kill_in_phase(group, children, kill)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return codes, NAMES[phase[0]]


def be_rank(rank, plan, port, kill, resume):
    try:
        if plan["processes"] > 1:
            os.environ.update(
                {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(plan["processes"])},
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(port),
                ACCELERATE_USE_CPU="true",
            )
        if rank == 0:
            watch_phases()
        if "operation" in kill:
            die_at(kill["operation"], plan["output"])
        if "signals" in kill:
            signal_at(kill["signals"])
        train.main(Path(plan["recipe"]), Path(plan["output"]), resume, plan["changes"])
    except SystemExit as end:
        os._exit(end.code)
    except BaseException:
        traceback.print_exc()
        os._exit(70)


def kill_in_phase(group, children, kill):
    """Wait for the phase, and a little longer; then nothing of the run lives on."""
    wanted, until = NAMES.index(kill["phase"]), time.monotonic() + PATIENCE
    while phase[0] != wanted and time.monotonic() < until:
        if os.waitid(os.P_PID, children[0], os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(0.0005)
    time.sleep(kill["after"])
    os.killpg(group, signal.SIGKILL)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def main(plan):
    if not plan.get("syncs"):
        os.fsync = lambda descriptor: None  # a killed process loses nothing that the system has
    train.write_final_report = lambda folder: None  # which takes longer than a small run
    torch.set_num_threads(1)
    deaths = []
    for number, kill in enumerate(plan["kills"]):
        codes, died_in = attempt(plan, kill, resume=number > 0)
        if any(codes) and set(codes) - {DIED, -signal.SIGKILL, -signal.SIGTERM}:
            break
        deaths.append(died_in if any(codes) else "the end")
    else:
        codes, _ = attempt(plan, {}, resume=bool(plan["kills"]))
    sys.stdout.write(json.dumps({"deaths": deaths, "codes": codes}))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
