"""What is shown is what is there: all bytes, all characters, and nothing that drives a terminal."""

import io
import re
import subprocess
import sys

import pytest
from conftest import SENTENCES
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scripts.fresh_process import REPOSITORY, run_fresh
from typer import Typer
from typer.testing import CliRunner

from tokenizer.show import BYTE_OF_LETTER, load_tokenizer, main, show_tokens, split, visible

APP = Typer()
APP.command()(main)
HARD = ["Über mut", "\U0001f469\u200d\U0001f469", "\x1b[31mred\x07\r\n\t", " a  b ", "</s>", ""]


def run(*arguments, **options):
    return CliRunner().invoke(APP, [*map(str, arguments)], **options)


def bytes_shown(output):
    """The last column: two or more blanks, then pairs of hexadecimal digits to the line's end."""
    columns = [re.search(r" {2,}((?:[0-9a-f]{2} ?)+) *$", line) for line in output.splitlines()]
    return bytes.fromhex("".join(found[1] for found in columns if found))


def test_every_letter_stands_for_one_byte(tiny_tokenizer):
    assert sorted(BYTE_OF_LETTER.values()) == list(range(256))
    for letter, byte in BYTE_OF_LETTER.items():
        assert tiny_tokenizer.backend_tokenizer.decoder.decode([letter]) == bytes([byte]).decode(
            errors="replace"
        )


@given(sentence=st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(HARD))
def test_the_bytes_of_all_tokens_are_those_of_the_sentence(sentence, tiny_tokenizer):
    *tokens, end = split(tiny_tokenizer, sentence)

    assert b"".join(token.content for token in tokens) == sentence.encode()
    assert [token.token_id for token in tokens] == tiny_tokenizer.encode(sentence)[:-1]
    assert all(token.text == token.characters for token in tokens if token.is_whole)
    assert (end.content, end.text) == (None, "</s>")


@given(sentence=st.text(st.characters(exclude_categories=["Cs"])))
def test_nothing_visible_drives_a_terminal(sentence):
    assert visible(sentence).isprintable()


@pytest.mark.parametrize("sentence", ["Where is the station?", "Über mut", "\x1b[31mred\x07"])
def test_the_command_shows_ids_texts_and_bytes(sentence, bundle, tiny_tokenizer):
    result = run(bundle, sentence)

    assert result.exit_code == 0
    assert bytes_shown(result.output) == sentence.encode()
    assert "\x1b" not in result.output
    for token_id in tiny_tokenizer.encode(sentence):
        assert re.search(rf"^ +{token_id} ", result.output, re.MULTILINE)
    assert result.output.splitlines()[0].count("|") == len(tiny_tokenizer.encode(sentence)) - 1


def test_sentences_come_from_stdin_too(bundle):
    assert (
        run(bundle, input="One.\nTwo\u2028.\r\n").output == run(bundle, "One.", "Two\u2028.").output
    )


def test_a_corpus_is_measured_as_its_sentences_say(bundle, tiny_tokenizer, tmp_path):
    (tmp_path / "pairs.tsv").write_text(SENTENCES + "no tab\n", encoding="utf-8")

    result = run(bundle, "--corpus", tmp_path / "pairs.tsv")

    assert "left out 1 with no tab" in result.output
    for side, language in enumerate(("en", "de")):
        texts = [line.split("\t")[side] for line in SENTENCES.splitlines()]
        tokens = [token for text in texts for token in tiny_tokenizer.tokenize(text)]
        words = sum(len(text.split()) for text in texts)
        size = sum(len(text.encode()) for text in texts)
        row = next(line for line in result.output.splitlines() if line.split()[:1] == [language])
        assert row.split() == [
            language,
            str(words),
            str(len(tokens)),
            f"{len(tokens) / words:.3f}",
            f"{size / len(tokens):.3f}",
            f"{sum(len(token) == 1 for token in tokens) / len(tokens):.1%}",
        ]


@pytest.mark.parametrize("command", [("-m", "tokenizer.show"), (REPOSITORY / "tokenizer/show.py",)])
def test_it_runs_as_a_module_and_as_a_script(command, bundle, tmp_path):
    told = run_fresh(*command, bundle, "Two dogs", folder=tmp_path, PYTHONPATH=str(REPOSITORY))

    assert bytes_shown(told) == b"Two dogs"


@pytest.mark.parametrize("kind", ["missing", "empty", "broken"])
def test_what_is_no_tokenizer_is_refused_in_one_line(kind, tmp_path):
    folder = tmp_path / "tokenizer"
    if kind != "missing":
        folder.mkdir()
    if kind == "broken":
        (folder / "tokenizer.json").write_text("{}")

    refused = run(folder, "A sentence.")

    assert refused.exit_code == 1
    assert refused.output.startswith("Error: ")
    assert len(refused.output.splitlines()) == 1


def test_a_tokenizer_that_loses_bytes_is_refused(tmp_path):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel({"a": 0, "?": 1}, unk_token="?"))
    ).save_pretrained(tmp_path)

    with pytest.raises(ValueError, match="must hold a byte-level tokenizer"):
        load_tokenizer(tmp_path)


def test_a_corpus_is_not_measured_where_tokens_reach_across_blanks(bundle, tmp_path):
    crossing = load_tokenizer(bundle)
    crossing.add_tokens(["a\u0120b"])  # U+0120 is the letter that stands for a blank
    crossing.save_pretrained(tmp_path)

    refused = run(tmp_path, "--corpus", tmp_path / "pairs.tsv")

    assert refused.exit_code == 1
    assert "every blank must start a token" in refused.output


def test_neighbouring_tokens_differ_in_colour_on_a_terminal(tiny_tokenizer):
    terminal = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=80)

    show_tokens(terminal, split(tiny_tokenizer, "xy"))

    line = terminal.file.getvalue().splitlines()[0]
    first, second, end = re.findall(r"(\x1b\[[\d;]+m)(x|y|</s>)", line)
    assert first[0] != second[0] != end[0]
    assert "|" not in line


def test_nothing_to_show_is_a_mistake_of_usage(bundle):
    """On a terminal: a pseudo-terminal stands in for it."""
    pty = pytest.importorskip("pty")
    _, terminal = pty.openpty()

    finished = subprocess.run(
        [sys.executable, "-m", "tokenizer.show", str(bundle)],
        cwd=REPOSITORY,
        stdin=terminal,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert finished.returncode == 2
    assert "Nothing to show" in finished.stderr
