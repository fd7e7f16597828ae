"""What is shown is what the tokenizer does: every token, every byte, every count."""

import json
import re
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from rich.console import Console
from scripts.fresh_process import REPOSITORY, run_fresh
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from typer.testing import CliRunner

from tokenizer import show
from tokenizer.train import Options, make_bundle

PAIRS = [
    ("The cat sat on the mat.", "Die Katze saß auf der Matte."),
    ("The dog sat on the cat.", "Der Hund saß auf der Katze."),
    ("  Two blanks,  and 42 digits", "Zwei Leerzeichen\u00a0und 42 Ziffern "),
]
SENTENCES = [
    "The cat sat.",
    "Größer als die Katze",
    "🙂 हिन्दी 汉字 ﷽",
    " a  b\t\x1b[31mred\x1b[0m\x07\r\u2028\u202e\x9b ",
    "[red]no markup[/red] :smile: | </s> \\x1b",
    "",
]
COMMAND = typer.Typer()
COMMAND.command()(show.main)
PLAIN = {"FORCE_COLOR": "", "TTY_COMPATIBLE": "", "COLUMNS": "100"}  # whatever the terminal is


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "train.jsonl"
    rows = [json.dumps({"en": source, "de": target}) for source, target in PAIRS]
    path.write_text("\n".join([*rows, '{"en": "alone"}']), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def bundle(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    make_bundle([str(corpus)], folder, Options(vocabulary_size=320))
    return folder


@pytest.fixture(scope="module")
def tokenizer(bundle):
    return AutoTokenizer.from_pretrained(bundle)


@pytest.fixture(scope="module")
def other_tokenizers(tmp_path_factory):
    """Folders that AutoTokenizer reads, one by words, the other with a token of two blanks."""
    by_words = Tokenizer(models.WordLevel({"a": 0, "u": 1}, unk_token="u"))
    letters = {letter: index for index, letter in enumerate([*show.ALPHABET, "ĠĠ"])}
    two_blanks = Tokenizer(models.BPE(letters, [("Ġ", "Ġ")]))
    two_blanks.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    two_blanks.decoder = decoders.ByteLevel()
    folders = {"by words": by_words, "two blanks": two_blanks}
    for name, backend in folders.items():
        folders[name] = tmp_path_factory.mktemp("other")
        PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(folders[name])
    return folders


def run(*arguments, **options):
    return CliRunner(env=PLAIN).invoke(COMMAND, list(map(str, arguments)), **options)


def rows_of(output):
    """The rows of the tables in some output, cut at two blanks or more."""
    rows = [re.split(" {2,}", line.strip()) for line in output.splitlines()]
    return [row for row in rows if re.fullmatch(r"\d+", row[0])]


def refusal_of(*arguments, **options):
    """The one line that a refused command says."""
    result = run(*arguments, **options)
    assert (result.exit_code, result.stdout) == (1, "")
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_a_byte_has_the_letter_that_the_library_gives_it():
    letter_by_letter = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for character in map(chr, [*range(0x800), 0x4E00, 0xFFFD, 0x1F642, 0x10FFFF]):
        [(letters, _)] = letter_by_letter.pre_tokenize_str(character)
        assert bytes(show.BYTE_OF_LETTER[letter] for letter in letters) == character.encode()
    assert sorted(show.BYTE_OF_LETTER.values()) == list(range(256))


@pytest.mark.parametrize("sentence", SENTENCES)
def test_the_tokens_are_those_a_model_gets(sentence, tokenizer):
    tokens = show.split(tokenizer, sentence)
    assert [token.token_id for token in tokens] == tokenizer(sentence)["input_ids"]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_the_bytes_of_the_tokens_are_those_of_the_sentence(sentence, tokenizer):
    *tokens, end = show.split(tokenizer, sentence)
    assert b"".join(token.content for token in tokens) == sentence.encode()
    assert (end.content, end.text) == (None, "</s>")


@pytest.mark.parametrize("sentence", SENTENCES)
def test_the_bytes_column_spells_the_sentence(sentence, bundle):
    # Tokens without bytes have two columns.
    rows = [row for row in rows_of(run(bundle, sentence).stdout) if len(row) == 3]
    assert bytes.fromhex("".join(column for _, _, column in rows)) == sentence.encode()


def test_the_texts_of_whole_tokens_give_the_sentence_back(tokenizer):
    *tokens, _ = show.split(tokenizer, "The  cat sat on 42 dogs")
    assert all(token.is_whole for token in tokens)
    assert "".join(token.text for token in tokens) == "The  cat sat on 42 dogs"


def test_a_part_of_a_character_says_of_which(bundle):
    rows = rows_of(run(bundle, "a🙂").stdout)
    assert [row[1] for row in rows] == ["a", *["part of 🙂"] * 4, "</s>"]


def test_a_real_replacement_character_is_whole():
    assert show.Token(0, "\ufffd".encode(), "\ufffd").is_whole
    assert not show.Token(0, b"\xef", "\ufffd").is_whole


def test_tokens_are_set_apart_without_colours(bundle, tokenizer):
    line = run(bundle, "The cat sat").stdout.splitlines()[0]
    tokens = show.split(tokenizer, "The cat sat")
    assert line.split("|") == [token.text.replace(" ", "·") for token in tokens]


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_never_drives_the_terminal(sentence, is_terminal, tokenizer):
    console = Console(force_terminal=is_terminal, color_system="standard", width=200)
    with console.capture() as capture:
        show.show_tokens(console, show.split(tokenizer, sentence))
    printed = re.sub(r"\x1b\[(0|1|2|30;10[36])m", "", capture.get())  # the styles of ours
    assert printed.replace("\n", "").isprintable()


def test_a_token_is_no_markup():
    console = Console(force_terminal=False, width=200)
    with console.capture() as capture:
        show.show_tokens(console, [show.Token(0, b"[red]", "[red]"), show.Token(1, None, "[/b]")])
    line, *table = capture.get().splitlines()
    assert line == "[red]|[/b]"
    assert [row[1] for row in rows_of("\n".join(table))] == ["[red]", "[/b]"]


def test_neighbours_have_different_backgrounds(tokenizer):
    console = Console(force_terminal=True, color_system="standard", no_color=False, width=200)
    tokens = show.split(tokenizer, "xyzxyz")
    with console.capture() as capture:
        show.show_tokens(console, tokens)
    first_line = capture.get().splitlines()[0]
    codes = re.findall(r"\x1b\[30;(\d+)m", first_line)
    assert len(codes) == len(tokens) - 1
    assert all(left != right for left, right in pairwise(codes))
    assert "|" not in first_line


def test_without_colour_a_terminal_too_sees_where_tokens_end(tokenizer):
    console = Console(force_terminal=True, color_system="standard", no_color=True, width=200)
    tokens = show.split(tokenizer, "xyz")
    with console.capture() as capture:
        show.show_tokens(console, tokens)
    assert capture.get().splitlines()[0].count("|") == len(tokens) - 1


def test_an_added_token_has_bytes_unless_it_is_special(bundle):
    tokenizer = AutoTokenizer.from_pretrained(bundle, split_special_tokens=False)
    tokenizer.add_tokens([AddedToken("Strasse"), AddedToken("<de>", special=True)])
    tokens = show.split(tokenizer, "<de>Strasse")
    contents = {token.text: token.content for token in tokens}
    assert contents == {"<de>": None, "Strasse": b"Strasse", "</s>": None}


def test_sentences_of_stdin_are_shown_like_arguments(bundle):
    lines = ["One\u2028line", "one\rmore", "The cat", "", "last"]
    piped = run(bundle, input="\r\n".join(lines).encode())
    assert piped.stdout == run(bundle, *lines).stdout


def test_stdin_is_left_alone_when_there_is_a_sentence_or_a_corpus(bundle, corpus):
    assert run(bundle, "a", input="b").stdout == run(bundle, "a").stdout
    output = run(bundle, "--corpus", corpus, input="b").stdout
    assert output == run(bundle, "--corpus", corpus).stdout


def test_the_figures_of_a_corpus_are_those_of_its_sentences(bundle, corpus, tokenizer):
    output = run(bundle, "--corpus", corpus, "--corpus", corpus).stdout
    for language, side in zip(("en", "de"), zip(*PAIRS, strict=True), strict=True):
        [row] = [line.split() for line in output.splitlines() if line.split()[:1] == [language]]
        tokens = [token for text in side * 2 for token in show.split(tokenizer, text)[:-1]]
        words = sum(len(text.split()) for text in side * 2)
        size = sum(len(text.encode()) for text in side * 2)
        single = sum(len(token.content) == 1 for token in tokens)
        assert row[1:3] == [f"{words:,}", f"{len(tokens):,}"]
        assert row[3:5] == [f"{len(tokens) / words:.3f}", f"{size / len(tokens):.3f}"]
        assert row[5:] == [f"{single / len(tokens):.1%}"]


def test_padding_and_truncation_in_a_bundle_change_no_figure(bundle, corpus, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(bundle)
    tokenizer(["two words", "one"], padding=True, truncation=True, max_length=3)
    tokenizer.save_pretrained(tmp_path)
    saved = run(tmp_path, "--corpus", corpus).stdout
    assert saved == run(bundle, "--corpus", corpus).stdout


def test_rows_left_out_are_reported(bundle, corpus):
    assert "left out 1 with no text in field 'de' (row 4)" in run(bundle, "--corpus", corpus).stderr


def test_languages_are_named_like_the_fields(bundle, corpus):
    swapped = run(bundle, "--corpus", corpus, "--languages", "de, en").stdout
    rows = [line.split()[0] for line in swapped.splitlines() if "%" in line]
    assert rows == ["de", "en"]


def test_no_tokenizer_is_refused_in_one_line(bundle, tmp_path):
    assert "There is no folder" in refusal_of(tmp_path / "missing", "a")
    assert "must hold a tokenizer" in refusal_of(tmp_path, "a")
    (tmp_path / "tokenizer.json").write_text("{", encoding="utf-8")
    assert "must hold a tokenizer" in refusal_of(tmp_path, "a")


def test_tokens_that_are_not_bytes_are_refused(other_tokenizers):
    assert "byte-level" in refusal_of(other_tokenizers["by words"], "a")


def test_tokens_across_blanks_are_shown_but_not_measured_by_words(other_tokenizers, corpus):
    folder = other_tokenizers["two blanks"]
    assert run(folder, "a  b").stdout.startswith("a|··|b\n")
    assert "'ĠĠ'" in refusal_of(folder, "--corpus", corpus)


@pytest.mark.parametrize("languages", ["en", "en,en", "en,de,fr", "en,"])
def test_languages_are_two(languages, bundle, corpus):
    assert "two names" in refusal_of(bundle, "--corpus", corpus, "--languages", languages)


def test_text_that_is_not_unicode_is_refused(bundle):
    assert "UTF-8" in refusal_of(bundle, input=b"\xff\n")
    assert "surrogate" in refusal_of(bundle, "half \udcff")


def test_a_corpus_that_is_not_there_is_refused(bundle, tmp_path):
    assert "There is no file" in refusal_of(bundle, "--corpus", tmp_path / "missing.tsv")


def test_nothing_to_show_is_a_wrong_use(bundle, monkeypatch):
    keyboard = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(show, "sys", SimpleNamespace(stdin=keyboard, exit=sys.exit))
    assert run(bundle).exit_code == 2


@pytest.mark.parametrize("command", [["-m", "tokenizer.show"], [Path(show.__file__)]])
def test_it_runs_as_a_module_and_as_a_script(command, bundle, tmp_path):
    path = {"PYTHONPATH": str(REPOSITORY)}
    shown = run_fresh(*command, bundle, "The cat", folder=tmp_path, **PLAIN, **path)
    assert shown == run(bundle, "The cat").stdout
