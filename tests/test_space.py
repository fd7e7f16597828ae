"""The Space without a browser: what is typed becomes what is shown, within limits, or a reason."""

import json
import re
import sys
from html import unescape
from itertools import pairwise

import pytest
import yaml
from scripts.fresh_process import REPOSITORY
from toy_models import LINE, OTHER, texts_of

import file_translation
from file_translation import read_file, size_of, split_file, split_steps, translate_file
from live_translation import MOST_CHARACTERS, show_text
from newest_text import Newest, OutdatedError, Work
from vanilla_transformer import generation_call

SPACE = REPOSITORY / "space"
EVIL = "</p><script>alert(1)</script> <img/src=x> & \"' שלום"
WORD = re.compile(r"<span(?: data-word=\"(\d+)\"[^>]*)?>(.*?)</span>")
DESCRIBED = re.compile(r' tabindex="0" aria-description="(.*?)">(.*?)</span>')


def show(translate, text, **choice):
    """The translation, and the maps: as they are at the end."""
    *_, last = show_text(translate, text, choice, Work(0, Newest()))
    return last.translation, last.maps


def parts_of(shown):
    """The best translation, the source and the others, as lists of (number, word)."""
    parts = re.findall(r'<p class="(?:best|source)".*?</p>|<li .*?</li>', shown, re.DOTALL)
    best, source, *others = (
        [(number, unescape(word)) for number, word in WORD.findall(part)] for part in parts
    )
    return best, source, others


def page_of(frame):
    [page] = re.findall(r'srcdoc="([^"]*)"', frame)
    [data] = re.findall(r'id="maps">(.*?)</script>', unescape(page), re.DOTALL)
    return json.loads(data)


@pytest.fixture
def text_file(tmp_path):
    def write(content, name="news.en"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


def test_nobody_waits_for_the_maps(translate):
    first, second = show_text(translate, LINE, {}, Work(0, Newest()))

    assert first.translation == second.translation
    assert first.maps is None
    assert "<iframe" in second.maps


class LongWork(Work):
    """During its third look a newer text arrives."""

    looks = 0

    def check(self):
        self.looks += 1
        if self.looks == 3:
            self.newest.note(self.number + 1)
        super().check()


def test_to_type_on_ends_the_search_before_the_next_word(translate):
    work = LongWork(0, Newest())
    with pytest.raises(OutdatedError):
        next(show_text(translate, LINE, {}, work))

    assert work.looks == 3


def test_work_is_watched_in_the_fast_search(translate, monkeypatch):
    searches = []
    search = generation_call.BeamSearch.run
    monkeypatch.setattr(
        generation_call.BeamSearch, "run", lambda self: (searches.append(1), search(self))[1]
    )
    show(translate, LINE)

    assert searches == [1]


def test_no_maps_are_made_for_a_text_that_is_no_more(translate):
    newest = Newest()
    steps = show_text(translate, LINE, {}, Work(1, newest))
    assert next(steps).maps is None
    newest.note(2)

    with pytest.raises(OutdatedError):
        next(steps)


def test_work_goes_on_when_an_old_change_arrives_late(translate):
    newest = Newest()
    newest.note(2)
    newest.note(1)

    assert len(list(show_text(translate, LINE, {}, Work(2, newest)))) == 2
    with pytest.raises(OutdatedError):
        next(show_text(translate, LINE, {}, Work(1, newest)))


def test_the_translations_are_those_of_the_pipeline_best_first(translate):
    records = translate(f"{LINE}. {OTHER}!", num_return_sequences=4, return_scores=True)
    shown, _ = show(translate, f"{LINE}. {OTHER}!")

    best, _, others = parts_of(shown)
    words = [" ".join(word for _, word in one) for one in (best, *others)]
    assert words == [" ".join(text.split()) for text in texts_of(records)]
    told = re.findall(r"<data>(.*?)</data>", shown)
    scores = [float(score.replace("\N{MINUS SIGN}", "-")) for score in told]
    assert scores == [round(record["score"], 2) for record in records]
    assert scores == sorted(scores, reverse=True)


def test_every_word_has_the_number_of_the_source_word_it_was_read_off(translate):
    text = f"{LINE}.\n {OTHER}!"
    [record, *_] = translate(text, num_return_sequences=4, return_alignment=True)
    best, source, _ = parts_of(show(translate, text)[0])

    assert [word for _, word in source] == text.split()
    word_of = dict(source)
    aligned = [text[start:end] for start, end, _, _ in record["alignment"]]
    assert [word_of[number] for number, _ in best] == aligned


def test_words_are_reached_by_keys_and_read_aloud_with_what_they_were_read_off(translate):
    text = f"{LINE}. {OTHER}!"
    shown, _ = show(translate, text)

    best, source, _ = parts_of(shown)
    word_of = dict(source)
    described = [(unescape(one), unescape(word)) for one, word in DESCRIBED.findall(shown)]
    targets, sources = described[: len(best)], described[len(best) :]
    assert targets == [(word_of[number], word) for number, word in best]
    assert sources == [
        (" ".join(word for place, word in best if place == number), word_of[number])
        for number in sorted({number for number, _ in best})
    ]


def test_text_stays_text(translate):
    shown, maps = show(translate, EVIL)

    assert [word for _, word in parts_of(shown)[1]] == EVIL.split()
    assert "<script" not in shown + maps
    assert "<img" not in shown + maps


def test_maps_begin_where_the_last_ones_were_left(translate):
    _, maps = show(translate, LINE, view="links", kind="encoder", layer=2, head=2)

    assert page_of(maps)["start"] == {"view": "lines", "kind": "encoder", "layer": 2, "head": 2}


def test_the_maps_are_of_the_translation_that_is_shown(translate):
    shown, maps = show(translate, LINE)

    labels = page_of(maps)["sides"]["written"]["labels"]
    assert labels[:-1] == [word for _, word in parts_of(shown)[0]]


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_without_a_text_there_is_nothing_to_see(text, translate):
    shown, maps = show(translate, text)

    assert "appears here" in shown
    assert maps == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x" * (MOST_CHARACTERS + 1), "at most 1,000 characters, got 1,001: shorten it"),
        ("half a letter: \ud800", "must be valid Unicode"),
    ],
)
def test_what_is_not_translated_is_told(text, reason, translate):
    shown, maps = show(translate, text)

    assert 'role="alert"' in shown
    assert reason in shown
    assert maps == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{LINE}\n{OTHER}", "must be one line"),
        (f"{LINE}. {OTHER.title()}!", "of one sentence, got 2"),
        ("source1 " * 61, "at most 60 words a side, got 62"),
    ],
)
def test_where_there_are_no_maps_the_translation_is_there(text, reason, translate):
    shown, maps = show(translate, text)

    assert parts_of(shown)[0]
    assert reason in maps


