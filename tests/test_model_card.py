"""A card says what is known, in numbers of the run, and nothing else; whoever wrote the words."""

import json
import re
import shutil

import pytest
import yaml
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt
from small_training import train

from vanilla_transformer.card_facts import FACTS, read_facts
from vanilla_transformer.leaks import find_leaks
from vanilla_transformer.model_card import CardSubject, complaints_about_card, make_card
from vanilla_transformer.publishable_folder import make_folder
from vanilla_transformer.run_facts import RunFacts, read_recipe, read_run_of

KNOWN = {
    "title": "Toy speech",
    "summary": "It **toys**.",
    "languages": ["en", "de"],
    "license": "apache-2.0",
    "base_model": "alice/first",
    "tags": ["toy"],
    "datasets": ["alice/pairs"],
    "intended_use": "For tests.\n\n- and tests\n- and tests",
    "limits": "It knows 24 words.",
    "examples": ["source1 source2", "source3"],
    "failures": [{"source": "source5", "expected": "target5", "comment": "silence"}],
    "training_data": [
        {"name": "Pairs", "pairs": 12_345, "license": "CC0", "url": "https://example.org/pairs"}
    ],
    "test_sets": {
        "news": {"title": "News 2014", "dataset": "wmt14", "split": "test", "license": "CC BY 9"}
    },
    "results": {
        "news": {"bleu": 41.234, "bleu_signature": "nrefs:1|x", "chrf": 60.5, "chrf_signature": "y"}
    },
    "carbon": {"kwh": 0.4, "co2_kg": 0.05, "hours": 4, "hardware": "a laptop", "cost": "1 euro"},
    "reproduce": "Run it **twice**.",
    "citation": "Us, 2026.",
}
SECTIONS_OF_FACTS = {
    "Intended use": "intended_use",
    "Limits": "limits",
    "Training data": "training_data",
    "Evaluation": "results",
    "How to reproduce": "reproduce",
}
ALWAYS = {"How to use", "Training", "Citation"}


@pytest.fixture(scope="module")
def run(small_training, tmp_path_factory):
    """The folder of a finished run."""
    output = tmp_path_factory.mktemp("card") / "run"
    changes = (
        "optimization.max_steps=6",
        "optimization.warmup_steps=2",
        "evaluation.every_steps=3",
    )
    assert train(small_training, output, *changes) == 0
    return output


@pytest.fixture
def card_of(toy_models):
    def make(**facts):
        model, run = toy_models["ours"], RunFacts()
        return make_card(CardSubject(model, "alice/toy", facts, run, lambda text: f"<{text}>"))

    return make


def headings(card):
    return set(re.findall(r"^## (.*)$", card, re.MULTILINE))


def evaluations(card):
    results = ModelCard(card).data.eval_results or []
    return {(one.dataset_name, one.metric_type): one for one in results}


def test_a_finished_run_tells_its_own_numbers(run, tmp_path):
    results = json.loads((run / "results.json").read_text())
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    (tmp_path / "made").mkdir()
    make_folder(run / "model", tmp_path / "made", name="alice/numbers", card=None, exclude=())
    card = (tmp_path / "made" / "README.md").read_text()

    found = evaluations(card)
    assert {name for name, _ in found} == results.keys() == {"validation", "test"}
    for (name, metric), one in found.items():
        assert one.metric_value == round(results[name][metric], 2)
        assert one.metric_args == {"signature": results[name][f"{metric}_signature"]}
        assert one.dataset_split == name
        assert f"{results[name][metric]:.2f}" in card
    validated = [line for line in log if line["kind"] == "evaluation"]
    assert len(validated) == 2
    for line in validated:
        assert f"| {line['step']} | {line['loss']:.3f} | {line['bleu']:.2f} |" in card
    assert log[0]["machine"] in card.replace("\\", "")
    assert "6 steps" in card
    assert f"{log[0]['parameters']:,} parameters" in card
    assert ModelCard(card).data.language == ["en", "de"]


def card_of_recipe(model, **recipe):
    scored = {"test": {"bleu": 1.0, "bleu_signature": "x"}}
    run = RunFacts(recipe=recipe, results=scored)
    return make_card(CardSubject(model, "alice/toy", {}, run, str))


@pytest.mark.parametrize("tokenizer", [None, "tokenizer/en-de"])
def test_a_card_has_the_size_of_a_vocabulary_only_where_it_was_learned(tokenizer, toy_models):
    corpus = {"vocabulary_size": 300, "tokenizer": tokenizer}
    card = card_of_recipe(toy_models["ours"], corpus=corpus)

    assert ("`corpus.vocabulary_size`" in card) == (tokenizer is None)


@pytest.mark.parametrize("size", [0, 6])
def test_a_card_says_by_which_rule_its_scores_were_decoded(size, toy_models):
    evaluation = {"num_beams": 4, "length_penalty": 0.6, "no_repeat_ngram_size": size}
    card = card_of_recipe(toy_models["ours"], evaluation=evaluation)

    assert "decoded with 4 beams, length penalty 0.6" in card
    assert (f"no {size} tokens twice" in card) == (size > 0)


