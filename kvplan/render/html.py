"""A picture as ONE file: no network, no script, no font of its own; it can be mailed, printed and opened on a phone."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.render.html_figures import curve_key, curves_figure, memory_figure
from kvplan.render.html_markup import element, text
from kvplan.render.html_style import style_sheet
from kvplan.render.palette import part_label, role
from kvplan.render.picture import MAX_BARS, MAX_CURVES, Bar, Curve, Fact, Picture
from kvplan.units import gib

# a second lock beside the tests: a browser that honours it loads nothing, whatever is in the file
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def html_page(picture: Picture) -> str:
    """Return the whole document."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="color-scheme", content="light dark"),
        element("title", text(f"{picture.title}, planned by kvplan")),
        element("style", style_sheet()),
    )
    return f"<!doctype html>\n{element('html', head, element('body', element('main', *_body(picture))), lang='en')}\n"


def _body(picture: Picture) -> list[str]:
    from kvplan import __version__  # noqa: PLC0415  # kvplan imports its commands, and they this

    bars, curves = picture.bars[:MAX_BARS], [curve for curve in picture.curves if curve.points][:MAX_CURVES]
    return [
        element("h1", text(picture.title)),
        element("p", text(picture.subtitle), class_="quiet"),
        _verdict(picture),
        element("dl", *map(_fact, picture.facts), class_="facts") if picture.facts else "",
        _memory(bars, hidden=len(picture.bars) - len(bars)) if bars else "",
        _curves(curves, cards=max(len(picture.bars), len(picture.curves))) if curves else "",
        *(_table(title, header, rows) for title, header, rows in picture.tables if rows),
        _notes(picture.notes) if picture.notes else "",
        _explanation(picture.explanation) if picture.explanation else "",
        element("footer", text(f"kvplan {__version__}; ~ marks an estimate, or a setting that was assumed")),
    ]


def _verdict(picture: Picture) -> str:
    if not picture.verdict:
        return ""
    word = {True: "\N{CHECK MARK} fits", False: "\N{BALLOT X} refused", None: ""}[picture.fits]
    first, *rest = picture.verdict
    lead = element("b", text(word)) + ": " if word else ""
    lines = [element("p", lead, text(first)), *(element("p", text(line), class_="quiet") for line in rest)]
    return element("div", *lines, class_=f"verdict {'' if picture.fits is None else word.split()[1]}".rstrip())


def _fact(fact: Fact) -> str:
    return element(
        "div",
        element("dt", text(fact.name)),
        element("dd", text(fact.value), class_="value", data_figure=fact.name),
        element("dd", text(fact.meaning), class_="meaning"),
    )


def _memory(bars: Sequence[Bar], *, hidden: int) -> str:
    more = element("p", text(f"{hidden} more are in the table below"), class_="quiet") if hidden else ""
    table = _ledger(bars[0]) if len(bars) == 1 else _key(bars)
    figure = element("figure", memory_figure(bars), class_="memory")
    return element("section", element("h2", "Memory of one GPU"), figure, more, table)


def _ledger(bar: Bar) -> str:
    rows = [
        (_named(part.name), f"{gib(part.bytes, 2)}{' ~' if part.estimated else ''}", text(part.why))
        for part in bar.parts
    ]
    free = bar.memory - sum(part.bytes for part in bar.parts)
    rows.append(("free", gib(free, 2), "outside of the engine's budget") if free >= 0 else ("short", gib(-free, 2), ""))
    body = [
        element("tr", element("td", name), element("td", size, class_="number"), element("td", why, class_="quiet"))
        for name, size, why in rows
    ]
    return _scrolled(("in order", "size", "from"), body, right=frozenset({1}))


def _key(bars: Sequence[Bar]) -> str:
    """Name the parts of several bars; their figures are in the bars' titles and in the table of cards."""
    seen = dict.fromkeys(part.name for bar in bars for part in bar.parts)
    hatched = "hatched parts are estimates" if any(part.estimated for bar in bars for part in bar.parts) else ""
    named = [element("li", _named(name)) for name in seen]
    return element("ul", *named, element("li", hatched, class_="quiet") if hatched else "", class_="key")


def _named(part: str) -> str:
    return element("span", class_=f"swatch fill-{role(part)}") + text(part_label(part))


def _curves(curves: Sequence[Curve], *, cards: int) -> str:
    requests = curves_figure(curves, "Requests at once, by context length", "requests", lambda point: point.requests)
    tokens = curves_figure(curves, "Tokens in the pool, by context length", "tokens", lambda point: point.tokens)
    figures = [
        element("figure", element("h3", "Requests at once"), requests),
        element("figure", element("h3", "Tokens in the pool"), tokens),
    ]
    key = [element("li", curve_key(index), text(curve.label)) for index, curve in enumerate(curves)]
    some = text(f"{len(curves)} of {cards} cards; a length that the engine would refuse has no point")
    return element(
        "section",
        element("h2", "What it holds, by context length"),
        element("div", *figures, class_="pair"),
        element("ul", *key, class_="key"),
        element("p", some, class_="quiet") if len(curves) < cards else "",
    )


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    right = frozenset(
        column for column in range(1, len(header)) if all(row[column][:1] in "-0123456789" for row in rows)
    )
    body = [
        element(
            "tr",
            *(element("td", text(cell), class_="number" if i in right else None) for i, cell in enumerate(row)),
        )
        for row in rows
    ]
    return element("section", element("h2", text(title.capitalize())), _scrolled(header, body, right=right))


def _scrolled(header: Sequence[str], body: Sequence[str], *, right: frozenset[int]) -> str:
    """Return a table that scrolls by itself where the screen is too narrow, and that a keyboard can scroll."""
    cells = [
        element("th", text(cell), scope="col", class_="number" if i in right else None) for i, cell in enumerate(header)
    ]
    table = element("table", element("thead", element("tr", *cells)), element("tbody", *body))
    return element("div", table, class_="scroll", tabindex=0, role="group", aria_label="table")


def _notes(notes: Sequence[str]) -> str:
    items = [element("li", text(note)) for note in notes]
    return element("section", element("h2", "Notes"), element("ul", *items, class_="notes"))


def _explanation(lines: Sequence[str]) -> str:
    summary = element("summary", "How the cache comes about")
    return element("details", summary, element("pre", _joined(lines)))


def _joined(lines: Sequence[str]) -> str:
    """Return lines as markup, each escaped by itself so that the breaks between them stay."""
    return "\n".join(text(line) for line in lines)
