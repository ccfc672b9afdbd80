"""KVP011: the stated release does not have the flag."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.checks.case import Case
from kvplan.checks.finding import Severity
from kvplan.checks.registry import Hit, check
from kvplan.errors import near
from kvplan.manifests.argv import Argument
from kvplan.manifests.flag_history import history
from kvplan.manifests.flags import Table, table


@check("KVP011", "unknown-flag", Severity.ERROR, needs_plan=False)
def rule(case: Case) -> Iterator[Hit]:
    """The stated release of the engine does not have the flag.

    The server exits with "unrecognized arguments". Of vLLM the flags of 30 releases from 0.8 on are known, and a
    release between two of them that differ is not judged; of the other engines those of one release. Without a stated
    release, or for one that is not known, the rule names only a flag that is one letter away from a known one, and as a
    warning. It is silent for workers with flags of their own.

    Bad: `--swap-space 16` with `vllm/vllm-openai:v0.33.0`, which dropped it.
    Good: the same without the flag.
    Fix: the flag that is meant, where one is near.
    """
    found = case.deployment
    known = table(found.engine)
    if known is None or not found.pure:
        return
    names = [flag for flag in known.flags if flag.startswith("--")]
    for argument in found.arguments.values():
        if not argument.flag.startswith("--"):
            continue
        lacking, near_names = _lacking(found.engine, case.release, argument, known)
        if lacking:
            yield Hit(argument.place, f"{argument.flag} {lacking}", near(argument.flag, near_names) or "remove it")
            continue
        if lacking is None and not argument.known:
            meant = next((name for name in names if _one_letter_off(argument.flag, name)), None)
            if meant is not None:
                message = f"{argument.flag} is no flag of {found.engine} {known.release}, but one letter away from one"
                yield Hit(argument.place, message, f"did you mean {meant}", "medium", Severity.WARNING)


def _lacking(engine: str, release: str | None, argument: Argument, known: Table) -> tuple[str | None, list[str]]:
    """Return why the stated release lacks a flag ("": it has it, None: nobody can say), and the flags that it has."""
    if release is None:
        return None, []
    if _same(engine, release, known.release):
        return "" if argument.known else f"is no flag of {engine} {release}", list(known.flags)
    if engine == "vllm" and history().holds(release):
        return history().lacks(argument.flag, release), history().near(release)
    return None, []


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
