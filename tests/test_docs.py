"""The documentation: its Python runs and prints what it says, its links point at what they name."""

import json
import re

import pytest
from conftest import SENTENCES
from doc_commands import commands_of, run_command
from scripts.point_links import DOCS, REPOSITORY, definitions, pointed

from vanilla_transformer.embedded_models import embedded_names

PAGES = sorted(DOCS.glob("*.md"))
# TODO(the weights of en-de-small are committed): all PAGES.
RUNNABLE = [page for page in PAGES if embedded_names() or page.stem != "quickstart"]
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.stem)
def test_the_python_of_a_page_prints_what_it_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tokenizer").symlink_to(REPOSITORY / "tokenizer")
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
        exec(block, names)
        assert capsys.readouterr().out == promised(block)


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_what_readers_have(tmp_path)
    for block in re.findall(r"```yaml\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
        (tmp_path / "my-recipe.yaml").write_text(block, encoding="utf-8")

    for command in commands_of(page):
        run_command(command)


def write_what_readers_have(folder):
    """A clone, and their own text."""
    for name in ("tokenizer", "training"):
        (folder / name).symlink_to(REPOSITORY / name)
    pairs = [line.split("\t") for line in SENTENCES.splitlines()]
    for name in ("train", "valid"):
        for side, language in enumerate(("en", "de")):
            lines = [f"{name}: {pair[side]}\n" for pair in pairs]
            (folder / f"{name}.{language}").write_text("".join(lines), encoding="utf-8")
    for name in ("few", "test"):
        (folder / f"{name}.tsv").write_text(SENTENCES, encoding="utf-8")
    rows = [json.dumps({"en": f"More: {en}", "de": f"Mehr: {de}"}) for en, de in pairs]
    (folder / "more.jsonl").write_text("\n".join(rows), encoding="utf-8")
    (folder / "numbers.txt").write_text("forty-two\n")
    (folder / "input.en").write_text("".join(f"{en}\n" for en, _ in pairs), encoding="utf-8")


def promised(block):
    """What stands in comments right below a print, or below what it printed before."""
    lines, follows = [], False
    for line in block.splitlines():
        if follows and line.startswith("# "):
            lines.append(line[2:] + "\n")
        elif line:
            follows = "print(" in line
    return "".join(lines)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_links_of_a_page_lead_somewhere(page):
    text = page.read_text("utf-8")

    assert pointed(text, definitions()) == text, "run: make docs"
    for place, heading in LINK.findall(text):
        if "://" in place:
            continue
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), place
        if heading and target.suffix == ".md":
            assert heading in headings(target), f"{place}#{heading}"


def headings(page):
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_a_name_that_moved_or_is_ambiguous_is_seen():
    moved = "[`EncoderLayer`](../vanilla_transformer/modeling_vanilla_transformer.py#L1)"
    assert pointed(moved, definitions()) != moved
    with pytest.raises(ValueError, match="must be defined once"):
        pointed("[`Nobody`]()", definitions())


def test_every_page_is_reachable_from_the_readme():
    readme = (REPOSITORY / "README.md").read_text("utf-8")
    assert {page.name for page in PAGES} == set(re.findall(r"\(docs/(\w[\w-]*\.md)", readme))
