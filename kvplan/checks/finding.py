"""What a rule finds, and the report of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, TypeAlias

from kvplan.checks.case import Case
from kvplan.manifests.read import Problem
from kvplan.manifests.tree import Place

Certainty: TypeAlias = Literal["high", "medium", "low"]


class Severity(IntEnum):
    """How grave a finding is, in order."""

    NOTE = 0
    WARNING = 1
    ERROR = 2

    @property
    def word(self) -> str:
        """The word that outputs use."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a deployment: what, how sure, where, and the cheapest change that mends it."""

    rule: str
    name: str
    severity: Severity
    confidence: Certainty
    file: str
    place: Place
    deployment: str
    message: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What a run found. `paths` are those of the reported files from the root of the repository."""

    cases: tuple[Case, ...]
    findings: tuple[Finding, ...]
    problems: tuple[Problem, ...]
    files: int
    paths: Mapping[str, str] = field(default_factory=dict)

    @property
    def grave(self) -> bool:
        """Whether a file that matters could not be read."""
        return any(problem.grave for problem in self.problems)

    def worst(self) -> Severity | None:
        """Return the gravest severity, None without findings."""
        return max((finding.severity for finding in self.findings), default=None)

    def of(self, case: Case) -> list[Finding]:
        """Return the findings of one deployment."""
        return [
            finding
            for finding in self.findings
            if (finding.file, finding.deployment) == (case.deployment.file, case.deployment.where)
        ]

    def path(self, file: str) -> str:
        """Return a file's path from the root of the repository, with forward slashes."""
        return self.paths.get(file, file)
