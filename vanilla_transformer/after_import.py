"""Runs a function as soon as a module has been imported: now, or when somebody needs it."""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def after_import(name: str, act: Callable[[], None]) -> None:
    """Call `act` once the module `name` is there, without importing it."""
    if name in sys.modules:
        act()
    else:
        sys.meta_path.insert(0, AwaitedImport(name, act))


class AwaitedImport(MetaPathFinder, Loader):
    """Finds one module in the usual way, and acts when its code has run."""

    def __init__(self, name: str, act: Callable[[], None]) -> None:
        self.name, self.act = name, act
        self.loader: Loader | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the finders behind it find, with this object in the place of its loader."""
        if name != self.name or self not in sys.meta_path:
            return None
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next((found for found in specs if found is not None), None)
        if spec is not None:
            self.loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        assert self.loader is not None
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Hand the module back to its own loader, run it, and act."""
        assert self.loader is not None
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self.act()
