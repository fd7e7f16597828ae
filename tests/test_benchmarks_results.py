"""RESULTS.md: every script owns one section and touches nothing else."""

import pytest

from benchmarks.results import replace_section, shown_command, table

SCRIPT = "training.py"


def test_a_section_is_replaced_in_place(tmp_path):
    results = tmp_path / "RESULTS.md"
    replace_section(results, SCRIPT, "old rows")
    results.write_text(results.read_text() + "\n## Another question\n")
    replace_section(results, SCRIPT, "new rows")
    text = results.read_text()
    assert "old rows" not in text
    assert text.startswith("# Results\n")
    assert text.index("new rows") < text.index("## Another question")
    replace_section(results, SCRIPT, "new rows")
    assert results.read_text() == text


def test_the_section_of_another_script_stays(tmp_path):
    results = tmp_path / "RESULTS.md"
    for script, section in ((SCRIPT, "its rows"), ("other.py", "old"), ("other.py", "new")):
        replace_section(results, script, section)
    text = results.read_text()
    assert text.index("its rows") < text.index("new")
    assert "old" not in text


def test_a_section_without_its_end_is_refused(tmp_path):
    results = tmp_path / "RESULTS.md"
    results.write_text("<!-- training.py: begin -->")
    with pytest.raises(ValueError, match="must close the section"):
        replace_section(results, SCRIPT, "new rows")


def test_the_command_is_shown_without_places():
    shown = shown_command(SCRIPT, ["--quick", "--data", "/some/where/text"])
    assert shown == "python benchmarks/training.py --quick --data text"


def test_every_line_of_a_table_has_as_many_cells():
    lines = table(["a", "b", "c", "n"], [["x", "y", "z", "1"]]).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert lines[1] == "| --- | --- | --- | ---: |"
