"""What the README names is there; its blocks run in test_docs.py."""

import re

import pytest
from scripts.fresh_process import REPOSITORY

README = (REPOSITORY / "README.md").read_text("utf-8")
TABLE = README.partition("## What works")[2].partition("\n## ")[0]


@pytest.mark.parametrize("file", sorted({*re.findall(r"`(tests/\w+\.py)`", README)}))
def test_every_test_file_the_readme_names_exists(file):
    assert (REPOSITORY / file).exists()


def test_every_line_of_what_works_names_its_proof():
    lines = [line for line in TABLE.splitlines() if line.startswith("| ✓")]

    assert len(lines) > 15
    assert all(re.search(r"`(tests/\w+\.py|make [\w-]+)`", line) for line in lines)


@pytest.mark.parametrize("target", sorted({*re.findall(r"\bmake ([a-z][\w-]*)", README)}))
def test_every_target_of_make_that_the_readme_names_exists(target):
    assert re.search(rf"^{target}:", (REPOSITORY / "Makefile").read_text("utf-8"), re.M)
