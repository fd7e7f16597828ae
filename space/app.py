"""The Space: English becomes German as it is typed, and every look the model takes can be seen.

Run it with `make demo`, or `python space/app.py --model FOLDER` for another model than the one that
comes with the package.
"""

import argparse
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from file_translation import MOST_BYTES, MOST_LINES, Progress, translate_file
from live_translation import NOTHING_YET, Choice, show_refusal, show_text
from newest_text import Newest, OutdatedError, Work
from vanilla_transformer.embedded_models import DEFAULT_MODEL
from vanilla_transformer.pipeline_translation import TranslationPipeline
from vanilla_transformer.translators import load_translator

try:
    import gradio as gr
except ImportError as error:
    raise SystemExit(f"The demo needs gradio, got: {error}: run make demo.") from error

HERE = Path(__file__).parent
HEADING = """\
<h1>English to German, as you type</h1>
<p class="quiet">The Transformer of 2017 ({parameters} million parameters) on a CPU. See whom every
head of every layer looks at.</p>
"""
EXAMPLES = (
    "Where is the train station?",
    "The animal didn't cross the street because it was too tired.",
    "I would like to know how this works.",
)
# Nothing comes from elsewhere: no fonts, no counting of visitors; the browser sees to it.
POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:"
HEAD = """\
<meta http-equiv="Content-Security-Policy" content="{policy}">
<script>{script}</script>
"""
SYSTEM_FONTS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif")
KEEP_SECONDS = 3_600  # what is uploaded, and what became of it
NARROWEST = 320  # pixels; where two of them do not fit, they stand one below the other


def build_page(translator: TranslationPipeline) -> gr.Blocks:
    """The page: a text and its translation, below them its attention, or a whole file."""
    with gr.Blocks(
        title="English to German, as you type",
        analytics_enabled=False,
        delete_cache=(KEEP_SECONDS, KEEP_SECONDS),
    ) as page:
        millions = round(translator.model.num_parameters() / 1e6)
        gr.HTML(HEADING.format(parameters=millions), elem_id="heading")
        place_text(page, translator)
        with gr.Tab("A whole file"):
            place_file(translator)
    return page


def place_text(page: gr.Blocks, translator: TranslationPipeline) -> None:
    """What is typed, what becomes of it, and how the model got there."""
    with gr.Row():
        with gr.Column(min_width=NARROWEST):
            text = gr.Textbox(
                EXAMPLES[0], label="English", lines=4, max_lines=16, elem_id="english"
            )
        with gr.Column(min_width=NARROWEST):
            translation = gr.HTML(NOTHING_YET, container=True, elem_id="translation")
    gr.Examples([[example] for example in EXAMPLES], text, label="Or take one of these")
    choice, newest, number = gr.JSON(visible=False), gr.State(Newest()), gr.Number(visible=False)
    with gr.Tab("Attention"):
        maps = gr.HTML(elem_id="maps")

    def show(
        text: str, choice: Choice | None, newest: Newest, number: int
    ) -> Iterator[tuple[str, Any]]:
        with suppress(OutdatedError):
            for shown in show_text(translator, text, choice or {}, Work(number, newest)):
                yield shown.translation, gr.skip() if shown.maps is None else shown.maps

    text.change(
        Newest.note,
        [newest, number],
        js="countChange",
        queue=False,  # or it would wait for the work that it is to end
        show_progress="hidden",
        api_visibility="private",
    )
    gr.on(
        [text.change, page.load],
        show,
        [text, choice, newest, number],
        [translation, maps],
        js="afterPause",
        trigger_mode="multiple",  # one after the other, so the last result is that of the last text
        show_progress="hidden",
        api_visibility="private",
    )


def place_file(translator: TranslationPipeline) -> None:
    """An upload, its progress and the result."""
    gr.HTML(
        '<p class="quiet">A text in UTF-8, a sentence or more a line: at most '
        f"{MOST_LINES:,} lines and {MOST_BYTES // 1_000:,} kB. It is deleted within two hours.</p>"
    )
    upload = gr.File(label="Text to translate", elem_id="upload", height=140)
    told = gr.HTML(elem_id="told")
    download = gr.DownloadButton(
        "Download the translation", variant="primary", visible=False, elem_id="download"
    )

    def show(file: str | None) -> Iterator[tuple[str, Any]]:
        nothing = gr.update(visible=False)
        try:
            for progress in translate_file(translator, Path(file or "")):
                button = gr.update(value=progress.output, visible=True)
                yield show_progress(progress), button if progress.output else nothing
        except ValueError as error:
            yield show_refusal(error), nothing

    work = upload.upload(
        show, upload, [told, download], show_progress="minimal", api_visibility="private"
    )
    upload.clear(
        lambda: ("", gr.update(visible=False)),
        None,
        [told, download],
        cancels=[work],
        queue=False,
        api_visibility="private",
    )


def show_progress(progress: Progress) -> str:
    """A bar, and the same in words."""
    done, total = progress.done, progress.total
    words = "Done" if progress.output else "Translating"
    return (
        f'<progress value="{progress.share:.3f}"></progress>'
        f'<p role="status">{words}: {done:,} of {total:,} lines.</p>'
    )


def main() -> None:
    """Serve the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=DEFAULT_MODEL, help="Folder or name of a model.")
    parser.add_argument("--port", type=int, help="Default: the first free one from 7860 on.")
    arguments = parser.parse_args()
    page = build_page(load_translator(arguments.model))
    script = (HERE / "page.js").read_text(encoding="utf-8")
    page.launch(
        server_port=arguments.port,
        theme=gr.themes.Base(font=SYSTEM_FONTS, font_mono=("ui-monospace", "monospace")),
        css_paths=HERE / "page.css",
        head=HEAD.format(policy=POLICY, script=script),
        max_file_size=MOST_BYTES * 40,
        footer_links=[],
        ssr_mode=False,
    )


if __name__ == "__main__":
    main()
