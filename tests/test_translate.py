"""Line n of the output is the translation of line n, whatever happens on the way."""

import json
import re
from itertools import chain
from pathlib import Path

import pytest
from toy_models import LINE, OTHER, TEXTS, texts_of

from vanilla_transformer import line_chunks
from vanilla_transformer import translate as translate_module
from vanilla_transformer.line_chunks import count_lines
from vanilla_transformer.translate import Options, translate_files
from vanilla_transformer.translators import load_translator

LINES = [
    "",
    LINE,
    "  ",
    f"{OTHER}\u2028{LINE}",
    f"{LINE}. Source5 {OTHER}!",
    f"{LINE}\r{OTHER}",
    "\u3000source1",
    *TEXTS,
    "source7 " * 80,  # more than the model takes at once
    f"{OTHER}\x0b\x85source2",
    "",
]
NBEST = Options(n_best=2, scores=True, alignment=True, format="jsonl", batch_tokens=40)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source.txt"
    path.write_bytes("".join(f"{line}\n" for line in LINES).encode())
    return path


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(line_chunks, "CHUNK_LINES", 4)


def run(translator, source, output, options=None, existing="refuse"):
    steps = list(translate_files(translator, [source], output, options or Options(), existing))
    return output.read_bytes(), steps


def interrupt(translator, source, output, options=None, chunks=1):
    """Begin a run, and stop it when so many chunks are written."""
    steps = translate_files(translator, [source], output, options or Options())
    for _ in range(1 + chunks):
        next(steps)
    steps.close()


def test_the_lines_are_those_of_the_pipeline(translate, source, tmp_path):
    written, steps = run(translate, source, tmp_path / "out")

    assert written.decode().split("\n") == [*texts_of(translate(LINES)), ""]
    assert sum(step.lines for step in steps) == len(LINES) == count_lines([source])
    assert sum(step.tokens for step in steps) > len(LINES)


@pytest.mark.parametrize("batch_tokens", [1, 10, 100_000])
def test_batches_do_not_change_a_translation(batch_tokens, translate, source, tmp_path):
    expected, _ = run(translate, source, tmp_path / "expected")

    assert run(translate, source, tmp_path / "out", Options(batch_tokens))[0] == expected


def test_no_batch_has_more_tokens_than_asked_for(translate, monkeypatch):
    sizes = []
    forward = translate.forward
    monkeypatch.setattr(
        translate,
        "forward",
        lambda inputs, **rest: sizes.append(inputs["input_ids"].shape) or forward(inputs, **rest),
    )

    translate(TEXTS, batch_tokens=20)

    assert all(rows == 1 or rows * length <= 20 for rows, length in sizes)
    assert sum(rows for rows, _ in sizes) == len(TEXTS) > len(sizes)


def test_jsonl_holds_the_pipeline_s_records(translate, source, tmp_path):
    written, _ = run(translate, source, tmp_path / "out", NBEST)
    records = [json.loads(line) for line in written.decode().split("\n")[:-1]]
    expected = translate(LINES, num_return_sequences=2, return_scores=True, return_alignment=True)

    assert [record.pop("line") for record in records] == [
        number for number in range(1, len(LINES) + 1) for _ in range(2)
    ]
    for record, wanted in zip(records, chain.from_iterable(expected), strict=True):
        assert record.pop("score") == pytest.approx(wanted.pop("score"), abs=1e-4)
        wanted["alignment"] = [list(span) for span in wanted["alignment"]]
        assert record == wanted


def test_tsv_has_a_column_for_each_wish(translate, source, tmp_path):
    options = Options(scores=True, alignment=True, format="tsv")
    written, _ = run(translate, source, tmp_path / "out", options)
    rows = [line.split("\t") for line in written.decode().split("\n")[:-1]]

    assert {len(row) for row in rows} == {3}
    assert [row[0] for row in rows] == texts_of(translate(LINES))
    assert rows[0] == ["", "0.0", ""]
    assert all(re.fullmatch(r"\d+-\d+:\d+-\d+", span) for span in rows[1][2].split())


