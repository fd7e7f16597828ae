"""What waits for an import acts once, after the module's own code, and leaves no trace."""

import importlib
import importlib.util
import sys

import pytest

from vanilla_transformer.after_import import AwaitedImport, after_import


@pytest.fixture
def acts(tmp_path, monkeypatch):
    """What was seen of a module `awaited_module` each time that something acted on its import."""
    (tmp_path / "awaited_module.py").write_text("written = 'its own code has run'")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    seen = []

    def act():
        seen.append(sys.modules["awaited_module"].written)

    yield lambda: after_import("awaited_module", act), seen
    sys.modules.pop("awaited_module", None)


def waiting():
    return [one for one in sys.meta_path if isinstance(one, AwaitedImport)]


def test_it_acts_after_the_import_and_only_once(acts):
    wait, seen = acts
    before = waiting()
    wait()
    assert seen == []

    module = importlib.import_module("awaited_module")
    importlib.reload(module)

    assert seen == ["its own code has run"]
    assert waiting() == before
    assert not isinstance(module.__spec__.loader, AwaitedImport)


def test_it_acts_at_once_where_the_module_is_there(acts):
    wait, seen = acts
    importlib.import_module("awaited_module")

    wait()

    assert seen == ["its own code has run"]


def test_a_look_whether_the_module_exists_is_no_import(acts):
    wait, seen = acts
    wait()

    assert importlib.util.find_spec("awaited_module") is not None
    assert seen == []
    importlib.import_module("awaited_module")

    assert seen == ["its own code has run"]


def test_two_may_wait_for_one_module(acts):
    wait, seen = acts
    wait()
    wait()

    importlib.import_module("awaited_module")

    assert len(seen) == 2


def test_a_module_that_does_not_exist_is_not_found(acts):
    after_import("no_such_module", pytest.fail)

    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module")
