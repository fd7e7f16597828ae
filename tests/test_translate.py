"""Line n of the output is the translation of line n, whatever happens on the way."""

import json
import re
from itertools import chain

import pytest
from toy_models import LINE, OTHER, TEXTS, texts_of

from vanilla_transformer import line_chunks
from vanilla_transformer import translate as translate_module
from vanilla_transformer.line_chunks import count_lines
from vanilla_transformer.translate import Options, load_translator, translate_files

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
    assert rows[0] == ["", "0", ""]
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
@pytest.mark.parametrize("part", [0.0, 0.01, 0.37, 0.5, 0.73, 0.99, 1.0])
def test_a_run_cut_at_any_byte_resumes_to_the_same_bytes(
    part, options, translate, source, tmp_path
):
    whole, steps = run(translate, source, tmp_path / "whole", options)
    (tmp_path / "cut").write_bytes(whole[: int(len(whole) * part)])

    resumed, again = run(translate, source, tmp_path / "cut", options, "resume")

    assert resumed == whole
    assert sum(step.lines for step in again) == len(LINES)
    if part >= 0.5:
        assert sum(step.tokens for step in again) < sum(step.tokens for step in steps)
    if part == 1:
        assert sum(step.tokens for step in again) == 0


@pytest.mark.parametrize("distance", [0, 1])
def test_a_cut_at_the_end_of_a_chunk_loses_no_line(distance, translate, source, tmp_path):
    whole, _ = run(translate, source, tmp_path / "whole")
    lines = whole.splitlines(keepends=True)  # of bytes: at LF, and at a lone CR
    for size in {len(b"".join(lines[:number])) for number in range(len(lines))}:
        (tmp_path / "cut").write_bytes(whole[: max(size - distance, 0)])

        assert run(translate, source, tmp_path / "cut", existing="resume")[0] == whole


def test_an_output_of_another_input_is_not_resumed(translate, source, tmp_path):
    (tmp_path / "out").write_bytes(b"x\n" * (len(LINES) + 1))

    with pytest.raises(ValueError, match="must be of the same input"):
        run(translate, source, tmp_path / "out", existing="resume")

    assert (tmp_path / "out").read_bytes() == b"x\n" * (len(LINES) + 1)


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
