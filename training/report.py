"""What became of a run, or is becoming: `python training/report.py RUN` writes report.html, .png.

Everything comes from the run's folder, so another process may be training there meanwhile. The page
needs nothing beside itself: no network, no script.
"""

import base64
import logging
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from training import report_page
from training.markup import Html, element, joined
from training.run_record import RunRecord, read_run
from vanilla_transformer.file_replacement import replace_file
from vanilla_transformer.run_facts import CURVES

PAGE = "report.html"
TEMPLATE = Path(__file__).with_name("report_template.html")

logger = logging.getLogger(__name__)


def write_report(folder: Path) -> list[Path]:
    """Write the report of a run into its folder; returns the files, of which the page is first."""
    run = read_run(folder)
    charts, maps, written = Html(), {}, [folder / PAGE]
    if find_spec("matplotlib"):
        from training.report_attention import draw_attention
        from training.report_charts import draw_sheet

        charts = _charts(run)
        maps = {source: _inline(one) for source, one in draw_attention(folder, run).items()}
        replace_file(folder / CURVES, draw_sheet(run))
        written.append(folder / CURVES)
    else:  # the end of days of training is no moment to fail
        logger.warning("The report has no charts: pip install 'vanilla-transformer[plot]'.")
    replace_file(folder / PAGE, compose_page(run, charts, maps).encode("utf-8", "replace"))
    return written


def compose_page(run: RunRecord, charts: Html, maps: Mapping[str, str]) -> str:
    """Put the sections of the report together; `maps` are addresses of pictures, by sentence."""
    sections = [
        report_page.heading(run),
        report_page.results(run),
        charts,
        report_page.evaluations(run),
        report_page.samples(run, maps),
        report_page.circumstances(run),
    ]
    title = joined([f"{run.name}: {report_page.how_far(run)}"])
    template = Template(TEMPLATE.read_text(encoding="utf-8"))
    return template.substitute(title=title, body=joined(sections))


def _charts(run: RunRecord) -> Html:
    """Every chart twice: a browser takes the one that suits its light or dark page."""
    from training.report_charts import PANELS, SETTLING, draw_panels

    pairs = zip(PANELS, draw_panels(run, "light"), draw_panels(run, "dark"), strict=True)
    pictures = (
        element(
            "picture",
            element("source", srcset=_inline(dark), media="(prefers-color-scheme: dark)"),
            element("img", src=_inline(light), alt=panel.in_words(run)),
        )
        for panel, light, dark in pairs
    )
    cut = f"Loss and gradient norm are drawn to the scale of what follows the first {SETTLING:.0%}."
    return joined(
        [
            element("h2", "Curves"),
            element("div", *pictures, class_="charts"),
            element("p", cut, class_="quiet"),
        ]
    )


def _inline(picture: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(picture).decode()}"


def main(run: Annotated[Path, typer.Argument(help="The run's folder.")]) -> None:
    """Write the report of a run, finished or at work, into its folder."""
    try:
        written = write_report(run)
    except (ValueError, OSError) as error:
        sys.exit(f"Error: {' '.join(str(error).split())}")
    for path in written:
        logger.info(path)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    typer.run(main)
