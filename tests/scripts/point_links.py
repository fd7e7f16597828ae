"""Points the links in docs/*.md at the lines they speak of: [`Name`](), [`Class.method`]().

`python tests/scripts/point_links.py` rewrites the files: `make docs`.
"""

import ast
import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
FOLDERS = ("vanilla_transformer", "training", "tokenizer")
LINK = re.compile(r"\[`([\w.]+)`\]\((?:|\.\./[\w/]+\.py#L\d+)\)")


def definitions():
    """Where each name is defined: `Class`, `Class.method`, `function`, `CONSTANT`."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((REPOSITORY / folder).glob("*.py")):
            place = path.relative_to(REPOSITORY).as_posix()
            for name, line in _names(ast.parse(path.read_text(encoding="utf-8")).body):
                found.setdefault(name, []).append(f"../{place}#L{line}")
    return found


def _names(body, prefix=""):
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and not prefix:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((one.id, node.lineno) for one in targets if isinstance(one, ast.Name))
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield prefix + node.name, node.lineno
            if isinstance(node, ast.ClassDef):
                yield from _names(node.body, f"{node.name}.")


def pointed(text, places):
    """The text with every link at its place; a name must be defined once."""

    def place(match):
        name = match[1]
        if len(places.get(name, ())) != 1:
            raise ValueError(f"{name} must be defined once, found {places.get(name)}")
        return f"[`{name}`]({places[name][0]})"

    return LINK.sub(place, text)


if __name__ == "__main__":
    places = definitions()
    for path in sorted(DOCS.glob("*.md")):
        path.write_text(pointed(path.read_text(encoding="utf-8"), places), encoding="utf-8")
