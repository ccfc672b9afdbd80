"""A deployment with all that rules look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from kvplan.errors import RefusedValue
from kvplan.hardware import Gpu
from kvplan.manifests.deployment import Deployment
from kvplan.model.spec import ModelSpec
from kvplan.planner import Plan

# Plans a deployment with other arguments; None where they are none that the engine takes
Replan: TypeAlias = Callable[[Mapping[str, Any]], Plan | None]


def no_plan(_changes: Mapping[str, Any]) -> None:
    """Return no plan: of what has none as it is, nothing is planned with other arguments."""


NOT_KNOWN = frozenset({"release_assumed", "release_not_read"})  # a planner's warnings, by their codes


@dataclass(frozen=True, slots=True)
class Promise:
    """The load that kvplan.yaml promises: requests at once, each of so many tokens (None: of the longest length)."""

    concurrency: int
    tokens: int | None


@dataclass(frozen=True, slots=True)
class Case:
    """A deployment, the card, the GPUs of one pod, the plan, and what the lock says of it.

    `file` is the path of its file from the folder of kvplan.lock; `references` are the models that planning asked for.
    `gpu` is None where no card is named, or none that kvplan plans: `named_card` is the name.
    Without a plan, `unplanned` says why: `engine`, `model`, or in words; `refused` is a flag's value that the engine
    would not take. `guessed` lists what was assumed on the way to the plan (a release, a card that a name is one of
    several for); `promised` is the plan at the promised length. `promise`, `locked` and `lock_version` are None where
    nothing is promised or locked; `release` is the engine's, as the image or the settings state it.
    """

    deployment: Deployment
    file: str
    references: frozenset[str]
    gpu: Gpu | None
    named_card: str | None
    gpus: int | None
    spec: ModelSpec | None
    plan: Plan | None
    unplanned: str | None = None
    guessed: tuple[str, ...] = ()
    promise: Promise | None = None
    promised: Plan | None = None
    locked: Mapping[str, Any] | None = None
    lock_version: str | None = None
    release: str | None = None
    reachable: bool = True
    refused: RefusedValue | None = None
    replan: Replan = no_plan

    @property
    def key(self) -> str:
        """The deployment's name in kvplan.lock, the same from every folder."""
        return f"{self.file}::{self.deployment.where}"

    @property
    def is_fully_planned(self) -> bool:
        """Whether it is known if the engine would start: a given pool alone does not say that the weights fit."""
        verdict = self.plan.verdict if self.plan is not None else None
        return verdict == "refused" or (verdict == "fits" and self.gpu is not None)

    @property
    def unknown_release(self) -> str | None:
        """The release that is stated, where the engine is planned as another one."""
        codes = {note.code for note in self.plan.warnings} if self.plan is not None else set()
        return self.release if codes & NOT_KNOWN else None

    @property
    def totals(self) -> dict[str, Any] | None:
        """The figures of the plan that a lock keeps and a diff compares; None without a plan."""
        if self.plan is None:
            return None
        plan, kv = self.plan, self.plan.kv
        concurrency = kv.max_concurrency
        return {
            "engine": f"{plan.engine}@{plan.engine_version}",
            "model": plan.model.id,
            "gpu": plan.gpu.name if plan.gpu is not None else None,
            "gpus": plan.gpu_count,
            "weights_bytes_per_rank": plan.weights_per_rank,
            "kv_bytes": plan.budget.kv_bytes,
            "bytes_per_token": kv.bytes_per_token,
            "tokens": kv.tokens,
            "max_concurrency": round(concurrency, 2) if concurrency is not None else None,
            "max_model_len": kv.max_model_len,
            "verdict": plan.verdict,
            "reasons": [note.code for note in plan.reasons],
        }
