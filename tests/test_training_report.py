"""A report tells what the folder of a run tells, to any browser, at any time."""

import json
import math
import re
import shutil
import sys
from html.parser import HTMLParser
from threading import Event, Thread

import pytest
from PIL import Image
from scripts.fresh_process import REPOSITORY, run_fresh
from small_training import train as train_small

from training import report
from training.markup import Html
from training.recipe import load_recipe
from training.report import compose_page, write_report
from training.report_attention import draw_attention
from training.report_charts import PANELS, draw_panels, draw_sheet, sheet_of
from training.report_page import SHOWN_CHANGES, how_far
from training.run_log import RunLog
from training.run_record import number, read_run
from vanilla_transformer.attention_maps import look_through
from vanilla_transformer.translators import load_translator

RECIPE = """
corpus: {train: [{places: [a.en, a.de]}], validation: [b.en, b.de]}
optimization: {max_steps: 400}
evaluation: {best_by: bleu}
"""
SIGNATURES = {"bleu_signature": "nrefs:1|tok:13a<b>", "chrf_signature": "nrefs:1|nc:6"}
EVIL = "<script>alert('1')</script> & \"$title\" <img src=//example.org/x.png>"
VOID = {"meta", "img", "source"}


class Page(HTMLParser):
    """The words of a page, its attributes, and whether every element is closed where it must be."""

    def __init__(self, text):
        super().__init__()
        self.words, self.tags, self.attributes, self.open = "", [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data + "\n"


def page_of(folder):
    return Page(compose_page(read_run(folder), charts=Html(), maps={}))


def written_page(folder):
    write_report(folder)
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def evaluate(log, step, translation):
    samples = [
        {"source": f"source {number} {EVIL}", "reference": f"Nr. {number}", "translation": text}
        for number, text in enumerate((translation, EVIL))
    ]
    scores = {"loss": 500 / step, "perplexity": 9.87, "bleu": step / 7, "chrf": step / 6}
    log.append("evaluation", step, **scores, **SIGNATURES, samples=samples, seconds=3.2)


def train(log, steps):
    for step in steps:
        rates = {"learning_rate": step * 1e-5, "tokens_per_second": 9000.0 + step}
        norm = {"gradient_norm": 1 + 1 / step}
        log.append("train", step, epoch=0, loss=600 / step, **rates, **norm, seconds=2.0 * step)


@pytest.fixture
def young(tmp_path):
    """A run's folder before the first evaluation."""
    folder = tmp_path / "run <1> & $5"
    folder.mkdir()
    (folder / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    log = RunLog(folder / "log.jsonl")
    told = {"versions": {"torch": "2.13.0"}, "processes": 2, "command": f"train {EVIL}"}
    log.append("start", 0, time=1.79e9, **told, parameters=2_600_000, padding=0.044)
    train(log, range(10, 101, 10))
    return folder


@pytest.fixture
def finished(young):
    """A run's folder after the end."""
    log = RunLog(young / "log.jsonl")
    (young / "corpus.txt").write_text(f"12 duplicates\n{EVIL}\n", encoding="utf-8")
    log.append("skipped", 77, loss=math.nan, gradient_norm=math.inf)
    for step in (100, 200, 300, 400):
        evaluate(log, step, f"Fassung {min(step, 300)}")
        train(log, range(step + 10, min(step + 101, 401), 10))
    scores = {
        name: {"bleu": 41.02 - place, "chrf": 61.5 - place, "loss": 1.25 + place, **SIGNATURES}
        for place, name in enumerate(("validation", "flickr2016", EVIL))
    }
    log.append("result", 400, averaged=[300, 400], scores=scores)
    return young


def test_every_number_of_the_result_and_of_the_evaluations_is_shown(finished):
    words = page_of(finished).words
    run = read_run(finished)
    lines = [*run.evaluations, *run.result["scores"].values()]
    for line in lines:
        assert f"{line['bleu']:.2f}" in words
        assert f"{line['chrf']:.2f}" in words
        assert f"{line['loss']:.3f}" in words
        assert line["bleu_signature"] in words
    assert all(name in words for name in run.result["scores"])


def test_last_translations_are_shown_and_how_the_first_changed(finished):
    words = page_of(finished).words
    for sample in read_run(finished).evaluations[-1]["samples"]:
        assert all(text in words for text in sample.values())
    assert re.findall(r"Fassung \d+", words) == [f"Fassung {n}" for n in (300, 100, 200, 300)]


def test_of_many_changes_the_first_and_the_last_are_among_those_shown(young):
    for step in range(10, 1000, 10):
        evaluate(RunLog(young / "log.jsonl"), step, f"Fassung {step}")
    shown = re.findall(r"Fassung (\d+)", page_of(young).words)[1:]
    assert len(shown) == SHOWN_CHANGES
    assert (shown[0], shown[-1]) == ("10", "990")


def test_recipe_corpus_versions_and_skipped_steps_are_shown(finished):
    words = page_of(finished).words
    told = ["12 duplicates", "torch 2.13.0", "4.4%", "2,600,000", "Skipped steps: 1", EVIL]
    assert [one for one in told if one not in words] == []
    assert load_recipe(finished / "recipe.yaml").to_yaml() in words


def test_no_text_of_a_run_becomes_markup(finished):
    page = page_of(finished)
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert page.words.count(EVIL) >= 6
    assert "run <1> & $5" in page.words


def test_the_page_needs_nothing_beside_itself(finished):
    page = written_page(finished)
    places = [value for name, value in page.attributes if name in ("src", "srcset", "href")]
    assert len(places) == 2 * len(PANELS)
    assert all(place.startswith("data:image/svg+xml;base64,") for place in places)
    style = (finished / "report.html").read_text(encoding="utf-8").partition("</style>")[0]
    assert not re.search(r"url\(|@import|https?:", style)
    for drawing in draw_panels(read_run(finished), "dark"):
        links = re.findall(r'(?:href|src)="([^"]*)"|url\(([^)]*)\)', drawing.decode())
        assert all("".join(link).startswith("#") for link in links)


def test_the_sheet_is_a_picture(finished):
    page, sheet = write_report(finished)
    assert (page.name, sheet.name) == ("report.html", "report.png")
    with Image.open(sheet) as picture:
        picture.load()
        assert picture.format == "PNG"
        assert min(picture.size) > 800
    left = {file.name for file in finished.iterdir()}
    assert left == {"recipe.yaml", "corpus.txt", "log.jsonl", page.name, sheet.name}


def test_curves_are_the_numbers_of_the_log(finished):
    run = read_run(finished)
    lines = [json.loads(line) for line in (finished / "log.jsonl").read_text().splitlines()]
    for axes, panel in zip(sheet_of(run).axes, PANELS, strict=True):
        drawn = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
        for curve in panel.curves:
            logged = [[ln["step"], ln[curve.name]] for ln in lines if ln["kind"] == curve.kind]
            assert drawn[curve.label] == logged
            assert curve.label in panel.in_words(run)


def test_best_is_what_the_recipe_goes_by_and_the_first_of_equals(finished):
    assert read_run(finished).best_evaluation["step"] == 400
    text = (finished / "recipe.yaml").read_text(encoding="utf-8").replace("by: bleu", "by: loss")
    (finished / "recipe.yaml").write_text(text, encoding="utf-8")
    log = RunLog(finished / "log.jsonl")
    log.append("evaluation", 410, loss=math.nan, bleu=0.0, chrf=0.0)
    log.append("evaluation", 420, loss=500 / 400, bleu=0.0, chrf=0.0)
    best = read_run(finished).best_evaluation
    assert (best["step"], number(best, "loss")) == (400, 500 / 400)


def test_a_run_without_evaluation_has_a_report(young):
    words = page_of(young).words
    assert "No evaluation yet." in words
    assert how_far(read_run(young)) == "step 100 of 400, 3 min of training, about 10 min left"


def test_a_run_that_has_not_begun_has_a_report(young):
    (young / "log.jsonl").unlink()
    assert "step 0 of 400" in page_of(young).words


def test_numbers_that_are_not_finite_do_not_hinder(young):
    log = RunLog(young / "log.jsonl")
    nothing = dict.fromkeys(("loss", "gradient_norm", "learning_rate", "seconds"), math.nan)
    log.append("train", 110, **nothing, tokens_per_second=math.inf)
    log.append("evaluation", 110, loss=math.inf, perplexity=math.inf, bleu=math.nan, samples=[])
    assert "step 110 of 400, 3 min" in page_of(young).words
    assert read_run(young).best_evaluation is None
    assert draw_sheet(read_run(young)).startswith(b"\x89PNG")


def test_a_resumed_run_says_after_which_steps(young):
    log = RunLog(young / "log.jsonl")
    log.forget_after(50)
    log.append("start", 50, time=1.8e9, processes=4)
    train(log, [60])
    words = page_of(young).words
    assert "step 60 of 400" in words
    assert re.search(r"resumed after step\s*50", words)


def test_a_finished_run_that_is_sent_further_is_at_work(finished):
    assert "finished" in how_far(read_run(finished))
    train(RunLog(finished / "log.jsonl"), [410])
    assert "finished" not in how_far(read_run(finished))
    assert "41.02" in page_of(finished).words


def test_half_a_line_at_the_end_changes_nothing(finished):
    before = page_of(finished).words
    with (finished / "log.jsonl").open("ab") as file:
        file.write(b'{"kind": "train", "step": 9000, "lo')
    after = page_of(finished).words
    minute = re.compile(r"\(\d{4}-.*?\)")
    assert minute.sub("", after) == minute.sub("", before)


def test_a_report_is_made_while_the_log_grows(young):
    stop = Event()

    def grow():
        step = 100
        while not stop.wait(0.001):
            step += 10
            train(RunLog(young / "log.jsonl"), [step])

    writer = Thread(target=grow)
    writer.start()
    try:
        pages = [page_of(young).words for _ in range(5)]
    finally:
        stop.set()
        writer.join()
    seen = [int(re.search(r"step ([\d,]+) of", page)[1].replace(",", "")) for page in pages]
    assert seen == sorted(seen)
    assert 100 <= seen[0] < seen[-1]


def test_without_matplotlib_there_is_a_page_and_a_word_about_it(finished, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = written_page(finished)
    assert "pip install 'vanilla-transformer[plot]'" in caplog.text
    assert "41.02" in page.words
    assert "img" not in page.tags
    assert not (finished / "report.png").exists()


@pytest.mark.parametrize("name", ["nothing", "empty", "recipe.yaml"])
def test_what_is_no_run_is_refused(name, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    with pytest.raises(ValueError, match=r"must be a run's folder.*, got .*" + name):
        write_report(tmp_path / name)


def test_a_report_that_cannot_be_written_leaves_the_last_one(finished, monkeypatch):
    (finished / "report.html").write_text("the last one", encoding="utf-8")
    before = (finished / "report.html").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vanilla_transformer.file_replacement.os.fsync", full)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(OSError, match="No space left"):
        write_report(finished)
    assert (finished / "report.html").read_bytes() == before
    assert not [file for file in finished.iterdir() if file.name.startswith(".")]


def test_the_command_writes_the_report_without_torch(young):
    code = "\n".join(
        [
            "import runpy, sys",
            f"sys.argv = ['report.py', {str(young)!r}]",
            "try:",
            f"    runpy.run_path({str(REPOSITORY / 'training/report.py')!r}, run_name='__main__')",
            "except SystemExit as end:",
            "    print(end.code, 'torch' in sys.modules)",
        ]
    )
    told = run_fresh("-c", code, folder=young, PYTHONPATH=str(REPOSITORY))
    assert told.split() == ["0", "False"]
    assert (young / "report.html").stat().st_size > 10_000


def test_the_command_refuses_in_one_line(tmp_path):
    with pytest.raises(SystemExit) as end:
        report.main(tmp_path)
    assert str(end.value.code).startswith("Error: RUN must be a run's folder")
    assert "\n" not in end.value.code


@pytest.fixture(scope="module")
def trained(small_training, tmp_path_factory):
    """The folder of a run with a model, and translations of which one can be drawn."""
    output = tmp_path_factory.mktemp("trained") / "run"
    changes = ("optimization.max_steps=4", "evaluation.every_steps=2", "evaluation.samples=3")
    assert train_small(small_training, output, *changes) == 0
    samples = [
        {"source": source, "reference": "eins", "translation": translation}
        for source, translation in (("one", "ein zwei"), ("two", ""), ("twenty one", "eins " * 90))
    ]
    RunLog(output / "log.jsonl").append("evaluation", 4, loss=3.0, samples=samples)
    return output


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_translation_shows_what_the_newest_model_looks_at(trained, is_finished, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "run")
    model = folder / "model"
    if not is_finished:
        RunLog(folder / "log.jsonl").append("train", 5, loss=3.0)
        shutil.rmtree(model)
        model = max((folder / "checkpoints").glob("step-*"))
    maps = look_through(load_translator(str(model)), "one", "ein zwei")

    pictures = draw_attention(folder, read_run(folder))

    assert pictures == {"one": maps.draw("layer", "cross").to_bytes("svg")}
    assert "What it looks at" in written_page(folder).words


def test_a_run_whose_checkpoints_are_gone_has_a_report_without_maps(trained, tmp_path, caplog):
    folder = shutil.copytree(trained, tmp_path / "run")
    shutil.rmtree(folder / "model")

    page = written_page(folder)

    assert "ein zwei" in page.words
    assert "What it looks at" not in page.words
    assert "shows no attention" in caplog.text
