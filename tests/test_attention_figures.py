"""Pictures show the numbers of the maps, under the names of their words."""

import io
import sys

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from PIL import Image
from random_maps import random_maps

VIEWS = {
    "grid": {"kind": "encoder"},
    "layer": {"kind": "decoder", "layer": 1},
    "head": {"kind": "cross", "layer": 2, "head": 1},
    "links": {"kind": "cross", "layer": 2},
    "alignment": {},
}


@pytest.fixture(scope="module")
def maps():
    return random_maps()


def texts_of(figure):
    """All that is written in a picture, except on scales."""
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    for axes in figure.axes:
        labels = (*axes.get_xticklabels(), *axes.get_yticklabels(), axes.title)
        texts += [label.get_text() for label in labels]
    return texts


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_becomes_a_picture_with_nothing_cut_off(view):
    maps = random_maps(source="Donaudampfschifffahrt שלום", heads=1)
    drawing = maps.draw(view, **VIEWS[view])

    pixels = np.asarray(Image.open(io.BytesIO(drawing.to_bytes())).convert("RGB"))
    assert pixels[1:-1, 1:-1].min() < 200
    for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]):
        assert edge.min() == 255


def test_the_same_maps_make_the_same_file(maps):
    drawing = maps.draw("links", layer=1)
    before = drawing.to_bytes("svg")

    drawing.to_bytes("png")

    assert drawing.to_bytes("svg") == maps.draw("links", layer=1).to_bytes("svg") == before
    assert before.rstrip().endswith(b"</svg>")


def test_the_grid_shows_every_head_of_every_layer(maps):
    figure = maps.draw(kind="encoder").figure

    shown = [axes.images[0].get_array().data for axes in figure.axes]

    assert np.array_equal(shown, maps.weights["encoder"].flatten(0, 1).numpy())


def test_a_layer_shows_its_heads_and_hides_what_is_masked(maps):
    figure = maps.draw(kind="decoder", layer=1).figure
    panels = [axes for axes in figure.axes if axes.images]

    assert [axes.get_title() for axes in panels] == ["head 1", "head 2", "head 3"]
    for axes, weights in zip(panels, maps.weights["decoder"][0], strict=True):
        shown = axes.images[0].get_array()
        assert np.array_equal(shown.data, weights.numpy())
        assert np.array_equal(shown.mask, (weights == 0).numpy())


@pytest.mark.parametrize("head", [3, None])
def test_a_head_stands_under_its_words_with_its_numbers(head, maps):
    figure = maps.draw("head", "cross", 2, head).figure
    axes, weights = figure.axes[0], maps.of("cross", 2, head).numpy()

    assert np.array_equal(axes.images[0].get_array().data, weights)
    labels = [
        [label.get_text() for label in labels]
        for labels in (axes.get_yticklabels(), axes.get_xticklabels())
    ]
    assert labels == [[*maps.written.labels], [*maps.source.labels]]
    numbers = [int(text.get_text()) for text in axes.texts]
    assert numbers == [round(100 * float(one)) for one in weights.flatten() if one >= 0.005]
    place = "head 3 of 3" if head else "mean of 3 heads"
    assert figure.get_suptitle() == f"Cross-attention, layer 2 of 2, {place}"


def test_a_line_is_as_strong_as_its_weight(maps):
    figure = maps.draw("links", "cross", 2).figure
    groups = [one for one in figure.axes[0].collections if isinstance(one, LineCollection)]

    assert len(groups) == 3  # a colour for each head
    assert len({tuple(group.get_colors()[0][:3]) for group in groups}) == 3
    for group, weights in zip(groups, maps.weights["cross"][1].numpy(), strict=True):
        strong = weights[weights >= 0.02]
        widths = np.asarray(group.get_linewidths())
        np.testing.assert_allclose(widths / widths.max(), strong / strong.max(), rtol=1e-5)
    assert {*maps.written.labels, *maps.source.labels} <= set(texts_of(figure))


def test_an_alignment_links_words(maps):
    figure = maps.draw("alignment").figure
    [lines] = figure.axes[0].collections

    ends = [(line[0][1], line[-1][1]) for line in lines.get_segments()]

    assert ends == [(source, target) for target, source in maps.links()]
    assert texts_of(figure)[:6] == [*maps.source_text.split(), *maps.target_text.split()]


def test_long_words_are_shortened_and_none_is_an_equation():
    figure = random_maps(source="a" * 50 + " $5_x$").draw("head").figure
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]

    assert labels[0] == "a" * 21 + "…"
    assert labels[1] == "$5_x$"
    assert not figure.axes[0].get_xticklabels()[1].get_parse_math()


@pytest.mark.parametrize(
    ("choice", "complaint"),
    [
        ({"view": "map"}, "view must be one of grid, layer, head, links, alignment, got 'map'"),
        ({"view": "layer", "head": 1}, "'layer' is not of one head, got head 1"),
        ({"view": "alignment", "kind": "cross"}, "'alignment' is not of one kind"),
        ({"layer": 0}, "layer must be between 1 and 2"),
        ({"head": 4}, "head must be between 1 and 3"),
    ],
)
def test_what_cannot_be_drawn_is_refused(choice, complaint, maps):
    with pytest.raises(ValueError, match=complaint):
        maps.draw(**choice)


def test_too_many_words_are_refused():
    with pytest.raises(ValueError, match="at most 80 words a side, got 81"):
        random_maps(source="word " * 80).draw()


def test_without_matplotlib_the_extra_is_named(maps, monkeypatch):
    monkeypatch.delitem(sys.modules, "vanilla_transformer.attention_figures", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    with pytest.raises(ImportError, match=r"vanilla-transformer\[plot\]"):
        maps.draw()


def test_a_notebook_shows_a_picture(maps, tmp_path):
    drawing = maps.draw("alignment")
    drawing.save(tmp_path / "a.svg")

    assert drawing._repr_png_() == drawing.to_bytes("png")
    assert (tmp_path / "a.svg").read_bytes() == drawing.to_bytes("svg")
