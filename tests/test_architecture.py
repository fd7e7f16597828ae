"""The house rules of STYLE.md, section 1, enforced by reading imports, names and line counts.

Every rule is a function from source text, or from file names, to a list of complaints. It is first
shown bad samples, so that a rule which can no longer fail is noticed, and then the repository.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "vanilla_transformer"
WORKSHOP = (ROOT / "training", ROOT / "tokenizer")
PYTHON_FOLDERS = (PACKAGE, *WORKSHOP, ROOT / "benchmarks", ROOT / "space", ROOT / "tests")

SHELF_PREFIXES = (
    "configuration_",
    "attention_scores",
    "position_encodings",
    "modeling_",
    "generation_",
    "tokenization_",
    "pipeline_",
)
SHELF_LIBRARIES = {"torch", "transformers", "huggingface_hub"}
HIDDEN_LIBRARIES = {"datasets", "evaluate", "tokenizers", "accelerate", "inspect", "logging"}
NAMELESS_JOBS = {"utils", "helpers", "common"}
# How transformers finds the siblings that a model file needs: in the text, so in docstrings too.
RELATIVE_IMPORT_LINE = re.compile(r"^\s*(?:from\s+\.\S+\s+import|import\s+\.\S+\s*$)")


class Import(NamedTuple):
    """One import statement, and whether it stands inside a function or a `try`."""

    node: ast.Import | ast.ImportFrom
    in_function: bool
    in_try: bool

    @property
    def is_relative(self) -> bool:
        return isinstance(self.node, ast.ImportFrom) and self.node.level > 0

    @property
    def roots(self) -> set[str]:
        """Top-level names of the absolute imports: `import torch.nn` -> {"torch"}."""
        if self.is_relative:
            return set()
        if isinstance(self.node, ast.ImportFrom):
            return {self.node.module.split(".")[0]}
        return {alias.name.split(".")[0] for alias in self.node.names}

    @property
    def is_sibling(self) -> bool:
        """Whether it reads `from .sibling import Name`."""
        node = self.node
        return self.is_relative and node.level == 1 and bool(node.module) and "." not in node.module


def imports_of(
    node: ast.AST, *, in_function: bool = False, in_try: bool = False
) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield Import(child, in_function, in_try)
        else:
            yield from imports_of(
                child,
                in_function=in_function
                or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda),
                in_try=in_try or isinstance(child, ast.Try),
            )


def foreign_imports(source: str) -> list[str]:
    """Shelf: torch, transformers, huggingface_hub, the standard library; `try` may attempt more."""
    allowed = SHELF_LIBRARIES | sys.stdlib_module_names
    return [
        f"line {found.node.lineno} imports {root}: a published folder would need it too"
        for found in imports_of(ast.parse(source))
        for root in sorted(found.roots - allowed)
        if not found.in_try
    ]


def unloadable_local_imports(source: str) -> list[str]:
    """Shelf: the Hub flattens folders and follows only `from .sibling import Name`."""
    return [
        f"line {found.node.lineno}: write `from .sibling import Name`"
        for found in imports_of(ast.parse(source))
        if found.is_relative and not found.is_sibling
    ]


def lazy_imports(source: str) -> list[str]:
    """Shelf: nothing third-party is imported inside a function: the Hub demands it at once."""
    return [
        f"line {found.node.lineno} imports {root} inside a function: move it to the top"
        for found in imports_of(ast.parse(source))
        for root in sorted(found.roots - sys.stdlib_module_names)
        if found.in_function and not found.in_try
    ]


def imports_written_in_text(source: str) -> list[str]:
    """Shelf: a line of a docstring or string that begins like a local import is taken for one."""
    statements = {found.node.lineno for found in imports_of(ast.parse(source))}
    return [
        f"line {number} reads like a local import: {line.strip()!r}"
        for number, line in enumerate(source.splitlines(), start=1)
        if RELATIVE_IMPORT_LINE.match(line) and number not in statements
    ]


def workshop_imports(source: str) -> list[str]:
    """Package: whoever only holds a model has neither training/ nor tokenizer/."""
    workshop = {folder.name for folder in WORKSHOP}
    return [
        f"line {found.node.lineno} imports {root}/: the package never imports the workshop"
        for found in imports_of(ast.parse(source))
        for root in sorted(found.roots & workshop)
    ]


def lines_over(limit: int) -> Callable[[str], list[str]]:
    def complaints(source: str) -> list[str]:
        count = len(source.splitlines())
        return [f"{count} lines, at most {limit}: it is two files"] if count > limit else []

    return complaints


def hiding_names(names: list[str]) -> list[str]:
    """Workshop: run as a script, `training/datasets.py` would hide the library of that name."""
    return [f"{name}.py hides a library" for name in names if name in HIDDEN_LIBRARIES]


def nameless_jobs(names: list[str]) -> list[str]:
    return [f"{name}.py: name the job it does" for name in names if name in NAMELESS_JOBS]


def python_files(*folders: Path) -> list[Path]:
    """Every module below the folders, none where a folder is not built yet."""
    return sorted(file for folder in folders for file in folder.rglob("*.py"))


def shelf_files(package: Path) -> set[Path]:
    """The modules that travel with a model: named so, or imported by one that is."""
    shelf: set[Path] = set()
    waiting = [file for file in package.glob("*.py") if file.name.startswith(SHELF_PREFIXES)]
    while waiting:
        file = waiting.pop()
        shelf.add(file)
        imported = {
            package / f"{found.node.module}.py"
            for found in imports_of(ast.parse(file.read_text(encoding="utf-8")))
            if found.is_sibling
        }
        waiting.extend(imported - shelf)
    return shelf


def complaints_about(files: list[Path] | set[Path], rule: Callable[[str], list[str]]) -> list[str]:
    return [
        f"{file.relative_to(ROOT)}: {complaint}"
        for file in sorted(files)
        for complaint in rule(file.read_text(encoding="utf-8"))
    ]


SHELF_RULES = (foreign_imports, unloadable_local_imports, lazy_imports, imports_written_in_text)

BAD_SOURCES = [
    (foreign_imports, "import numpy"),
    (foreign_imports, "from accelerate.utils import set_seed"),
    (foreign_imports, "from vanilla_transformer.attention_scores import SCORES"),
    (foreign_imports, "def f():\n    import einops"),
    (unloadable_local_imports, "from . import attention_scores"),
    (unloadable_local_imports, "from ..attention_scores import SCORES"),
    (unloadable_local_imports, "from .scores.additive import Additive"),
    (lazy_imports, "def f():\n    import torch"),
    (lazy_imports, "class A:\n    async def f(self):\n        from transformers import pipeline"),
    (imports_written_in_text, '"""Example:\n\n    from .attention_scores import SCORES\n"""'),
    (workshop_imports, "from training.recipe import Recipe"),
    (workshop_imports, "def f():\n    import tokenizer.train"),
    (lines_over(2), "a = 1\nb = 2\nc = 3"),
]

GOOD_SOURCES = [
    *((rule, "import math\nimport torch.nn\nfrom .sibling import Name") for rule in SHELF_RULES),
    (foreign_imports, "try:\n    import sacremoses\nexcept ImportError:\n    sacremoses = None"),
    (lazy_imports, "def f():\n    import math"),
    (lazy_imports, "def f():\n    try:\n        import torch\n    finally:\n        pass"),
    (imports_written_in_text, '"""Use it as `from .attention_scores import SCORES` says."""'),
    (workshop_imports, "from transformers.training_args import TrainingArguments"),
    (lines_over(2), "a = 1\nb = 2"),
]


@pytest.mark.parametrize(("rule", "source"), BAD_SOURCES)
def test_every_rule_complains_about_a_bad_sample(rule, source):
    assert len(rule(source)) == 1


@pytest.mark.parametrize(("rule", "source"), GOOD_SOURCES)
def test_no_rule_complains_about_a_good_sample(rule, source):
    assert rule(source) == []


def test_what_a_shelf_file_imports_is_on_the_shelf_too(tmp_path):
    (tmp_path / "modeling_x.py").write_text("from .beams import Beam")
    (tmp_path / "beams.py").write_text("from .heaps import Heap")
    (tmp_path / "heaps.py").write_text("import heapq")
    (tmp_path / "cli.py").write_text("import typer")

    assert {file.stem for file in shelf_files(tmp_path)} == {"modeling_x", "beams", "heaps"}


def test_the_shelf_holds_at_least_a_configuration_and_a_model():
    names = {file.stem for file in shelf_files(PACKAGE)}

    assert {"configuration_vanilla_transformer", "modeling_vanilla_transformer"} <= names


@pytest.mark.parametrize("rule", SHELF_RULES)
def test_a_published_folder_loads_on_its_own(rule):
    assert complaints_about(shelf_files(PACKAGE), rule) == []


def test_shelf_files_lie_flat_in_the_package():
    nested = [file for file in PACKAGE.glob("*/**/*.py") if file.name.startswith(SHELF_PREFIXES)]

    assert nested == []


def test_the_package_never_imports_the_workshop():
    assert complaints_about(python_files(PACKAGE), workshop_imports) == []


def test_no_workshop_module_hides_a_library():
    assert hiding_names(["train", "datasets"]) == ["datasets.py hides a library"]
    assert hiding_names([file.stem for file in python_files(*WORKSHOP)]) == []


def test_every_module_is_named_after_its_job():
    assert nameless_jobs(["batching", "utils"]) == ["utils.py: name the job it does"]
    assert nameless_jobs([file.stem for file in python_files(*PYTHON_FOLDERS)]) == []


def test_no_file_is_too_long_to_read():
    modeling = {PACKAGE / "modeling_vanilla_transformer.py"} & set(python_files(PACKAGE))
    others = set(python_files(*PYTHON_FOLDERS)) - modeling

    assert complaints_about(modeling, lines_over(600)) == []
    assert complaints_about(others, lines_over(500)) == []
