"""Predicted beside printed: the plan of what a log says was started, line by line, and which line explains the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvplan.audit.log import StartLog
from kvplan.errors import UnreadableInput, UsageError
from kvplan.hardware import Gpu, gpus, parse_gpu
from kvplan.planner import Plan, plan
from kvplan.units import GIB

_PRINTED = 0.005  # GiB, half of the last digit that the engine prints
_SLACK = 3 * _PRINTED  # what printing rounds away of the pool and of what it is made of
_SIZES = ("kv cache", "tokens")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: predicted (between low and high) and printed; None where either is not known. GiB, or a count."""

    name: str
    predicted: float | None
    low: float | None
    high: float | None
    printed: float | None
    unit: str = "GiB"

    @property
    def difference(self) -> float | None:
        """Printed minus predicted."""
        if self.predicted is None or self.printed is None:
            return None
        return self.printed - self.predicted

    @property
    def holds(self) -> bool | None:
        """Whether the printed figure lies in the predicted interval, within what printing rounds away."""
        if self.low is None or self.high is None or self.printed is None:
            return None
        slack = _SLACK if self.unit == "GiB" else 0.5
        return self.low - slack <= self.printed <= self.high + slack


@dataclass(frozen=True, slots=True)
class Audit:
    """A log beside its plan. `explains` is the row whose difference is largest; `missing` is what no line says."""

    log: StartLog
    plan: Plan
    gpu_assumed: bool
    rows: tuple[Row, ...]
    explains: str | None
    missing: tuple[str, ...]

    @property
    def agrees(self) -> bool | None:
        """Whether the pool and what it holds, or the refusal, came out as predicted; None where none was printed."""
        if self.log.refusal is not None:
            return any(reason.code == self.log.refusal for reason in self.plan.reasons)
        if any(row.holds is False for row in self.pool):
            return False
        return True if any(row.holds for row in self.pool if row.name in _SIZES) else None

    @property
    def pool(self) -> tuple[Row, ...]:
        """The rows that decide: the pool, its tokens, and how many requests of the longest length it holds."""
        return tuple(row for row in self.rows if row.name in (*_SIZES, "concurrency"))


def audit(
    log: StartLog, *, model: str | None = None, gpu: str | None = None, engine: str | None = None, **flags: Any
) -> Audit:
    """Plan what the log says was started, and set the two beside each other; what is given goes before what is printed.

    Raises UnreadableInput where the log holds no start-up line, UsageError where the model, the release or the card is
    in neither, and what `plan` raises.
    """
    if log.engine != "vllm":
        from kvplan.audit.engines import audit_other  # noqa: PLC0415  # its rows are made of this module's Row

        return audit_other(log, model=model, gpu=gpu, engine=engine, flags=flags)
    if not log.figures and log.refusal is None:
        raise UnreadableInput("no line of a vLLM start-up was found in the log", "kvplan audit reads what vLLM prints")
    name = model or log.model
    if name is None:
        raise UsageError("the log does not say which model was started", "add --model")
    if engine is None and log.release is None:
        raise UsageError("the log does not say which release of vLLM wrote it", "add --engine vllm@RELEASE")
    card, assumed = _card(log, gpu)
    log = log.within(card.memory_high / GIB)
    args: dict[str, Any] = {**_arguments(log), **flags}
    made = plan(name, engine=engine or f"vllm@{log.release}", gpu=card, **args)
    rows = tuple(_rows(log, made))
    return Audit(log, made, assumed, rows, _explains(rows), _missing(log))


def _arguments(log: StartLog) -> Mapping[str, Any]:
    found = dict(log.flags)
    share = log.get("utilization")
    if share is not None and 0 < share <= 1:
        found.setdefault("gpu_memory_utilization", share)
    if log.cold:
        found["cold"] = True
    return found


