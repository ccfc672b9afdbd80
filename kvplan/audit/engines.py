"""Start-up logs of the other engines: who wrote a log, and what its lines say, in the terms of `StartLog`.

Each engine is a file here with its wordings (`FIGURES`, `FLAGS`, `RELEASE`, `MODEL`, `REFUSALS`) and its `rows`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from kvplan.audit.compare import Audit, Row
from kvplan.audit.lines import clean_lines
from kvplan.audit.log import StartLog, read_log
from kvplan.engine.names import flags_for
from kvplan.errors import UsageError
from kvplan.hardware import parse_gpu
from kvplan.planner import Plan, plan

# What no other engine prints; the first that is found decides
_MARKS = {
    "sglang": re.compile(r"ServerArgs\(|sglang\.launch_server|Load weight (?:begin|end)\.|max_total_num_tokens="),
    "tensorrt-llm": re.compile(r"\[TensorRT-LLM\]|\[TRT-LLM\]|TensorRT[- ]LLM version|trtllm-serve"),
    "vllm": re.compile(r"vLLM API server version|Available KV cache memory:|Initializing an? (?:V1 )?LLM engine"),
}
_RANK = re.compile(r"\bTP([0-9]{1,4})\b", re.ASCII)
_MOST = 1e15  # no figure of a start-up is larger, bytes included


@dataclass(frozen=True, slots=True)
class Wording:
    """An engine's lines. `figures` and `flags` map a name to patterns whose first group is the value.

    Ranks print figures of their own: the first rank's counts, and of the `lowest` the smallest, which the engine uses.
    `measured` returns the flags that hand the log's own memory to the plan; `rows` takes the log, that plan, and a
    function that plans with other flags.
    """

    figures: Mapping[str, tuple[re.Pattern[str], ...]]
    flags: Mapping[str, re.Pattern[str]]
    release: re.Pattern[str] | None
    model: re.Pattern[str]
    refusals: Mapping[str, str]
    lowest: frozenset[str]
    measured: Callable[[StartLog], dict[str, int]]
    rows: Callable[[StartLog, Plan, Callable[..., Plan]], list[Row]]


def writer(text: str) -> str:
    """Return the engine that wrote a log, by the first line that only one of them prints; vllm where none is found."""
    found = [(match.start(), engine) for engine, mark in _MARKS.items() if (match := mark.search(text)) is not None]
    return min(found, default=(0, "vllm"))[1]


def read_start(text: str) -> StartLog:
    """Read a start-up log of any engine."""
    engine = writer(text)
    return read_log(text) if engine == "vllm" else _read(text, engine, _wording(engine))


def _wording(engine: str) -> Wording:
    found: Wording = import_module(f"kvplan.audit.{engine.replace('-', '_')}").WORDING
    return found


def _read(text: str, engine: str, wording: Wording) -> StartLog:
    """Read line by line; of each rank the first line that prints a figure counts: later ones are of a draft model."""
    by_rank: dict[str, dict[int, float]] = defaultdict(dict)
    flags: dict[str, object] = {}
    ranks: set[int] = set()
    release = model = refusal = None
    for line in clean_lines(text):
        found = _RANK.search(line.text)
        rank = int(found[1]) if found else line.rank or 0
        ranks |= {rank} if found or line.rank is not None else set()
        for name, patterns in wording.figures.items():
            value = next((match[1] for pattern in patterns if (match := pattern.search(line.text)) is not None), None)
            number = None if value is None else float(value.replace(",", ""))
            if number is not None and abs(number) < _MOST:
                by_rank[name].setdefault(rank, number)
        for name, pattern in wording.flags.items():
            if (match := pattern.search(line.text)) is not None and match[1] not in ("None", "auto"):
                flags.setdefault(name, match[1])
        release = release or _first(wording.release, line.text)
        model = model or _first(wording.model, line.text)
        refusal = next((code for code, words in wording.refusals.items() if words in line.text), refusal)
    figures = {
        name: min(values.values()) if name in wording.lowest else values[min(values)]
        for name, values in by_rank.items()
    }
    return StartLog(release, model, flags, figures, tuple(sorted(ranks)), refusal, engine=engine)


def _first(pattern: re.Pattern[str] | None, text: str) -> str | None:
    match = None if pattern is None else pattern.search(text)
    return None if match is None else match[1]


def audit_other(log: StartLog, *, model: str | None, gpu: str | None, engine: str | None, flags: Any) -> Audit:
    """Plan what a log of another engine says was started, and set the two beside each other.

    Raises UsageError where the model, the release or the card is in neither the log nor the flags.
    """
    name = model or log.model
    if name is None:
        raise UsageError("the log does not say which model was started", "add --model")
    if engine is None and log.release is None:
        raise UsageError(
            f"the log does not say which release of {log.engine} wrote it", f"add --engine {log.engine}@RELEASE"
        )
    if gpu is None:
        raise UsageError("the log does not say which card it ran on", "add --gpu")
    own, missing = flags_for(log.engine, flags, ("vllm",))
    if missing:
        raise UsageError(f"{log.engine} has no --{missing[0].replace('_', '-')}", "the log's own arguments are read")
    card = parse_gpu(gpu)[0]

    def again(**more: Any) -> Plan:
        args = {**log.flags, **own, **more}
        return plan(name, engine=engine or f"{log.engine}@{log.release}", gpu=card, **args)

    wording = _wording(log.engine)
    made = again(**wording.measured(log))
    rows = tuple(wording.rows(log, made, again))
    lacking = tuple(row.name for row in rows if row.printed is None)
    return Audit(log, made, gpu_assumed=False, rows=rows, explains=None, missing=lacking)