def test_a_file_becomes_as_many_lines_as_it_has(translate, text_file, monkeypatch):
    monkeypatch.setattr(file_translation, "CHARACTERS_AT_ONCE", 40)
    lines = [LINE, "", OTHER, f"{OTHER}. {LINE}", LINE, " ", OTHER]
    steps = translate_file(translate, text_file("\r\n".join(lines).encode()))

    *before, (done, content) = [
        (step.done, step.output and step.output.read_text("utf-8")) for step in steps
    ]
    assert before == [(0, None), (2, None), (3, None), (6, None)]
    assert done == len(lines)
    assert content.split("\n") == [*(texts_of(translate([line]))[0] for line in lines), ""]


@pytest.mark.parametrize(
    "lines",
    [[f"{LINE}. {OTHER}! " * 120], [f"{OTHER}. " * 60] * 6],
    ids=["one line", "few lines"],
)
def test_lines_however_long_are_translated_in_steps_of_like_size(lines, translate, text_file):
    shares, content = [], None
    for step in translate_file(translate, text_file("\n".join(lines).encode())):
        shares.append(step.share)
        content = step.output and step.output.read_text("utf-8")

    most = 2 * file_translation.CHARACTERS_AT_ONCE / sum(map(len, lines))
    assert shares[0] == 0
    assert shares[-1] == 1
    assert all(0 < after - before <= most for before, after in pairwise(shares))
    assert content.split("\n") == [*(texts_of(translate([line]))[0] for line in lines), ""]


def test_a_sentence_without_an_end_is_translated_in_parts():
    steps = list(split_steps(split_file(["source1 " * 31_000])))

    sizes = [sum(map(size_of, step)) for step in steps]
    assert sum(sizes) == 8 * 31_000 + 1
    assert max(sizes) <= 2 * file_translation.CHARACTERS_AT_ONCE


