"""A table of plain text: columns aligned, numbers to the right, two blanks between."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()) -> list[str]:
    """Return the lines of a table; `right` names the columns that are set to the right."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        set_ = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))]
        return ("  " + "  ".join(set_)).rstrip()

    return [line(header), *(line(row) for row in rows)]


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()
) -> list[str]:
    """Return the lines of a Markdown table."""
    rule = ["---:" if i in right else "---" for i in range(len(header))]
    return [f"| {' | '.join(_escaped(cell) for cell in cells)} |" for cells in (header, rule, *rows)]


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
