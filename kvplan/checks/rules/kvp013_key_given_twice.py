"""KVP013: a key of the manifest is given twice."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.checks.case import Case
from kvplan.checks.finding import Severity
from kvplan.checks.registry import Hit, check


@check("KVP013", "key-given-twice", Severity.WARNING, needs_plan=False)
def rule(case: Case) -> Iterator[Hit]:
    """A key of the manifest is given twice.

    YAML forbids equal keys in one mapping. `kubectl` and Docker Compose refuse such a file, other readers take the last
    value and drop the first without a word; so does the plan. The rule points at the later key.

    Bad: a container with two `args:`.
    Good: one list with the arguments of both.
    Fix: join the two, or remove one.
    """
    for each in case.deployment.repeated:
        yield Hit(
            each.place,
            f"the key {each.key[:40]!r} is given twice, first in line {each.first.line}: kubectl refuses that, others"
            " take the last",
            "join the two, or remove one",
        )