def test_its_name_says_what_it_is_and_nothing_of_it_stays(translate, text_file):
    names = [step.output for step in translate_file(translate, text_file(LINE.encode()))]

    assert names[-1].name == "news.de.txt"
    assert not names[-1].parent.exists()


def test_work_that_nobody_waits_for_ends(text_file, monkeypatch):
    monkeypatch.setattr(file_translation, "CHARACTERS_AT_ONCE", 4)
    asked = []
    monkeypatch.setattr(
        file_translation, "translate_step", lambda *seen: asked.append(seen) or "x\n"
    )
    steps = translate_file(None, text_file(b"one\ntwo\nthree\n"))

    assert [next(steps).done, next(steps).done] == [0, 1]
    steps.close()
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"x" * 5_000_000, "news.en must have at most 250,000 bytes, got 5,000,000: split it"),
        (b"x\n" * 2_001, "news.en must have 1 to 2,000 lines, got 2,001: split it"),
        (b"", "news.en must have 1 to 2,000 lines, got 0"),
        (
            b"caf\xe9",
            "news.en must be UTF-8, got 0xe9 at byte 3 (counted from 0): save it as UTF-8",
        ),
        (
            "one\ntwo\n".encode("utf-16-le"),
            "news.en must be a text in UTF-8, got the control character U+0000 in line 1: save",
        ),
        ("one\ntwo\n".encode("utf-16-be"), "U+0000 in line 1: save it as UTF-8"),
        ("one".encode("utf-16"), "got 0xff at byte 0 (counted from 0): save it as UTF-8"),
        (b"one\ntwo \x1b[1m", "U+001B in line 2: save it as UTF-8, or as plain text"),
        (bytes(range(1, 32)), "U+0001 in line 1"),
    ],
    ids=[
        *("large", "long", "empty", "latin-1"),
        *("utf-16-le", "utf-16-be", "utf-16", "escapes", "binary"),
    ],
)
def test_a_file_that_is_too_much_or_no_text_is_refused(content, reason, text_file):
    with pytest.raises(ValueError, match=re.escape(reason)) as refusal:
        read_file(text_file(content))

    assert str(text_file(b"").parent) not in str(refusal.value)


def test_tabs_form_feeds_and_ends_of_lines_are_text(text_file):
    assert read_file(text_file(b"one\ttwo\r\n\x0cthree\rfour")) == ["one\ttwo", "\x0cthree\rfour"]


def pins(file):
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", file.read_text("utf-8"), re.MULTILINE))


def test_one_version_of_everything_is_named_in_all_places():
    ours, demo = pins(REPOSITORY / "constraints.txt"), pins(SPACE / "constraints.txt")
    header = yaml.safe_load((SPACE / "README.md").read_text("utf-8").split("---")[1])

    assert header["sdk_version"] == demo["gradio"]
    assert pins(SPACE / "requirements.txt").items() <= ours.items()
    assert {name for name in ours if ours[name] != demo.get(name)} == {"pillow", "tomlkit"}


def test_the_limits_are_those_of_its_readme():
    text = " ".join((SPACE / "README.md").read_text("utf-8").split())

    assert f"at most {MOST_CHARACTERS:,} characters" in text
    assert f"{file_translation.MOST_BYTES // 1000} kB" in text
    assert f"{file_translation.MOST_LINES:,} lines" in text


def test_nothing_in_it_names_another_place():
    files = [file for file in SPACE.iterdir() if file.suffix in (".py", ".js", ".css", ".txt")]
    texts = [file.read_text("utf-8") for file in files]
    addresses = {address for text in texts for address in re.findall(r"https?://\S+", text)}

    assert addresses == set()


def test_without_gradio_the_way_to_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    monkeypatch.delitem(sys.modules, "app", raising=False)

    with pytest.raises(SystemExit, match=r"needs gradio.*make demo"):
        import app  # noqa: F401


def test_the_page_is_built_of_them(translate, monkeypatch):
    pytest.importorskip("gradio", reason="gradio is of the demo: make test-demo")
    monkeypatch.delitem(sys.modules, "app", raising=False)
    from app import build_page

    page = build_page(translate)
    events = page.config["dependencies"]

    assert {event["api_visibility"] for event in events} <= {"private", "undocumented"}
    assert not page.analytics_enabled
