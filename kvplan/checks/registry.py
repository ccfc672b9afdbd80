"""The rules: one file each in rules/, found by name; a rule's docstring is its documentation."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TypeAlias

from kvplan.checks.case import Case
from kvplan.checks.finding import Certainty, Finding, Severity
from kvplan.errors import UsageError, near
from kvplan.manifests.tree import Place

_PACKAGE = "kvplan.checks.rules"
Body: TypeAlias = "Callable[[Case], Iterable[Hit]]"
_RULES: dict[str, Rule] = {}


@dataclass(frozen=True, slots=True)
class Hit:
    """What a rule says of a case: where, what, and the flag that mends it. `sure` lowers its confidence."""

    place: Place
    message: str
    fix: str = ""
    sure: Certainty = "high"
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule by its id: its name, its usual severity, what decides it, and what that rests on."""

    id: str
    name: str
    severity: Severity
    body: Body
    figures: bool = False
    needs_plan: bool = True

    @property
    def title(self) -> str:
        """The first line of its documentation."""
        return self.documentation.partition("\n")[0]

    @property
    def documentation(self) -> str:
        """Its docstring."""
        return inspect.getdoc(self.body) or ""

    def findings(self, case: Case) -> list[Finding]:
        """Return what it finds in a case."""
        found = case.deployment
        return [
            Finding(
                self.id,
                self.name,
                hit.severity if hit.severity is not None else self.severity,
                _lowered(hit.sure, case, figures=self.figures),
                found.file,
                hit.place,
                found.where,
                hit.message,
                hit.fix,
            )
            for hit in self.body(case)
        ]


def _lowered(sure: Certainty, case: Case, *, figures: bool) -> Certainty:
    guessed = len(case.guessed) if figures else 0
    if case.deployment.confidence == "heuristic" or guessed > 1:
        return "low"
    return "medium" if guessed and sure == "high" else sure


def check(
    rule: str, name: str, severity: Severity, *, figures: bool = False, needs_plan: bool = True
) -> Callable[[Body], Body]:
    """Register a rule under its id, KVP and three digits, and its name in words.

    `figures`: what it says rests on the plan's figures, which are less sure where a card or a release was assumed.
    `needs_plan`: without a plan it is silent.
    """

    def register(body: Body) -> Body:
        assert rule not in _RULES, f"{rule} is defined twice"
        _RULES[rule] = Rule(rule, name, severity, body, figures, needs_plan)
        return body

    return register


def rules() -> list[Rule]:
    """Return all rules in the order of their ids."""
    if not _RULES:
        package = import_module(_PACKAGE)
        for module in pkgutil.iter_modules(package.__path__):
            import_module(f"{_PACKAGE}.{module.name}")
    return [_RULES[rule] for rule in sorted(_RULES)]


def find_rule(name: str) -> Rule:
    """Return a rule by its id or its name; raises UsageError."""
    known = {key: rule for rule in rules() for key in (rule.id, rule.name)}
    found = known.get(name.upper()) or known.get(name.lower())
    if found is None:
        raise UsageError(f"no rule {name[:40]!r}", near(name, known) or "kvplan explain lists the rules")
    return found
