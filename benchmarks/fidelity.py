"""Predicted beside printed: what public vLLM start-up logs say, and what kvplan says of the same launches.

    python benchmarks/fidelity.py [--rows]

Prints the error of the line "Available KV cache memory", whether the intervals hold, the error of models that the
fitted constants have not seen, the printed tokens, and the refusals. tests/golden/vllm_logs.jsonl holds the logs'
figures, each with its public source; where kvplan has no config of the very model, one of the same geometry stands in
and the log's own weight figure is given.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kvplan
from kvplan.engine.vllm.releases import release
from kvplan.units import GIB

LOGS = Path(__file__).parent.parent / "tests" / "golden" / "vllm_logs.jsonl"
HALF = 0.005  # GiB, half of the last printed digit


@dataclass(frozen=True)
class Case:
    """One log beside its plan; GiB."""

    name: str
    model: str
    bucket: tuple[str, str]
    printed: dict[str, float]
    predicted: float
    low: float
    high: float
    non_torch: float

    @property
    def error(self) -> float:
        """How far off, as a part of what was printed."""
        return abs(self.predicted / self.printed["kv_gib"] - 1)

    def holds(self, moved: float = 0.0) -> bool:
        """Say whether the interval, moved by so many GiB, holds what was printed."""
        return self.low + moved - HALF <= self.printed["kv_gib"] <= self.high + moved + HALF


def rows() -> list[dict[str, Any]]:
    """Return the logs' figures."""
    return [json.loads(line) for line in LOGS.read_text(encoding="utf-8").splitlines()]


def planned(row: dict[str, Any], **more: Any) -> kvplan.Plan:
    """Return the plan of a log's launch."""
    flags = dict(row["flags"])
    if row.get("weights_from_log") and "load_gib" in row["printed"]:
        flags["weights"] = f"{row['printed']['load_gib']} GiB"
    if row.get("cold"):
        flags["cold"] = True
    return kvplan.plan(row["model"], engine=f"vllm@{row['release']}", gpu=row["gpu"], **flags | more)


def pools() -> list[Case]:
    """Return the logs that say everything which decides the pool."""
    found = []
    for row in rows():
        printed = row["printed"]
        whole = row["gpu"] and "gpu_memory_utilization" in row["flags"] and printed.get("kv_gib", 0) > 0
        if row["kind"] == "refused" or not whole or (row.get("weights_from_log") and "load_gib" not in printed):
            continue
        plan = planned(row)
        pool = next(line for line in plan.budget.lines if line.name == "kv_cache")
        outside = next(line for line in plan.budget.lines if line.name == "non_torch")
        ranks = row["flags"].get("tensor_parallel_size", 1) > 1
        kind = "large" if plan.gpu and (plan.gpu.compute_capability or (0, 0))[0] in (9, 10) else "small"
        bucket = (since(row["release"]), f"{kind}_{'several' if ranks else 'one'}")
        figures = (pool.bytes, pool.low, pool.high, outside.bytes)
        name = f"{row['release']:<7} {row['gpu']:<16} {row.get('printed_model', row['model'])}"
        found.append(Case(name, row["model"], bucket, printed, *(figure / GIB for figure in figures)))
    return found


def since(version: str) -> str:
    """Return the key of the profile's residue section that a release falls under."""
    keys = ["0.8", "0.9", "0.11", "0.18", "0.27"]
    held = [key for key in keys if tuple(map(int, key.split("."))) <= release(version).number]
    return held[-1]


def left_out(cases: Sequence[Case]) -> list[tuple[Case, float]]:
    """Return each case with the shift of its prediction when its model's logs have no say in the fitted residue.

    Residue is the one term that was fitted on these logs: a median by era, kind of card and one rank or several. Where
    no other model's log is left, the era before stands in.
    """
    found = []
    for case in cases:
        others = [
            other.printed["non_torch_gib"]
            for other in cases
            if other.bucket == case.bucket and other.model != case.model and "non_torch_gib" in other.printed
        ]
        if others:
            value = statistics.median(others)
        elif case.bucket[0] == "0.27":  # weights and residue are printed as one: the profile's figure stays
            value = case.non_torch
        else:
            eras = ["0.8", "0.9", "0.11", "0.18"]
            before = eras[max(0, eras.index(case.bucket[0]) - 1)]
            value = release(f"{before}.0").non_torch[case.bucket[1]]["gib"][0]
        found.append((case, case.non_torch - value))
    return found


