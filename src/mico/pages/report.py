"""One page on many runs: what was run, the scores, the curves, the figures, and how to run it again."""

import base64
from dataclasses import dataclass
from typing import Any

from mico.evidence.sheets import Sheet
from mico.pages.assembly import assembled, stored
from mico.pages.markup import Markup, element, joined, listed, table

_SCRIPTS = ("report_curves.js", "report.js")
_WIDE = 620  # pixels of a figure that gets a line of its own


@dataclass(frozen=True)
class Picture:
    """A figure as PNG, and the stem of its files."""

    stem: str
    caption: str
    png: bytes


@dataclass(frozen=True)
class Again:
    """How to run a fleet again: all at once where one command can, and each run alone."""

    name: str
    facts: tuple[str, ...]
    together: str | None
    alone: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Report:
    """All that the page shows; sentences say what to know first, what is missing and why, and what has no figure.

    Scores come first if they are to lead, and there is no section of curves unless `has_curves`.
    `command` makes the report again; there is none for tables in memory.
    """

    title: str
    about: str
    first: tuple[str, ...]
    missing: tuple[str, ...]
    ran: tuple[Sheet, ...]
    scores: tuple[Sheet, ...]
    unscored: tuple[str, ...]
    curves: dict[str, Any]
    has_curves: bool
    pictures: tuple[Picture, ...]
    undrawn: tuple[str, ...]
    scores_lead: bool
    again: tuple[Again, ...]
    command: str | None
    method: str


def report_page(report: Report) -> str:
    """The page, with all that it shows inside."""
    scores = {"scores": ("Scores", joined((*map(_table, report.scores), listed(report.unscored))))}
    sections = {
        **(scores if report.scores_lead else {}),
        "ran": ("What was run", _ran(report)),
        **({"curves": ("Curves", Markup(stored("report_curves.html")))} if report.has_curves else {}),
        **scores,
        "figures": ("Figures", _figures(report)),
        "again": ("How to run it again", _again(report)),
    }
    return assembled(
        "report",
        _SCRIPTS,
        report.curves,
        title=report.title,
        kind="report on runs",
        about=element("span", report.about),
        contents=joined(element("a", name, href=f"#{key}") for key, (name, _) in sections.items()),
        sections=joined(
            element("section", element("h2", name), inside, id=key) for key, (name, inside) in sections.items()
        ),
        first=_first(report),
        method=element("span", report.method),
    )


def _first(report: Report) -> Markup:
    if not report.first:
        return Markup()
    return element("aside", *(element("p", note) for note in report.first), class_="card first", id="first")


def _ran(report: Report) -> Markup:
    said = element("div", element("h3", "Missing or left out"), listed(report.missing), class_="warning", id="missing")
    return joined((said if report.missing else Markup(), *map(_table, report.ran)))


def _table(sheet: Sheet) -> Markup:
    shown = table(sheet.name, sheet.caption, sheet.heads, sheet.rows, labels=sheet.labels)
    return element("details", element("summary", sheet.caption), shown, class_="card") if sheet.folded else shown


def _figures(report: Report) -> Markup:
    return joined((element("div", *map(_figure, report.pictures), class_="figures"), listed(report.undrawn)))


def _figure(picture: Picture) -> Markup:
    # The header of a PNG tells its width in pixels, here 150 to an inch; a page has 96.
    width = round(int.from_bytes(picture.png[16:20]) * 96 / 150)
    source = f"data:image/png;base64,{base64.b64encode(picture.png).decode()}"
    # An image has no end tag, which is all that `element` would add to it.
    image = Markup(str(element("img", src=source, alt=picture.caption, width=str(width))).removesuffix("</img>"))
    files = element("code", f"{picture.stem}.png, .pdf, .csv")
    caption = element("figcaption", picture.caption, " Files: ", files)
    kind = "wide" if width > _WIDE else "narrow"
    return element("figure", element("div", image, class_="sheet"), caption, class_=kind)


def _again(report: Report) -> Markup:
    made = [] if report.command is None else [element("h3", "This report"), element("pre", report.command)]
    return joined((*made, *_trained(report)))


def _trained(report: Report) -> tuple[Markup, ...]:
    if not report.again:
        return (element("p", "These results come from tables: how they were made is not known here."),)
    note = (
        "Every field is written out, so that no preset matters. Runs of a fleet may be one program, whose rounding is "
        "not that of single runs: the same numbers need the same fleet, versions and kind of device."
    )
    fleets = element(
        "div", *map(_fleet, report.again), class_="fleets", tabindex="0", role="region", aria_label="Fleets"
    )
    return element("p", note), fleets


def _fleet(again: Again) -> Markup:
    parts = [element("summary", f"{again.name}: {len(again.alone)} run{'s' * (len(again.alone) != 1)}")]
    parts.append(listed(again.facts))
    if again.together is not None:
        parts.append(joined((element("h3", "The fleet"), element("pre", again.together))))
    else:
        parts.append(element("p", "No single command makes this fleet; these make its runs one by one."))
    alone = [joined((element("h3", name), element("pre", line))) for name, line in again.alone]
    parts.append(element("details", element("summary", "Each run alone"), *alone))
    return element("details", *parts, class_="card fleet")
