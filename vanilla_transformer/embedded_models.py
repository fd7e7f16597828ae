"""The models that come with the package: each is a folder in `embedded/`, and has its name."""

from pathlib import Path

EMBEDDED = Path(__file__).with_name("embedded")
DEFAULT_MODEL = "en-de-small"


def embedded(name: str = DEFAULT_MODEL) -> str:
    """The folder of a model that comes with the package; whatever loads folders takes it."""
    names = embedded_names()
    if name not in names:
        raise ValueError(
            "The name of an embedded model must be one of those that come with the package "
            f"({', '.join(names) or 'none'}), got {name!r}."
        )
    return str(EMBEDDED / name)


def embedded_names() -> list[str]:
    """What there is."""
    return sorted(file.parent.name for file in EMBEDDED.glob("*/config.json"))


def find_model(model: str) -> str:
    """The folder of an embedded model for its name; a folder of the caller's goes first."""
    is_ours = model in {DEFAULT_MODEL, *embedded_names()} and not Path(model).exists()
    return embedded(model) if is_ours else model