@pytest.mark.parametrize("name", ["text", "tsv", "jsonl"])
def test_what_a_model_writes_never_makes_a_line(name):
    record = {"translation_text": "a\nb\tc", "score": 1.0}

    assert "\n" not in translate_module.FORMATS[name](1, dict(record))
    assert translate_module.write_tsv(1, record).count("\t") == 1


@pytest.mark.parametrize("content", ["", "\n", "source1", "\n\nsource1\r", "source1\r\n\r\n"])
def test_lines_end_at_line_feeds(content, translate, tmp_path):
    (tmp_path / "in").write_bytes(content.encode())
    written, _ = run(translate, tmp_path / "in", tmp_path / "out")

    lines = content.replace("\r\n", "\n").removesuffix("\r").removesuffix("\n").split("\n")
    assert written.decode().split("\n")[:-1] == (texts_of(translate(lines)) if content else [])


@pytest.mark.parametrize("options", [Options(), NBEST], ids=["text", "n-best"])
@pytest.mark.parametrize("torn", [b"", b"half a li", b"x\n" * 99], ids=["", "half", "much"])
@pytest.mark.parametrize("chunks", range(5))
def test_an_interrupted_run_resumes_to_the_same_bytes(
    chunks, torn, options, translate, source, tmp_path
):
    whole, steps = run(translate, source, tmp_path / "whole", options)
    interrupt(translate, source, tmp_path / "out", options, chunks)
    with (tmp_path / "out").open("ab") as output:
        output.write(torn)

    resumed, again = run(translate, source, tmp_path / "out", options, "resume")

    assert resumed == whole
    assert [step.lines for step in again] == [min(4 * chunks, len(LINES)), *(
        step.lines for step in steps[1 + chunks :]
    )]  # fmt: skip
    assert {file.name for file in tmp_path.iterdir()} == {"source.txt", "whole", "out"}


