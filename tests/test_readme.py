"""Runs every Python block of the README, in order, as one reader would."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_the_python_blocks_of_the_readme_print_what_they_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(block, names)
        promised = "".join(line[2:] + "\n" for line in block.splitlines() if _is_output(line))
        assert promised in capsys.readouterr().out


def _is_output(line: str) -> bool:
    return line.startswith(("# tensor", "# 2"))


@pytest.mark.parametrize("target", re.findall(r"`(tests/\w+\.py)`", README.read_text("utf-8")))
def test_every_test_file_the_readme_names_exists(target):
    assert (README.parent / target).exists()
