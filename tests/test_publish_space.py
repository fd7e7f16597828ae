"""`publish --space`: the app, and the package beside it with the model, in one commit."""

import shutil

import pytest
from scripts.fresh_process import REPOSITORY, run_fresh
from typer.testing import CliRunner

from vanilla_transformer import publishable_space
from vanilla_transformer.cli import app
from vanilla_transformer.embedded_models import DEFAULT_MODEL

SPACE = REPOSITORY / "space"
NAME = "alice/translator"
READER = """
import vanilla_transformer
from vanilla_transformer.translators import load_translator
print(vanilla_transformer.__file__)
print(load_translator("en-de-small").model.name_or_path)
"""


@pytest.fixture
def package(tmp_path, stand_in, with_stand_in, monkeypatch):
    """The package as it will be, with a model in it."""
    there = tmp_path / "vanilla_transformer"
    shutil.copytree(publishable_space.PACKAGE, there, ignore=lambda *seen: ["embedded"])
    shutil.copytree(stand_in, there / "embedded")
    (there / "__pycache__").mkdir(exist_ok=True)
    (there / "__pycache__" / "cli.pyc").write_bytes(b"compiled")
    monkeypatch.setattr(publishable_space, "PACKAGE", there)
    return there


@pytest.fixture
def space(tmp_path):
    return shutil.copytree(SPACE, tmp_path / "space")


def publish(*arguments):
    return CliRunner().invoke(app, ["publish", "--space", *map(str, arguments)])


def test_what_arrives_runs_without_an_installed_package(package, at_hub, tmp_path):
    with at_hub() as hub:
        result = publish(SPACE, "--to", "translator", "--private", "--message", "First")

    assert result.exit_code == 0, result.stderr
    repository = hub.repositories[NAME]
    assert result.stdout == f"{hub.url}/spaces/{NAME}/commit/{repository.head}\n"
    assert (repository.kind, repository.private) == ("space", True)
    assert [message for message, _ in repository.commits[1:]] == ["First"]
    own = {file.name for file in SPACE.iterdir() if file.is_file()}
    assert own == {name for name in repository.files if "/" not in name} - {".gitattributes"}
    assert not [name for name in repository.files if "__pycache__" in name]

    arrived = repository.save(tmp_path / "arrived")
    found, model = run_fresh("-c", READER, folder=arrived, PYTHONPATH=str(arrived)).splitlines()
    assert found == str(arrived / "vanilla_transformer" / "__init__.py")
    assert model == str(arrived / "vanilla_transformer" / "embedded" / DEFAULT_MODEL)


def test_a_second_time_only_what_is_new_goes(package, space, at_hub):
    with at_hub() as hub:
        assert publish(space, "--to", NAME).exit_code == 0
        (space / "page.css").write_text("p { margin: 0; }")
        assert publish(space, "--to", NAME).exit_code == 0

    repository = hub.repositories[NAME]
    assert repository.files["page.css"] == b"p { margin: 0; }"
    assert len(repository.commits) == 3
    assert len(hub.asked("PUT /lfs/")) == 1  # the weights


def test_a_module_that_is_gone_from_the_package_goes_from_the_space(package, at_hub):
    (package / "old_module.py").write_text("")
    with at_hub() as hub:
        assert publish(SPACE, "--to", NAME).exit_code == 0
        files = hub.repositories[NAME].commits[-1][1]
        assert "vanilla_transformer/old_module.py" in files
        files["mine.safetensors"] = b"of somebody else"
        (package / "old_module.py").unlink()
        assert publish(SPACE, "--to", NAME).exit_code == 0

    files = hub.repositories[NAME].files
    assert "vanilla_transformer/old_module.py" not in files
    assert files["mine.safetensors"] == b"of somebody else"


def test_a_dry_run_names_every_file_and_needs_no_network(package, space, at_hub, tmp_path):
    (space / "notes.txt").write_text("of mine")
    (space / ".env").write_text("SECRET=1")
    with at_hub(token=None) as hub:
        result = publish(space, "--dry-run", "--folder", tmp_path / "dry", "--exclude", "notes.*")

    assert result.exit_code == 0, result.stderr
    assert hub.requests == []
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["left", "out", "notes.txt"] in lines
    assert ["left", "out", ".env"] in lines
    files = {file for file in (tmp_path / "dry").rglob("*") if file.is_file()}
    listed = {line[1] for line in lines if line[0][0].isdigit()} - {"in"}
    assert listed == {file.relative_to(tmp_path / "dry").as_posix() for file in files}
    assert {"app.py", f"vanilla_transformer/embedded/{DEFAULT_MODEL}/config.json"} <= listed


def test_where_a_space_lies_does_not_matter(package, tmp_path):
    space = shutil.copytree(SPACE, tmp_path / "__pycache__" / "space")
    result = publish(space, "--dry-run", "--folder", tmp_path / "dry")

    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "dry" / "app.py").is_file()


def test_what_must_not_be_published_is_refused(package, space, at_hub):
    (space / "words.pkl").write_bytes(b"x")
    (space / "notes.txt").write_text("in /home/me/x")
    with at_hub() as hub:
        result = publish(space, "--to", NAME)

    assert result.exit_code == 1
    assert "words.pkl must be no pickle" in result.stderr
    assert "notes.txt must hold nothing private" in result.stderr
    assert hub.repositories == {}


@pytest.mark.parametrize("name", ["app.py", "README.md"])
def test_a_folder_that_is_no_space_is_refused(name, package, space):
    (space / name).unlink()
    result = publish(space, "--dry-run")

    assert result.exit_code == 1
    assert f"A Space must be a folder with app.py and README.md, got {space}" in result.stderr
    assert f"without {name}: " in result.stderr


def test_a_header_that_says_nothing_of_gradio_is_refused(package, space):
    (space / "README.md").write_text("---\nsdk: docker\n---\n")

    assert "must say 'sdk: gradio' in its header, got docker" in publish(space, "--dry-run").stderr


def test_a_package_without_a_model_is_refused(space, tmp_path, monkeypatch):
    monkeypatch.setattr("vanilla_transformer.embedded_models.EMBEDDED", tmp_path)

    assert f"needs the model {DEFAULT_MODEL}" in publish(space, "--dry-run").stderr


def test_a_card_is_not_for_a_space(space, tmp_path):
    (tmp_path / "facts.yaml").write_text("license: mit")
    result = publish(space, "--dry-run", "--card", tmp_path / "facts.yaml")

    assert result.exit_code == 1
    assert "--card is for models" in result.stderr
