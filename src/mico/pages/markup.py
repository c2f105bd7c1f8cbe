"""HTML of elements: every text is escaped, so that no name can be more than a name."""

import html
from collections.abc import Iterable, Sequence


class Markup(str):
    """HTML as it stands."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: str) -> Markup:
    """An element; children are escaped unless they are markup, and `class_` and `data_x` are class and data-x."""
    given = "".join(f' {key.strip("_").replace("_", "-")}="{html.escape(text)}"' for key, text in attributes.items())
    return Markup(f"<{name}{given}>{joined(children)}</{name}>")


def joined(children: Iterable[str]) -> Markup:
    """One after the other."""
    return Markup("".join(child if isinstance(child, Markup) else html.escape(child) for child in children))


def listed(sentences: Iterable[str]) -> Markup:
    """A list, an entry for each."""
    return element("ul", *(element("li", sentence) for sentence in sentences))


def table(
    identity: str, caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, labels: int = 1
) -> Markup:
    """A table that scrolls by itself where it is too wide; the first cells of a row, so many, are its labels."""
    top = element("tr", *(element("th", head, scope="col") for head in heads))
    lines = (
        element(
            "tr",
            *(element("th", cell, scope="row") for cell in row[:labels]),
            *(element("td", cell) for cell in row[labels:]),
        )
        for row in rows
    )
    inside = element("caption", element("span", caption)), element("thead", top), element("tbody", *lines)
    kind = f"labels-{labels}"
    return element(
        "div",
        element("table", *inside, id=identity, class_=kind),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=caption,
    )