OTHERWISE = {
    "beam": Options(beam=3),
    "n_best": Options(n_best=2),
    "batch_tokens": Options(batch_tokens=99),
    "format": Options(format="tsv"),
    "scores": Options(format="tsv", scores=True),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_a_run_is_not_resumed_with_other_options(name, translate, source, tmp_path):
    interrupt(translate, source, tmp_path / "out", chunks=1)
    before = (tmp_path / "out").read_bytes()

    with pytest.raises(ValueError, match=rf"as it was begun.*\b{name} .*\(was .*--force"):
        run(translate, source, tmp_path / "out", OTHERWISE[name], "resume")

    assert (tmp_path / "out").read_bytes() == before


def test_a_run_is_not_resumed_with_another_model(toy_models, toy_tokenizer, source, tmp_path):
    folder, out = tmp_path / "model", tmp_path / "out"
    toy_models["ours"].save_pretrained(folder)
    toy_tokenizer.save_pretrained(folder)
    interrupt(load_translator(str(folder)), source, out)
    for precision in ("int8", "bfloat16"):
        with pytest.raises(ValueError, match=rf"another dtype '{precision}' \(was 'float32'\):"):
            run(load_translator(str(folder), precision), source, out, existing="resume")
    other = load_translator(str(folder))
    other.model.model.shared.weight.data[3, 3] += 1
    with pytest.raises(ValueError, match="another model in float32 '"):
        run(other, source, out, existing="resume")

    folder = folder.rename(tmp_path / "moved")  # the same model all the same
    assert run(load_translator(str(folder)), source, out, existing="resume")[0].count(b"\n") == 15


def test_a_run_is_not_resumed_with_another_input(translate, source, tmp_path):
    interrupt(translate, source, tmp_path / "out", chunks=2)
    lines = source.read_bytes()
    source.write_bytes(lines.replace(b"source1", b"source2", 1))
    with pytest.raises(ValueError, match=r"input it was begun with.* first 8 lines.*--force"):
        run(translate, source, tmp_path / "out", existing="resume")
    source.write_bytes(lines + b"source1\n")  # what follows may change
    resumed, _ = run(translate, source, tmp_path / "out", existing="resume")

    assert resumed == run(translate, source, tmp_path / "whole")[0]


def test_an_output_without_a_known_beginning_is_not_resumed(translate, source, tmp_path):
    whole, _ = run(translate, source, tmp_path / "out")
    assert run(translate, source, tmp_path / "out", existing="resume") == (whole, [])
    for content in (whole[:-1], b"x\n" * (len(LINES) + 1)):
        (tmp_path / "out").write_bytes(content)
        with pytest.raises(ValueError, match=r"complete or have out.unfinished beside it"):
            run(translate, source, tmp_path / "out", existing="resume")
        assert (tmp_path / "out").read_bytes() == content


def test_an_output_that_has_lost_lines_is_not_resumed(translate, source, tmp_path):
    interrupt(translate, source, tmp_path / "out", chunks=2)
    (tmp_path / "out").write_bytes(b"")
    with pytest.raises(ValueError, match="must hold what was written"):
        run(translate, source, tmp_path / "out", existing="resume")
    (tmp_path / "out").unlink()  # whoever removes it wants it anew

    resumed, _ = run(translate, source, tmp_path / "out", existing="resume")

    assert resumed == run(translate, source, tmp_path / "whole")[0]


def test_a_damaged_file_beside_the_output_is_named(translate, source, tmp_path):
    interrupt(translate, source, tmp_path / "out", chunks=1)
    (tmp_path / "out.unfinished").write_text("{")

    with pytest.raises(ValueError, match=r"out.unfinished must be as it was written.*--force"):
        run(translate, source, tmp_path / "out", existing="resume")


def test_a_device_takes_translations_too(translate, source):
    assert run(translate, source, Path("/dev/null"))[0] == b""
    assert not Path("/dev/null.unfinished").exists()


def test_nothing_is_overwritten_unasked(translate, source, tmp_path):
    (tmp_path / "out").write_bytes(b"mine")

    with pytest.raises(ValueError, match="--force"):
        run(translate, source, tmp_path / "out")
    with pytest.raises(ValueError, match="must be no input"):
        run(translate, source, source, existing="replace")

    assert (tmp_path / "out").read_bytes() == b"mine"
    assert run(translate, source, tmp_path / "out", existing="replace")[0].count(b"\n") == len(
        LINES
    )


def test_wishes_that_exclude_each_other_are_refused(translate, source, tmp_path):
    with pytest.raises(ValueError, match="jsonl or tsv"):
        Options(scores=True)
    with pytest.raises(ValueError, match="at most beam, got 3 and 2"):
        Options(beam=2, n_best=3)
    with pytest.raises(ValueError, match="at most beam, got 5 and 4"):
        run(translate, source, tmp_path / "out", Options(n_best=5))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_every_precision_loads(precision, toy_models, toy_tokenizer, tmp_path):
    toy_models["ours"].save_pretrained(tmp_path)
    toy_tokenizer.save_pretrained(tmp_path)

    translator = load_translator(str(tmp_path), precision)

    assert isinstance(translator([LINE])[0]["translation_text"], str)
    assert (translator.model.dtype.itemsize == 2) == (precision == "bfloat16")


def test_int8_is_for_our_models(toy_models, toy_tokenizer, tmp_path):
    toy_models["marian"].save_pretrained(tmp_path)
    toy_tokenizer.save_pretrained(tmp_path)

    with pytest.raises(ValueError, match="int8 needs a vanilla-transformer model, got Marian"):
        load_translator(str(tmp_path), "int8")


@pytest.mark.parametrize("name", ["no/such/folder", "./none", "", "empty", "file"])
def test_a_model_that_is_no_folder_of_one_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("{}")

    with pytest.raises(ValueError, match=f"must be a folder with a config.json .* got '{name}'"):
        load_translator(name)


def test_the_folder_of_a_training_run_is_told_where_its_model_is(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")

    with pytest.raises(ValueError, match=f"did you mean '{tmp_path / 'model'}'"):
        load_translator(str(tmp_path))


def test_a_model_without_a_tokenizer_is_refused(toy_models, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    toy_models["ours"].save_pretrained(tmp_path)

    with pytest.raises(ValueError, match=r"must hold a tokenizer \(save one there with tokenizer"):
        load_translator(str(tmp_path))
