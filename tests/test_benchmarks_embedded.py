"""The benchmark of the model that ships: who takes part, and what the table says of them."""

import json

import pytest
from conftest import SENTENCES

from benchmarks import embedded
from benchmarks.embedded import Contestant, Sentences, Speeds, write_report

SENTENCES_OF_TOKENS = Sentences(["a", "b", "c"], [[5, 2], [6, 7, 2], [8, 2]], alone=2)


class MadeUpEngine:
    """An engine that is twice as fast with two workers."""

    script = embedded.CTRANSLATE2

    def __init__(self):
        self.asked = []

    def translate(self, name, batches, beams, limit, settings):
        self.asked.append((len(batches), len(batches[0])))
        return 4.0 / settings["inter_threads"], batches


def test_a_contestant_translates_some_alone_and_all_together_in_its_fastest_way():
    engine, speeds = MadeUpEngine(), Speeds()
    one = Contestant(engine, "made up", threads=2)
    one.warm_up(SENTENCES_OF_TOKENS)
    engine.asked.clear()

    one.turn(SENTENCES_OF_TOKENS, speeds)

    assert engine.asked == [(1, 1), (1, 1), (1, 3)]
    assert speeds == Speeds(alone=[4.0, 4.0], together=[3 / 2.0])


def test_the_report_has_a_row_for_everybody_and_holds_our_pipeline_to_its_bars():
    speeds = {
        "our pipeline fp32": Speeds([0.040, 0.050, 0.090], [200.0, 100.0, 150.0]),
        "command line int8": Speeds([], [99.0]),
    }

    report = write_report(speeds, 2, "python benchmarks/embedded.py")

    assert "50.0 ms for a sentence (below 60 was promised)" in report
    assert "150 sentences a second (at least 150)" in report
    assert "| command line | int8 | 2 |  |  | 99 |" in report


@pytest.mark.parametrize("impossible", [["--threads", "1000"], ["--rounds", "0"]], ids=" ".join)
def test_what_cannot_be_measured_is_refused(impossible, capsys):
    with pytest.raises(SystemExit):
        embedded.parse_options(impossible)
    assert impossible[0] in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.slow
def test_everybody_translates(tmp_path, capsys):
    lines = [line.split("\t") for line in SENTENCES.splitlines()]
    test_set = tmp_path / "test.jsonl"
    test_set.write_text("\n".join(json.dumps({"en": en, "de": de}) for en, de in lines))

    embedded.main(["--quick", "--data", str(test_set)])

    report = capsys.readouterr().out
    for name in ("ours | fp32", "MarianMT | bf16", "CTranslate2 | int8", "our pipeline | fp32"):
        assert f"| {name} | 1 |" in report
    assert report.count("| command line") == 2 * 3
