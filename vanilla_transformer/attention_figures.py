"""Attention maps as pictures: which views there are, and what a picture can do."""

import io
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from matplotlib import font_manager, rc_context
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox
except ImportError as error:
    raise ImportError(
        "A picture of attention needs matplotlib: pip install 'vanilla-transformer[plot]', or "
        "write an HTML page, which needs nothing."
    ) from error

from .attention_drawing import (
    INK,
    QUIET,
    draw_alignment,
    draw_grid,
    draw_head,
    draw_layer,
    draw_links,
)

if TYPE_CHECKING:
    from .attention_maps import AttentionMaps

MOST_WORDS = 80  # beside a map
DPI = 150
MARGIN = 0.1  # inches
MOST_PIXELS = 4e7  # of a picture: what is larger gets fewer dots an inch
FONTS = (  # matplotlib's own first; then those that know other scripts, where they are installed
    "DejaVu Sans", "Noto Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans Devanagari",
    "Noto Sans Thai", "Noto Emoji", "Arial Unicode MS", "Hiragino Sans", "Microsoft YaHei",
    "WenQuanYi Micro Hei",
)  # fmt: skip
RULE = "#c9ced4"
STYLE: dict[Any, Any] = {
    "text.parse_math": False,  # a word may be $5
    "text.color": INK,
    "axes.labelcolor": QUIET,
    "axes.edgecolor": RULE,
    "axes.linewidth": 0.6,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "figure.facecolor": "white",
    "svg.hashsalt": "attention",  # the same maps make the same file
}

# Each view: how it is drawn, and what may be chosen for it.
VIEWS: dict[str, tuple[Callable[..., Figure], tuple[str, ...]]] = {
    "grid": (draw_grid, ("kind",)),
    "layer": (draw_layer, ("kind", "layer")),
    "head": (draw_head, ("kind", "layer", "head")),
    "links": (draw_links, ("kind", "layer", "head")),
    "alignment": (draw_alignment, ()),
}


@dataclass(frozen=True)
class Drawing:
    """A picture of attention; a notebook shows it."""

    figure: Figure
    frame: Bbox  # in inches, around all that is drawn

    def to_bytes(self, format: str = "png") -> bytes:
        """The picture as a PNG or SVG file."""
        width, height = self.figure.get_size_inches()
        dpi = min(DPI, math.sqrt(MOST_PIXELS / (width * height)))
        metadata = {"Date": None} if format == "svg" else None
        file = io.BytesIO()
        with drawing_style():
            self.figure.savefig(
                file, format=format, dpi=dpi, bbox_inches=self.frame, metadata=metadata
            )
        return file.getvalue()

    def save(self, path: str | Path) -> None:
        """Write a file, whose ending says of which format."""
        Path(path).write_bytes(self.to_bytes(Path(path).suffix.removeprefix(".")))

    def _repr_png_(self) -> bytes:
        return self.to_bytes()


def draw(
    maps: "AttentionMaps", view: str | None, kind: str | None, layer: int | None, head: int | None
) -> Drawing:
    """Draw a view; where nothing is said, the one that shows what is chosen, of cross-attention."""
    view = choose_view(view, kind, layer, head)
    kind = kind or maps.default_kind()
    maps.check(kind, layer, head)
    longest = max(len(side.labels) for side in maps.sides(kind))
    if longest > MOST_WORDS:
        raise ValueError(
            f"A picture must have at most {MOST_WORDS} words a side, got {longest}: look at a "
            "shorter sentence, or at an HTML page."
        )
    draw_view, choices = VIEWS[view]
    layer = layer or maps.default_layer(kind)
    chosen = {"kind": kind, "layer": layer, "head": head}
    with drawing_style():
        figure = draw_view(maps, **{name: chosen[name] for name in choices})
        figure.draw_without_rendering()  # which lays it out; saved twice, it looks the same
        figure.set_layout_engine("none")
        return Drawing(figure, figure.get_tightbbox().padded(MARGIN))


def choose_view(view: str | None, kind: str | None, layer: int | None, head: int | None) -> str:
    """The view of what is chosen; refuses one that there is not, or that does not show it."""
    if view is None:
        view = "head" if head is not None else "layer" if layer is not None else "grid"
    if view not in VIEWS:
        raise ValueError(f"view must be one of {', '.join(VIEWS)}, got {view!r}.")
    for name, wish in {"kind": kind, "layer": layer, "head": head}.items():
        if wish is not None and name not in VIEWS[view][1]:
            raise ValueError(
                f"The view {view!r} is not of one {name}, got {name} {wish!r}: leave it out, or "
                "choose another view."
            )
    return view


@contextmanager
def drawing_style() -> Iterator[None]:
    """Our colours, and fonts for as many scripts as there are here; one warning for the others."""
    known = {font.name for font in font_manager.fontManager.ttflist}
    fonts = [font for font in FONTS if font in known]
    with rc_context({**STYLE, "font.family": fonts}), warnings.catch_warnings():
        # What has no font here is drawn as a box, which says so by itself, letter by letter.
        warnings.filterwarnings("ignore", message="(?s)Glyph .* missing from")
        yield
