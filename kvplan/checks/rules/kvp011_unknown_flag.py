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

    The server exits with "unrecognized arguments". Known are the flags of one release of each engine. Of any other
    release, and of an image without one, the rule names only a flag that is one letter away from a known one, and as a
    warning: older releases had flags that the known one dropped. It is silent for workers with flags of their own.

    Bad: `--swap-space 16` with `vllm/vllm-openai:v0.33.0`, which dropped it.
    Good: the same without the flag.
    Fix: the flag that is meant, where one is near.
    """
    found = case.deployment
    known = table(found.engine)
    if known is None or not found.pure:
        return
    names = [flag for flag in known.flags if flag.startswith("--")]
    told = case.release is not None and _same(found.engine, case.release, known.release)
    for argument in found.arguments.values():
        if argument.known or not argument.flag.startswith("--"):
            continue
        if told:
            message = f"{argument.flag} is no flag of {found.engine} {case.release}"
            yield Hit(argument.place, message, near(argument.flag, names) or "remove it")
            continue
        meant = next((name for name in names if _one_letter_off(argument.flag, name)), None)
        if meant is not None:
            message = f"{argument.flag} is no flag of {found.engine} {known.release}, but one letter away from one"
            yield Hit(argument.place, message, f"did you mean {meant}", "medium", Severity.WARNING)


def _one_letter_off(one: str, other: str) -> bool:
    """Whether one letter put in, left out, exchanged or swapped with its neighbour makes one of the other."""
    start = _alike(one, other)
    one, other = one[start:], other[start:]
    end = _alike(one[::-1], other[::-1])
    one, other = one[: len(one) - end], other[: len(other) - end]
    return max(len(one), len(other)) <= 1 or (len(one) == len(other) == len("ab") and one == other[::-1])


def _alike(one: str, other: str) -> int:
    """Return how many letters two words begin with alike."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _same(engine: str, stated: str, known: str) -> bool:
    """Say whether two releases have the same flags: patches of vLLM add none, SGLang's third number is no patch."""
    parts = 2 if engine == "vllm" else 3
    return stated.split(".")[:parts] == known.split(".")[:parts]
