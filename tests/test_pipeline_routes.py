"""Three ways to the pipeline: the package, a trusted folder, and a folder where the package is."""

import json

import pytest
from scripts.fresh_process import REPOSITORY, SCRIPTS, run_fresh
from transformers import pipeline


@pytest.fixture(scope="module")
def folder(toy_models, toy_tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("routes") / "model"
    toy_models["ours"].save_pretrained(folder)
    toy_tokenizer.save_pretrained(folder)
    return folder


def translated_in(folder, route):
    path = str(REPOSITORY) if route == "plugin" else ""
    run_fresh(SCRIPTS / "translate.py", route, folder, folder=folder.parent, PYTHONPATH=path)
    return json.loads((folder.parent / f"{folder.name}-{route}.json").read_text())


def test_a_saved_folder_names_and_carries_its_pipeline(folder):
    named = json.loads((folder / "config.json").read_text())["custom_pipelines"]

    assert named["translation"]["impl"] == "pipeline_translation.TranslationPipeline"
    assert (folder / "pipeline_translation.py").exists()
    assert (folder / "sentence_splits.py").exists()


@pytest.mark.parametrize("route", ["plugin", "trusted"])
def test_every_route_to_the_pipeline_translates_alike(route, folder, toy_models, toy_tokenizer):
    texts = ["source1 source2", "source3\nsource4 source5"]
    here = pipeline("translation", model=toy_models["ours"], tokenizer=toy_tokenizer)

    seen = translated_in(folder, route)

    where = "vanilla_transformer." if route == "plugin" else "transformers_modules."
    assert seen["module"].startswith(where)
    for found, expected in zip(seen["translated"], here(texts, return_scores=True), strict=True):
        assert found["translation_text"] == expected["translation_text"]
        assert found["score"] == pytest.approx(expected["score"], rel=1e-4)
    assert seen["named"] == [seen["module"], "translation_en_to_de", seen["translated"]]
    saved = json.loads((folder.parent / f"model-{route}" / "config.json").read_text())
    assert (
        saved["custom_pipelines"]
        == json.loads((folder / "config.json").read_text())["custom_pipelines"]
    )
    assert (
        translated_in(folder.parent / f"model-{route}", "trusted")["translated"]
        == (seen["translated"])
    )


def test_loading_a_pipeline_leaves_its_configuration_as_it_was(folder):
    seen = translated_in(folder, "trusted")["configuration"]

    saved = json.loads((folder / "config.json").read_text())
    assert seen["custom_pipelines"] == saved["custom_pipelines"]


def test_without_package_and_trust_no_pipeline_is_loaded(folder):
    assert "trust_remote_code" in translated_in(folder, "untrusted")["refusal"]


def test_the_pipeline_is_imported_when_it_is_needed(tmp_path):
    program = (
        "import sys, vanilla_transformer\n"
        "assert 'transformers.pipelines' not in sys.modules\n"
        "from transformers import pipelines\n"
        "assert not any('pipeline_translation' in name for name in sys.modules)\n"
        "print(pipelines.check_task('translation')[1]['impl'].__module__)"
    )
    printed = run_fresh("-c", program, folder=tmp_path, PYTHONPATH=str(REPOSITORY))

    assert printed.strip() == "vanilla_transformer.pipeline_translation"
