"""The average of checkpoints is the arithmetic mean, in a folder like any other."""

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from training import averaging
from training.averaging import average, write_average
from training.checkpoint_files import CheckpointError
from training.checkpoints import Checkpoints


@pytest.fixture(scope="module")
def saved(build_tiny, tiny_tokenizer, tmp_path_factory):
    """Five checkpoints, and the models that are in them."""
    run = Checkpoints(tmp_path_factory.mktemp("run"), keep_last=5, keep_best=1)
    models = [build_tiny() for _ in range(5)]

    def write(model):
        def files(folder):
            model.save_pretrained(folder)
            tiny_tokenizer.save_pretrained(folder)
            (folder / "recipe.yaml").write_text("seed: 0\n")

        return files

    for step, model in enumerate(models):
        run.save(step, write(model))
    return [checkpoint.folder for checkpoint in run.last(5)], models


def test_the_average_is_the_arithmetic_mean(saved):
    folders, models = saved
    parameters = [dict(model.named_parameters()) for model in models]
    averaged = average(folders)

    assert averaged.keys() == parameters[0].keys()
    for name, mean in averaged.items():
        exact = torch.stack([each[name].double() for each in parameters]).mean(0)
        assert mean.dtype == torch.float32
        torch.testing.assert_close(mean.double(), exact, rtol=1e-7, atol=1e-9)


def test_the_average_loads_as_an_ordinary_model(saved, tmp_path, sentence_pairs):
    folders, _ = saved
    write_average(folders, tmp_path / "averaged")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "averaged")

    torch.testing.assert_close(dict(model.named_parameters()), average(folders), rtol=0, atol=0)
    assert model(**sentence_pairs).loss.isfinite()
    assert len(AutoTokenizer.from_pretrained(tmp_path / "averaged"))
    names = {path.name for path in (tmp_path / "averaged").iterdir()}
    assert {"model.safetensors", "config.json", "recipe.yaml"} <= names
    assert names.isdisjoint({"manifest.json", "training"})


def test_the_average_of_one_is_itself(saved):
    folders, models = saved

    torch.testing.assert_close(
        average(folders[:1]), dict(models[0].named_parameters()), rtol=0, atol=0
    )


def test_parts_of_a_large_model_are_averaged_together(saved, tmp_path):
    folders, models = saved
    models[0].save_pretrained(tmp_path / "parts", max_shard_size="10KB")
    assert len(list((tmp_path / "parts").glob("model-*.safetensors"))) > 1
    write_average([folders[1], tmp_path / "parts"], tmp_path / "averaged")

    torch.testing.assert_close(
        load_file(tmp_path / "averaged" / "model.safetensors"), average(folders[:2])
    )
    assert not list((tmp_path / "averaged").glob("*.index.json"))
    AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "averaged")


def test_a_folder_that_exists_is_not_overwritten(saved, tmp_path):
    with pytest.raises(ValueError, match="needs a new folder"):
        write_average(saved[0], tmp_path)


def test_an_average_that_does_not_fit_leaves_nothing_behind(saved, tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(averaging, "save_file", fail)
    with pytest.raises(CheckpointError, match="must be writable, got I/O error: No space left"):
        write_average(saved[0], tmp_path / "averaged")

    assert list(tmp_path.iterdir()) == []


def model_folder(folder, **weights):
    folder.mkdir()
    save_file(weights, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        ({"b": torch.ones(2)}, "the same weights, got a only in one"),
        ({"a": torch.ones(3)}, "one shape and type"),
        ({"a": torch.ones(2).half()}, "one shape and type"),
    ],
)
def test_checkpoints_that_do_not_fit_are_refused(tmp_path, other, complaint):
    folders = [
        model_folder(tmp_path / "one", a=torch.ones(2)),
        model_folder(tmp_path / "two", **other),
    ]
    with pytest.raises(ValueError, match=complaint):
        average(folders)


def test_whole_numbers_must_agree(tmp_path):
    one, two, three = (model_folder(tmp_path / str(n), a=torch.tensor([n // 2])) for n in (0, 1, 2))
    assert average([one, two])["a"].tolist() == [0]
    with pytest.raises(ValueError, match="has no average"):
        average([one, three])


def test_no_checkpoints_have_no_average(tmp_path):
    with pytest.raises(ValueError, match="at least one checkpoint"):
        average([])
    with pytest.raises(ValueError, match="got none in"):
        average([tmp_path])
