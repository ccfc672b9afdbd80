"""A verification as text and as the JSON object of the contract (`kvplan schema verify`)."""

from __future__ import annotations

from typing import Any

from kvplan.model.describe import describe
from kvplan.render.text import short_name, two_ends, where
from kvplan.units import binary
from kvplan.verify.compare import MemoryLine, Result
from kvplan.verify.run import Verification
from kvplan.verify.steps import Decoded

_LABELS = {"cuda_graphs": "cuda graphs", "kv_cache": "kv cache", "non_torch": "non-torch", "post_load": "after load"}
_STEPS = ("step", "long step")


def verify_text(found: Verification) -> list[str]:
    """Return the lines of a report; the last is the verdict with the figure that decides."""
    result = found.decisive
    model = found.plan.model
    rehearsal = found.facts.rehearsal
    card = f"rehearsal on {found.facts.software}, planned for" if rehearsal else f"{found.facts.name}, planned as"
    lines = [*two_ends(f"{short_name(model)}   {describe(model)}", f"{card} {where(found.plan)}"), ""]
    lines += _table(result)
    lines += ["", *(f"  {line}" for line in [*_figures(result, rehearsal=rehearsal), *_group(found)])]
    lines += [f"  note: {note}" for note in _notes(found, result)]
    return [*lines, "", f"  {found.verdict}: {found.reason}"]


def _table(result: Result) -> list[str]:
    rows = [(_LABELS.get(line.name, line.name), binary(line.predicted), binary(line.measured), _judged(line))
            for line in result.lines]  # fmt: skip
    header = ("", "predicted", "measured", "")
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(3)]
    return [
        f"  {name:<{widths[0]}}  {predicted:>{widths[1]}}  {measured:>{widths[2]}}   {judged}".rstrip()
        for name, predicted, measured, judged in (header, *rows)
    ]


def _judged(line: MemoryLine) -> str:
    if line.basis == "given":
        return "given by the plan, held"
    if line.tolerance is None:
        return "as the driver says"
    if line.name == "total":  # what may be taken, not the sum of the lines
        return f"{'within' if line.ok else 'beyond'} the plan's share, give or take {binary(line.tolerance)}"
    return f"within {binary(line.tolerance)}" if line.ok else f"off by more than {binary(line.tolerance)}"


def _figures(result: Result, *, rehearsal: bool) -> list[str]:
    lines = [f"{'blocks':<11} {result.blocks:,}, filled and read back"]
    if result.worst_row is not None and result.bound is not None:
        lines.append(
            f"{'numerics':<11} worst row off by {result.worst_row:.1e} ({result.dtype}, bound {result.bound:.0e})"
        )
    speed = f"read {_rate(result.read_bandwidth)}, copy {_rate(result.copy_bandwidth)}"
    lines.append(f"{'bandwidth':<11} {speed}{' (the interpreter, no measure of a card)' if rehearsal else ''}")
    for name, step in zip(_STEPS, result.steps, strict=False):
        lines.append(f"{name:<11} {_step(step, rehearsal=rehearsal)}")
    return [*lines, f"{'left':<11} {binary(result.remaining)} of the card"]


def _rate(bandwidth: float) -> str:
    return f"{bandwidth / 1e12:.2f} TB/s" if bandwidth >= 1e11 else f"{bandwidth / 1e6:,.1f} MB/s"


def _step(step: Decoded, *, rehearsal: bool) -> str:
    who = (
        f"{step.requests:,} x {step.longest:,} tokens"
        if step.requests > 1
        else f"one request of {step.longest:,} tokens"
    )
    seconds = f"{step.timing.seconds * 1e3:,.2f} ms"
    if rehearsal:
        return f"{who}, {binary(step.read_bytes)} read"
    share = step.roofline / step.timing.seconds
    return f"{who}: {seconds}, roofline {step.roofline * 1e3:,.2f} ms ({share:.0%})"


def _group(found: Verification) -> list[str]:
    if len(found.results) > 1:
        told = "; ".join(f"rank {one.rank} {one.verdict}" for one in found.results)
        return [f"{'ranks':<11} {told}"]
    ranks = _ranks(found)
    return [f"{'ranks':<11} one rank's share of {ranks} is verified; torchrun verifies all"] if ranks > 1 else []


def _ranks(found: Verification) -> int:
    settings = found.plan.engine_settings
    return int(settings["tensor_parallel_size"] * settings["pipeline_parallel_size"])


def _notes(found: Verification, result: Result) -> list[str]:
    notes = list(result.notes)
    if found.quick:
        notes.append("--quick: one layer of each kind is filled and decoded, the rest of the pool is only held")
    if result.undecodable:
        notes.append(f"not decoded: {', '.join(result.undecodable)}; allocated, filled and read back all the same")
    if found.facts.rehearsal:
        notes.append("a rehearsal runs the code on a pool that is scaled down; it says nothing about a card")
        notes.append(f"planned for {found.plan.gpu.name if found.plan.gpu else 'no card'}: --gpu names another")
    return [*notes, found.aftermath.words()]


def verify_object(found: Verification) -> dict[str, Any]:
    """Return the object of `kvplan verify --format json`."""
    result, facts = found.decisive, found.facts
    gpu = found.plan.gpu
    return {
        "schema": 1,
        "rehearsal": facts.rehearsal,
        "quick": found.quick,
        "verdict": found.verdict,
        "reason": found.reason,
        "model": {"id": found.plan.model.id, "architecture": found.plan.model.architecture},
        "engine": {"name": found.plan.engine, "version": found.plan.engine_version, "args": found.plan.engine_settings},
        "gpu": {
            "name": facts.name,
            "chip": facts.chip,
            "memory_bytes": facts.memory.total,
            "planned_as": gpu.name if gpu is not None else None,
            "software": facts.software,
        },
        **_result_object(result),
        "ranks": [{"rank": one.rank, "verdict": one.verdict, **_result_object(one)} for one in found.results],
        "of_ranks": _ranks(found),
        "released": {"ended": found.aftermath.ended, "left_bytes": found.aftermath.left_bytes},
        "notes": _notes(found, result),
    }


def _result_object(result: Result) -> dict[str, Any]:
    steps = [
        {
            "requests": step.requests,
            "longest": step.longest,
            "read_bytes": step.read_bytes,
            "predicted_s": step.roofline,
            "measured_s": step.timing.seconds,
            "spread_s": step.timing.spread,
            "read_bandwidth": result.read_bandwidth,
            "copy_bandwidth": result.copy_bandwidth,
        }
        for step in result.steps
    ]
    return {
        "blocks": result.blocks,
        "lines": [
            {
                "name": line.name,
                "predicted_bytes": line.predicted,
                "measured_bytes": line.measured,
                "basis": line.basis,
                "tolerance": line.tolerance,
                "ok": line.ok,
            }
            for line in result.lines
        ],
        "numerics": None
        if result.worst_row is None
        else {"worst_row": result.worst_row, "bound": result.bound, "dtype": result.dtype},
        "step": steps[0] if steps else None,
        "long_step": steps[1] if len(steps) > 1 else None,
        "remaining_bytes": result.remaining,
        "undecodable": list(result.undecodable),
    }
