"""The page holds the numbers of the maps and the words as they are, and nothing from elsewhere."""

import base64
import json
import re
import shutil
import subprocess
from contextlib import nullcontext
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
import torch
from random_maps import random_maps, side

EVIL = "</script><script>alert(1)</script> <!-- THE MAPS \u2028 & \"' <img/src=x> שלום"
OUTSIDE = r"https?:|//\w|\bsrc\s*=|\bhref\s*=|url\(|@import|fetch\(|XMLHttpRequest|import\("


@pytest.fixture(scope="module")
def maps():
    return random_maps()


def data_of(page):
    [data] = re.findall(
        r'<script type="application/json" id="maps">(.*?)</script>', page, re.DOTALL
    )
    return json.loads(data)


def test_the_numbers_are_those_of_the_maps(maps):
    data = data_of(maps.page())

    assert data["kinds"].keys() == maps.weights.keys()
    for kind, weights in maps.weights.items():
        found = data["kinds"][kind]
        steps = np.frombuffer(base64.b64decode(found["weights"]), dtype="<u2")
        numbers = steps.reshape(found["shape"]) / 65_535
        np.testing.assert_allclose(numbers, weights.numpy(), rtol=0, atol=0.5001 / 65_535)
        assert np.array_equal(numbers == 0, weights.numpy() < 0.5 / 65_535)
        rows, columns = maps.sides(kind)
        assert data["sides"][found["rows"]]["labels"] == [*rows.labels]
        assert data["sides"][found["columns"]]["labels"] == [*columns.labels]
    assert data["links"] == [[0, 0], [1, 1], [2, 2]]


def test_nothing_comes_from_outside(maps):
    page = maps.page()

    without_numbers = re.sub(r'"weights": "[\w+/=]*"', "", page)
    assert re.findall(OUTSIDE, without_numbers) == []
    assert len(without_numbers) < len(page)
    assert "default-src 'none'" in page  # and a browser would not ask for it


def test_text_stays_text(maps):
    page = random_maps(source=EVIL, target=EVIL).page()

    assert page.count("<script") == page.count("</script>") == maps.page().count("<script")
    assert "<img" not in page
    labels = data_of(page)["sides"]["source"]["labels"]
    assert labels == [*EVIL.split(), "<special>"]


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(maps):
    frame = random_maps(source=EVIL)._repr_html_()

    [page] = re.findall(r'srcdoc="([^"]*)"', frame)
    assert unescape(page) == random_maps(source=EVIL).page()
    assert 'sandbox="allow-scripts"' in frame


@pytest.mark.parametrize(
    ("choice", "start"),
    [
        ({}, {"view": "matrix", "kind": "cross", "layer": 2, "head": 0}),
        ({"view": "links", "kind": "encoder"},
         {"view": "lines", "kind": "encoder", "layer": 2, "head": 0}),
        ({"layer": 1, "head": 3}, {"view": "matrix", "kind": "cross", "layer": 1, "head": 3}),
    ],
)  # fmt: skip
def test_it_begins_as_it_is_told(choice, start, maps):
    assert data_of(maps.page(**choice))["start"] == start


@pytest.mark.parametrize(
    ("choice", "complaint"),
    [
        ({"view": "grid"}, "view of a page must be one of layer, head, links, got 'grid'"),
        ({"kind": "inner"}, "kind must be one of encoder, decoder, cross"),
        ({"layer": 3}, "layer must be between 1 and 2"),
    ],
)
def test_what_it_cannot_begin_with_is_refused(choice, complaint, maps):
    with pytest.raises(ValueError, match=complaint):
        maps.page(**choice)


def test_too_many_words_are_refused():
    with pytest.raises(ValueError, match="at most 200 words a side, got 201"):
        random_maps(target="word " * 200).page()


@pytest.mark.parametrize(("layers", "heads", "fits"), [(6, 8, True), (12, 16, False)])
def test_large_models_fit_with_fewer_words_only(layers, heads, fits, maps):
    words = side(*["word"] * 199, None)
    weights = dict.fromkeys(maps.weights, torch.zeros(1).expand(layers, heads, 200, 200))
    large = replace(maps, weights=weights, source=words, read=words, written=words)

    expected = nullcontext() if fits else pytest.raises(ValueError, match="got 23,040,000")
    with expected:
        assert len(large.page()) < 17_000_000


REACH = """<script>
const first = (name) => document.querySelector(name);
const lit = () => document.querySelectorAll(".on").length;
const found = [first("#map canvas").getAttribute("role"), first("#map canvas").ariaLabel];
first(".text span").focus();
found.push(first(".text span").tabIndex, lit(), first("#told").hidden);
first(".text span").blur();
found.push(lit());
first("input[value=lines]").click();
first(".lines span").focus();
found.push(lit(), first("#told").hidden);
first(".lines span").blur();
found.push(lit(), first("#told").hidden);
document.documentElement.dataset.found = JSON.stringify(found);
</script>"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_words_are_reached_by_keys_and_the_map_has_a_name(maps, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(maps.page().replace("</body>", f"{REACH}</body>"), encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    shown = subprocess.run(
        [*command, f"--user-data-dir={tmp_path}", file.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    [found] = re.findall(r'data-found="(.*?)"', shown.stdout)
    assert json.loads(unescape(found)) == [
        *("img", "Cross attention, layer 2, mean of its heads: 4 rows, 4 columns"),
        *(0, 2, True),  # a word of a text lights itself and its partner, and tells nothing
        0,
        *(1, False),  # one of the lines lights itself, and tells where it looks
        *(0, True),
    ]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_its_script_is_valid(maps, tmp_path):
    script = re.findall(r"<script>(.*?)</script>", maps.page(), re.DOTALL)[0]
    (tmp_path / "page.js").write_text(script, encoding="utf-8")

    subprocess.run(["node", "--check", tmp_path / "page.js"], check=True, timeout=60)