def _card(log: StartLog, name: str | None) -> tuple[Gpu, bool]:
    """Return the card that is named, else the only one of the catalogue whose memory the log's total is."""
    if name is not None:
        return parse_gpu(name)[0], False
    total = log.get("total_gib")
    if total is None:
        raise UsageError("the log does not say which card it ran on", "add --gpu")
    near = [card for card in gpus() if card.memory_low - GIB // 100 <= total * GIB <= card.memory_high + GIB // 100]
    logged = [card for card in near if card.memory_basis == "measured"] or near
    if len(logged) == 1:
        return logged[0], True
    names = ", ".join(card.name for card in logged[:8])
    raise UsageError(
        f"the log prints {total:g} GiB of memory but no card",
        f"add --gpu{': ' + names if names else ''}",
    )


def _rows(log: StartLog, made: Plan) -> list[Row]:
    """Return the figures grouped as the engine does: from 0.27 it prints weights and what is outside torch as one."""
    lines = {line.name: line for line in made.budget.lines}
    consumed = log.get("consumed_gib")

    def summed(name: str, *parts: str, printed: float | None) -> Row:
        present = [lines[part] for part in parts if part in lines]
        if not present:
            return Row(name, None, None, None, printed)
        total, low, high = (sum(getattr(line, end) for line in present) / GIB for end in ("bytes", "low", "high"))
        return Row(name, total, low, high, printed)

    loaded = ("weights", "post_load", "allocator", "lora", "draft_weights")
    moment = ("activations", "encoder_cache", "cold_start")
    rows = [summed("model", *loaded, printed=log.get("load_gib"))]
    if consumed is not None:
        rows.append(summed("model and non-torch", *loaded, "persistent", "non_torch", printed=consumed))
        rows.append(summed("activations and graphs", *moment, "cuda_graphs", printed=log.get("activation_gib")))
    else:
        rows.append(summed("activations", *moment, printed=log.get("activation_gib")))
        rows.append(summed("non-torch", "non_torch", printed=log.get("non_torch_gib")))
        if "cuda_graphs" in lines and lines["cuda_graphs"].high:
            rows.append(summed("cuda graphs", "cuda_graphs", printed=log.get("graphs_estimate_gib")))
    requested = made.budget.requested_bytes
    if requested is None:
        rows.append(Row("budget", None, None, None, _requested(log)))
    else:
        # as unsure as the card's memory is
        ends = (1.0, 1.0) if made.gpu is None else (made.gpu.memory_low, made.gpu.memory_high)
        memory = 1.0 if made.gpu is None else made.gpu.memory_bytes
        low, high = (requested / GIB * end / memory for end in ends)
        rows.append(Row("budget", requested / GIB, low, high, _requested(log)))
    rows.append(summed("kv cache", "kv_cache", printed=log.get("kv_gib")))
    kv, length = made.kv, log.get("concurrency_len")
    if length is None or length == kv.max_model_len:
        rows.append(held(made, "tokens", kv.tokens, log.get("tokens"), "tokens"))
        rows.append(held(made, "concurrency", kv.max_concurrency, log.get("concurrency"), "requests"))
    return [row for row in rows if row.predicted is not None or row.printed is not None]


def held(made: Plan, name: str, value: float | None, printed: float | None, unit: str) -> Row:
    """Return what a pool holds, as unsure as the pool: in proportion to its interval, and a block either way."""
    pool = next((line for line in made.budget.lines if line.name == "kv_cache"), None)
    if value is None or pool is None or pool.bytes <= 0:
        return Row(name, value, None, None, printed, unit)
    block = value / made.kv.num_blocks if made.kv.num_blocks else 1.0
    low, high = ((end + sign * _SLACK * GIB) / pool.bytes for end, sign in ((pool.low, -1), (pool.high, 1)))
    return Row(name, value, max(0.0, value * low - block), value * high + block, printed, unit)


def _requested(log: StartLog) -> float | None:
    printed, total, share = log.get("requested_gib"), log.get("total_gib"), log.get("utilization")
    if printed is None and total is not None and share is not None:
        return total * share
    return printed


_PARTS = frozenset({
    "model", "model and non-torch", "activations and graphs", "activations", "non-torch", "cuda graphs", "budget",
})  # fmt: skip


def _explains(rows: tuple[Row, ...]) -> str | None:
    """Return the part of the pool whose difference is largest, if it is more than what printing rounds away."""
    parts = [row for row in rows if row.name in _PARTS and row.difference is not None]
    if any(row.name == "model and non-torch" for row in parts):
        parts = [row for row in parts if row.name != "model"]
    if not parts:
        return None
    largest = max(parts, key=lambda row: abs(row.difference or 0.0))
    return largest.name if abs(largest.difference or 0.0) > 2 * _PRINTED else None


def _missing(log: StartLog) -> tuple[str, ...]:
    wanted = {"load_gib": "model load", "kv_gib": "available KV memory", "tokens": "tokens", "total_gib": "card memory"}
    return tuple(text for name, text in wanted.items() if log.get(name) is None)
