"""The documentation: its code runs and prints what it says, its links point at what they name."""

import json
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from conftest import SENTENCES
from doc_commands import commands_of, run_command
from hub_stub import USER
from PIL import Image
from scripts.point_links import DOCS, REPOSITORY, definitions, pointed

README = REPOSITORY / "README.md"
CARD = REPOSITORY / "model_card.md"
PAGES = [README, CARD, *sorted(DOCS.glob("*.md"))]
FILES = {"yaml": "my-recipe.yaml", "tsv": "my-pairs.tsv"}
NAMED = re.compile(r"# (\S+\.yaml)\n")
SMALLER = {"max_steps=200": "max_steps=2", "range(1, 1_000)": "range(1, 60)"}  # of Python
FIGURE = re.compile(r"!\[[^\]]+\]\((figures/[\w-]+\.png)\)")
PICTURE = re.compile(r'(?:src="|\]\()(docs/figures/[^")]+)')
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_works_from_top_to_bottom(page, reader, monkeypatch, capsys):
    names: dict[str, object] = {}
    for kind, block in blocks_of(page):
        if kind == "python":
            capsys.readouterr()
            exec(smaller(block), names)
            assert printed(capsys) == promised(block)
        elif kind == "bash":
            for command in commands_of(block):
                run_command(command, export=monkeypatch.setenv)
        elif kind in FILES:
            name = NAMED.match(block)
            Path(name[1] if name else FILES[kind]).write_text(block, encoding="utf-8")
    for figure in FIGURE.findall(page.read_text("utf-8")):
        assert difference(DOCS / figure, Path("docs") / figure) < 0.002, figure


def blocks_of(page):
    """What stands between fences, and what it is: python, bash, yaml, ... The reader is alice."""
    text = page.read_text("utf-8").replace("you/", f"{USER}/")
    return re.findall(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def smaller(block):
    """The same with less text and fewer steps."""
    for large, small in SMALLER.items():
        block = block.replace(large, small)
    return block


def difference(*files):
    """The mean over all pixels, of 1: a lost decimal changes 0.017, another curve 0.005 or more."""
    pictures = [Image.open(file) for file in files]
    if len({picture.info["Software"] for picture in pictures}) > 1:
        return 0.0  # another matplotlib sets its letters otherwise
    pixels, others = (np.asarray(picture.convert("RGB")) / 255 for picture in pictures)
    return abs(pixels - others).mean()


@pytest.fixture
def reader(page, tiny_tokenizer, build_tiny, at_hub, tmp_path, monkeypatch):
    """Where somebody reads a page: in a clone, with text and an account on the Hub."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("vanilla_transformer.publish.verify_folder", lambda *seen: None)
    write_what_readers_have(tmp_path)
    if "training/train.py" not in page.read_text("utf-8"):  # who trains no model has one
        folder = tmp_path / "runs" / "numbers" / "model"
        build_tiny(vocab_size=len(tiny_tokenizer)).save_pretrained(folder)
        tiny_tokenizer.save_pretrained(folder)
    with at_hub():
        yield


def write_what_readers_have(folder):
    """A clone, and their own text."""
    for name in ("tokenizer", "training"):
        (folder / name).symlink_to(REPOSITORY / name)
    pairs = [line.split("\t") for line in SENTENCES.splitlines()]
    for name in ("train", "valid"):
        for side, language in enumerate(("en", "de")):
            lines = [f"{name}: {pair[side]}\n" for pair in pairs]
            (folder / f"{name}.{language}").write_text("".join(lines), encoding="utf-8")
    for name in ("few", "test", "train", "valid"):
        (folder / f"{name}.tsv").write_text(SENTENCES, encoding="utf-8")
    rows = [json.dumps({"en": f"More: {en}", "de": f"Mehr: {de}"}) for en, de in pairs]
    (folder / "more.jsonl").write_text("\n".join(rows), encoding="utf-8")
    (folder / "numbers.txt").write_text("forty-two\n")
    (folder / "input.en").write_text("".join(f"{en}\n" for en, _ in pairs), encoding="utf-8")


def printed(capsys):
    """What a block wrote to stdout, without the records of the library's Trainer."""
    lines = capsys.readouterr().out.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("{'"))


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


def test_every_figure_is_shown_and_small():
    shown = {DOCS / name for page in PAGES for name in FIGURE.findall(page.read_text("utf-8"))}
    at_the_top = "".join(page.read_text("utf-8") for page in (README, CARD))
    pictures = {REPOSITORY / name for name in PICTURE.findall(at_the_top)}

    assert shown | pictures == {*(DOCS / "figures").glob("*")}
    assert all(figure.stat().st_size < 60_000 for figure in shown)
    assert all(picture.stat().st_size < 200_000 for picture in pictures)


def test_every_page_is_reachable_from_the_readme():
    named = re.findall(r"\(docs/(\w[\w-]*\.md)", README.read_text("utf-8"))
    assert {page.name for page in PAGES if page.parent == DOCS} == set(named)