def test_a_published_recipe_keeps_its_values_and_no_folder(run, tmp_path):
    (tmp_path / "made").mkdir()
    make_folder(run / "model", tmp_path / "made", name="numbers", card=None, exclude=())
    before, after = (
        yaml.safe_load((folder / "recipe.yaml").read_text())
        for folder in (run / "model", tmp_path / "made")
    )

    assert [*find_leaks((run / "model" / "recipe.yaml").read_text())]  # as people's recipes do
    assert after["corpus"]["train"][0]["places"] == ["train.tsv"]
    assert after["corpus"]["tests"] == {"test": ["test.tsv"]}
    del before["corpus"], after["corpus"]
    assert after == before


def test_a_model_that_was_carried_off_tells_only_its_recipe(run, tmp_path):
    told = read_run_of(shutil.copytree(run / "model", tmp_path / "model"))

    assert told.get("optimization", "max_steps") == 6
    assert (told.results, told.evaluations, told.steps) == ({}, [], None)


def test_of_a_model_alone_there_is_no_number_but_its_size(card_of, toy_models):
    card = card_of()

    assert headings(card) == ALWAYS
    assert evaluations(card) == {}
    assert ModelCard(card).data.to_dict().keys() == {"library_name", "pipeline_tag", "tags"}
    assert f"{toy_models['ours'].num_parameters():,} parameters" in card
    stated = re.search(r"Nothing is stated here about: (.*)\.", card)[1]
    assert set(stated.split(", ")) == {
        "licence", "intended use", "limits", "failures", "training data", "carbon", "quality"
    }  # fmt: skip


@pytest.mark.parametrize(("section", "fact"), SECTIONS_OF_FACTS.items())
def test_a_section_is_there_if_and_only_if_somebody_filled_it(section, fact, card_of):
    without = {name: value for name, value in KNOWN.items() if name != fact}
    if section == "Limits":
        del without["failures"]

    assert section in headings(card_of(**KNOWN))
    assert section not in headings(card_of(**without))


def test_every_fact_is_in_the_card(card_of):
    card = card_of(**KNOWN)
    data = ModelCard(card).data

    assert KNOWN.keys() | {"license_name", "license_link", "how_to_use"} == FACTS.keys()
    assert (data.license, data.language, data.base_model) == (
        "apache-2.0",
        ["en", "de"],
        "alice/first",
    )
    assert data.datasets == ["alice/pairs"]
    assert {"toy", "translation"} <= set(data.tags)
    assert data.co2_eq_emissions["emissions"] == 50
    assert evaluations(card)["News 2014", "bleu"].metric_value == 41.23
    assert evaluations(card)["News 2014", "bleu"].dataset_type == "wmt14"
    for text in (
        "# Toy speech", "It **toys**.", "- and tests", "It knows 24 words.", "12,345", "CC0",
        "[Pairs](<https://example.org/pairs>)", "| 41.23 | 60.50 |", "`nrefs:1|x`", "0.4 kWh",
        "| source5 | \\<source5\\> | target5 | silence |", "| source3 | \\<source3\\> |",
        "Run it **twice**.", "Us, 2026.", "a laptop", "| CC BY 9 |",
    ):  # fmt: skip
        assert text in card, text
    assert "Nothing is stated" not in card


def test_a_model_may_be_used_in_another_way_than_by_its_name(card_of):
    assert "from_pretrained('alice/toy')" in card_of(**KNOWN).replace('"', "'")
    card = card_of(**KNOWN, how_to_use="Say `please`.")
    assert "## How to use\n\nSay `please`.\n" in card
    assert "from_pretrained" not in card


HOSTILE = (
    "a|b`c`</td><script>alert(1)</script>\n---\n# Heading\n![x](javascript:x) {{ 7*191 }} {% raw %}"
)


def test_what_others_write_stays_text(card_of):
    hostile = {
        **dict.fromkeys(("title", "license_name", "summary", "limits", "citation"), HOSTILE),
        "license": "other",
        "license_link": "https://example.org",
        "examples": [HOSTILE],
        "failures": [{"source": HOSTILE, "comment": HOSTILE}],
        "training_data": [{"name": HOSTILE, "license": HOSTILE, "url": 'javascript:"x'}],
        "results": {HOSTILE: {"bleu": 1.0, "bleu_signature": HOSTILE}},
        "carbon": {"hardware": HOSTILE},
    }
    card = card_of(**hostile)
    tokens = MarkdownIt("commonmark").enable("table").parse(ModelCard(card).text)
    inline = [child for token in tokens for child in token.children or ()]
    shown = ["".join(part.content for part in token.children or ()) for token in tokens]
    text = " ".join(HOSTILE.split())

    assert ModelCard(card).data.license_name.split() == HOSTILE.split()
    assert "html_block" not in {token.type for token in tokens}
    assert "html_inline" not in {token.type for token in inline}
    assert "1337" not in card
    assert [t for t in inline if t.type == "link_open" and "javascript" in t.attrs["href"]] == []
    # Title; an example and a failure, their translations, a comment; a corpus, its licence; scores.
    assert [shown.count(text), shown.count(f"<{text}>")] == [7, 2]


