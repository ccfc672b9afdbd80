"""KVP011: the stated release does not have the flag."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.checks.case import Case
from kvplan.checks.finding import Severity
from kvplan.checks.registry import Hit, check
from kvplan.errors import near
from kvplan.manifests.flags import table


@check("KVP011", "unknown-flag", Severity.ERROR, needs_plan=False)
def rule(case: Case) -> Iterator[Hit]:
    """The stated release of the engine does not have the flag.

    The server exits with "unrecognized arguments". Known are the flags of one release of each engine; for any other
    release, for an image without one, and for workers with flags of their own the rule is silent.

    Bad: `--swap-space 16` with `vllm/vllm-openai:v0.33.0`, which dropped it.
    Good: the same without the flag.
    Fix: the flag that is meant, where one is near.
    """
    found = case.deployment
    known = table(found.engine)
    stated = case.release
    if known is None or stated is None or not found.pure or not _same(found.engine, stated, known.release):
        return
    for argument in found.arguments.values():
        if not argument.known and argument.flag.startswith("--"):
            hint = near(argument.flag, [flag for flag in known.flags if flag.startswith("--")])
            message = f"{argument.flag} is no flag of {found.engine} {stated}"
            yield Hit(argument.place, message, hint or "remove it")


def _same(engine: str, stated: str, known: str) -> bool:
    """Say whether two releases have the same flags: patches of vLLM add none, SGLang's third number is no patch."""
    parts = 2 if engine == "vllm" else 3
    return stated.split(".")[:parts] == known.split(".")[:parts]