def tokens() -> tuple[int, list[str]]:
    """Return how many logs' tokens and concurrency some pool that prints as theirs gives exactly, and the others."""
    right, wrong = 0, []
    for row in rows():
        printed = row["printed"]
        if row["kind"] == "refused" or "kv_gib" not in printed or not {"tokens", "concurrency"} & printed.keys():
            continue
        if row["flags"].get("pipeline_parallel_size", 1) > 1:
            continue  # the first stage prints its pool, another one sets the block count
        if any(figures_match(printed, plan) for plan in candidates(row)):
            right += 1
        else:
            wrong.append(f"{row['release']} {row['gpu']} {row.get('printed_model', row['model'])}")
    return right, wrong


def candidates(row: dict[str, Any]) -> Iterable[kvplan.Plan]:
    """Yield a plan for each block count that prints as the log's GiB."""
    gib = row["printed"]["kv_gib"]
    card = row["gpu"] or "h100-sxm"
    low, high = (planned(row | {"gpu": card}, kv_cache_memory_bytes=round((gib + end) * GIB)) for end in (-HALF, HALF))
    if low.kv.num_blocks is None or high.kv.num_blocks is None or low.kv.bytes_per_block is None:
        return
    for blocks in range(low.kv.num_blocks, high.kv.num_blocks + 1):
        yield planned(row | {"gpu": card}, kv_cache_memory_bytes=blocks * low.kv.bytes_per_block)


def figures_match(printed: dict[str, float], plan: kvplan.Plan) -> bool:
    """Say whether the printed tokens and concurrency are the plan's, to their last digit."""
    same_tokens = printed.get("tokens") in (None, plan.kv.tokens)
    concurrency = printed.get("concurrency")
    return same_tokens and (concurrency is None or abs((plan.kv.max_concurrency or 0) - concurrency) <= HALF + 1e-9)


def refusals() -> tuple[int, int, list[str]]:
    """Return how many refused launches are refused by the plan with what was available, of how many, and the errors."""
    right, total, told = 0, 0, []
    for row in rows():
        if row["kind"] != "refused":
            continue
        total += 1
        gib, needed = row["printed"].get("kv_gib"), row["printed"].get("needed_gib")
        card = row["gpu"] or "h100-sxm"
        given = {} if gib is None or gib < 0 else {"kv_cache_memory_bytes": round(gib * GIB)}
        plan = planned(row | {"gpu": card}, **given)
        have = (plan.kv.sequence_bytes or 0) / GIB
        right += plan.verdict == "refused" and (needed is None or abs(have / needed - 1) <= 0.01)
        name = row.get("printed_model", row["model"])
        told.append(f"{row['release']:<7} {name}: {plan.verdict}, needs {have:.2f} GiB"
                    + (f" (printed {needed:.2f})" if needed else ""))  # fmt: skip
    return right, total, told


def spread(errors: Sequence[float]) -> str:
    """Return the median, the ninth decile and the worst."""
    ordered = sorted(errors)
    return (
        f"median {statistics.median(ordered):.2%}, 90 % {ordered[int(0.9 * len(ordered))]:.2%},"
        f" worst {ordered[-1]:.2%} of {len(ordered)}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", action="store_true", help="print every log")
    options = parser.parse_args()
    cases = pools()
    if options.rows:
        for case in sorted(cases, key=lambda one: one.error):
            told = "" if case.holds() else "  outside of the interval"
            print(f"{case.name:<88} {case.printed['kv_gib']:>7.2f} {case.predicted:>7.2f} {case.error:>7.2%}{told}")
    print(f"available KV memory    {spread([case.error for case in cases])}")
    held = [(case, moved) for case, moved in left_out(cases)]
    lost = [abs((case.predicted + moved) / case.printed["kv_gib"] - 1) for case, moved in held]
    print(f"with the model left out {spread(lost)}")
    inside = sum(case.holds(moved) for case, moved in held)
    print(f"inside the interval    {inside} of {len(held)} ({inside / len(held):.0%})")
    right, wrong = tokens()
    print(f"tokens and concurrency {right} of {right + len(wrong)} exact{': not ' + '; '.join(wrong) if wrong else ''}")
    refused, total, told = refusals()
    print(f"refusals               {refused} of {total} predicted, with the GiB needed within 1 %")
    for line in told if options.rows else ():
        print(f"  {line}")


if __name__ == "__main__":
    main()