def test_the_python_in_a_card_runs(card_of, toy_models, toy_tokenizer, tmp_path, capsys):
    toy_models["ours"].save_pretrained(tmp_path)
    toy_tokenizer.save_pretrained(tmp_path)
    facts = {"examples": ["source1 source2"]}
    card = make_card(CardSubject(toy_models["ours"], str(tmp_path), facts, RunFacts(), str))
    blocks = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    names = {}
    for block in blocks:
        exec(block, names)

    assert len(blocks) == 2
    assert "translation_text" in capsys.readouterr().out
    assert names["model"].num_parameters() == toy_models["ours"].num_parameters()


BAD_FACTS = {
    "licence: mit": "did you mean license?",
    "license: 3": "license must be a text",
    "languages: [en]": "source and target",
    "languages: en": "must be a list",
    "license: other": "needs a license_name",
    "failures: [{comment: x}]": "failures needs a source",
    "failures: [{source: x, translation: y}]": "no fact of a card",
    "results: {news: {bleu: 40}}": "bleu_signature",
    "results: {news: {bleu: .nan, bleu_signature: x}}": "finite number",
    "results: {news: {bleu: true, bleu_signature: x}}": "finite number",
    "carbon: {co2_kg: much}": "carbon.co2_kg must be a finite number",
    "- a list": "names with values",
    "a: [": "must be YAML",
}


@pytest.mark.parametrize(("text", "complaint"), BAD_FACTS.items(), ids=BAD_FACTS)
def test_a_fact_that_is_none_is_refused(text, complaint, tmp_path):
    (tmp_path / "facts.yaml").write_text(text)

    with pytest.raises(ValueError, match=re.escape(complaint)):
        read_facts(tmp_path / "facts.yaml")


def test_facts_may_be_json(tmp_path):
    (tmp_path / "facts.json").write_text(json.dumps(KNOWN))

    assert read_facts(tmp_path / "facts.json") == KNOWN


RESULT = {
    "task": {"type": "translation"},
    "dataset": {"name": "x", "type": "x"},
    "metrics": [{"type": "bleu", "value": 1.0}],
}
BAD_METADATA = {
    "no head": ("# Card", "must begin with metadata"),
    "no YAML": ("---\na: [\n---\n", "must be readable"),
    "a list": ("---\n- a\n---\n", "must be readable"),
    "a language": ("---\nlanguage: German\n---\n", "language must be a code"),
    "a licence": ("---\nlicense: Apache License 2.0\n---\n", "license must be a name"),
    "a dataset": ("---\ndatasets: [a b]\n---\n", "datasets must be names on the Hub"),
    "no metric": (
        "---\n" + yaml.safe_dump({"model-index": [{"name": "x", "results": [{}]}]}) + "---\n",
        "must be readable",
    ),
    "no number": (
        "---\n"
        + yaml.safe_dump(
            {
                "model-index": [
                    {
                        "name": "x",
                        "results": [{**RESULT, "metrics": [{"type": "bleu", "value": [1]}]}],
                    }
                ]
            }
        )
        + "---\n",
        "score must be a number",
    ),
}


@pytest.mark.parametrize(("card", "complaint"), BAD_METADATA.values(), ids=BAD_METADATA)
def test_metadata_that_the_hub_would_not_take_are_refused(card, complaint):
    (found,) = complaints_about_card(card)

    assert complaint in found


def test_good_metadata_are_taken():
    index = {"model-index": [{"name": "x", "results": [RESULT]}], "language": ["en", "de"]}

    assert [*complaints_about_card("---\n" + yaml.safe_dump(index) + "---\n\n# Card")] == []


NAMES = {
    "../data/train.tsv": "train.tsv",
    "/home/me/valid.tsv": "valid.tsv",
    "C:\\data\\test.tsv": "test.tsv",
    "~/more.tsv": "more.tsv",
    "data/even-more.tsv": "data/even-more.tsv",
    "wmt/wmt14": "wmt/wmt14",
    "numbers:train": "numbers:train",
}


def recipe_of(places, tmp_path):
    """The places of a recipe, as a card names them."""
    recipe = {"corpus": {"train": [{"places": list(places)}]}, "seed": 1}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    return read_recipe(tmp_path / "recipe.yaml")["corpus"]["train"][0]["places"]


def test_places_lose_the_folders_of_somebody_s_machine(tmp_path):
    assert recipe_of(NAMES, tmp_path) == [*NAMES.values()]


def test_places_keep_as_many_folders_as_tell_them_apart(tmp_path):
    places = ["/home/me/corpora/a/train.tsv", "../corpora/b/train.tsv", "../corpora/b/test.tsv"]

    assert recipe_of(places, tmp_path) == ["a/train.tsv", "b/train.tsv", "b/test.tsv"]
    assert recipe_of(["/x/a.tsv", "../x/a.tsv"], tmp_path) == ["a.tsv", "a.tsv"]
