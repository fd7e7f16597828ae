"""Pieces of an HTML page. Text becomes HTML here and nowhere else, so all of it is escaped."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

VOID = ("img", "source")  # they have no content and no end


class Html(str):
    """A piece of a page, in which text is escaped already."""

    __slots__ = ()


def element(tag: str, *content: object, **attributes: str) -> Html:
    """Make an element: ("p", "1 < 2", lang="en") -> <p lang="en">1 &lt; 2</p>."""
    names = (name.strip("_").replace("_", "-") for name in attributes)
    told = (
        f' {name}="{escape(one)}"' for name, one in zip(names, attributes.values(), strict=True)
    )
    end = "" if tag in VOID else f"</{tag}>"
    return Html(f"<{tag}{''.join(told)}>{joined(content)}{end}")


def joined(pieces: Iterable[object]) -> Html:
    """Pieces one after another; what is not yet HTML is text."""
    return Html("".join(one if isinstance(one, Html) else escape(str(one)) for one in pieces))


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], look: str) -> Html:
    """A table that scrolls where the screen is narrow; `look` is "numbers" or "words"."""
    names = (element("th", name, scope="col") for name in head)
    body = (
        element(
            "tr",
            element("th", first, scope="row"),
            *(element("td", one) for one in others),
        )
        for first, *others in rows
    )
    whole = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *names)) if head else "",
        element("tbody", *body),
        class_=look,
    )
    return element("div", whole, class_="scroll")


def terms(pairs: Mapping[str, object], class_: str) -> Html:
    """A list of terms and what they are."""
    each = (element("div", element("dt", name), element("dd", one)) for name, one in pairs.items())
    return element("dl", *each, class_=class_)


def folded(summary: str, *content: object) -> Html:
    """What is shown only to who asks."""
    return element("details", element("summary", summary), *content)
