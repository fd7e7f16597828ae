"""Run one of these scripts in a process of its own: offline, elsewhere, with a cache of its own."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parent
REPOSITORY = SCRIPTS.parents[1]


def run_fresh(*command, folder, **environment):
    """What a command prints; its own complaint if it fails."""
    ours = {
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "home"),
        "HF_MODULES_CACHE": str(folder / "modules"),
        "OMP_NUM_THREADS": "1",
        **environment,
    }
    inherited = {name: os.environ[name] for name in os.environ.keys() - {"PYTHONPATH"}}
    finished = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env=inherited | ours,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    return finished.stdout
