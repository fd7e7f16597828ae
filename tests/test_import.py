"""Importing the package adds next to nothing to importing torch and transformers."""

import json
import statistics
import sys
from pathlib import Path

import pytest
from scripts.fresh_process import run_fresh

import vanilla_transformer

ROUNDS = 3
BAR = 0.3  # seconds
# `import transformers` alone does not even import torch; whatever is named of it then does.
PROGRAM = """
import json, sys, time
import torch, transformers
before, started = set(sys.modules), time.process_time()
import vanilla_transformer
seconds = time.process_time() - started
print(json.dumps([seconds, sorted({name.split(".")[0] for name in set(sys.modules) - before})]))
"""


@pytest.fixture(scope="module")
def imports(tmp_path_factory):
    """Seconds of several imports, each in a process of its own, and the libraries they loaded."""
    folder = tmp_path_factory.mktemp("imports")
    path = str(Path(vanilla_transformer.__file__).parents[1])
    return [
        json.loads(run_fresh("-c", PROGRAM, folder=folder, PYTHONPATH=path)) for _ in range(ROUNDS)
    ]


def test_an_import_adds_little_time_to_the_library_s(imports):
    assert statistics.median(seconds for seconds, _ in imports) <= BAR


def test_an_import_loads_no_other_library(imports):
    of_the_library_s_tokenizers = {"tokenizers", "sentencepiece"}
    expected = {"vanilla_transformer", "transformers", "huggingface_hub"}
    for _, libraries in imports:
        assert set(libraries) - sys.stdlib_module_names <= expected | of_the_library_s_tokenizers
