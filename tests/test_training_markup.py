"""Text never becomes markup, wherever it stands."""

import pytest

from training.markup import Html, element, folded, joined, table, terms

EVIL = "<b onclick='x'>&\""
ESCAPED = "&lt;b onclick=&#x27;x&#x27;&gt;&amp;&quot;"


@pytest.mark.parametrize(
    "piece",
    [
        element("p", EVIL),
        element("img", alt=EVIL),
        joined([EVIL]),
        table(EVIL, [], [], "words"),
        table("", [EVIL], [], "words"),
        table("", [], [[EVIL]], "words"),
        table("", [], [["", EVIL]], "words"),
        terms({EVIL: ""}, "tiles"),
        terms({"": EVIL}, "tiles"),
        folded(EVIL),
        folded("", EVIL),
    ],
)
def test_text_is_escaped_once(piece):
    assert isinstance(piece, Html)
    assert ESCAPED in piece
    assert "<b" not in element("div", piece)
    assert "&amp;lt;" not in element("div", piece)


def test_what_is_made_of_html_by_hand_is_text():
    assert element("p", element("b", "x") + "y") == "<p>&lt;b&gt;x&lt;/b&gt;y</p>"


def test_attributes_are_written_as_html_has_them():
    assert element("p", class_="a", aria_label="b") == '<p class="a" aria-label="b"></p>'
    assert element("img", src="c") == '<img src="c">'
