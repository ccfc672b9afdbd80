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
from kvplan.audit.figures import Figures
from kvplan.audit.flags import Flag
from kvplan.audit.lines import clean_lines
from kvplan.audit.log import StartLog, read_log, readable
from kvplan.engine.names import flags_for
from kvplan.errors import UsageError
from kvplan.hardware import parse_gpu
from kvplan.planner import Plan, plan
from kvplan.units import GIB

# What no other engine prints; the first that is found decides
_MARKS = {
    "sglang": (
        "ServerArgs(", "sglang.launch_server", "Load weight begin.", "Load weight end.", "max_total_num_tokens=",
    ),
    "tensorrt-llm": (
        "[TensorRT-LLM]", "[TRT-LLM]", "TensorRT LLM version", "TensorRT-LLM version", "trtllm-serve",
    ),
    "vllm": (
        "vLLM API server version", "Available KV cache memory:", "Initializing a V1 LLM engine",
        "Initializing an LLM engine", "Initializing a LLM engine", "Initializing an V1 LLM engine",
    ),
}  # fmt: skip
_RANK = re.compile(r"\bTP([0-9]{1,4})\b", re.ASCII)


@dataclass(frozen=True, slots=True)
class Wording:
    """An engine's lines. `words` are those of lines that name the release or the model.

    Ranks print figures of their own: the first rank's counts, and of the `lowest` the smallest, which the engine uses.
    `measured` returns the flags that hand the log's own memory to the plan; `rows` takes the log, that plan, and a
    function that plans with other flags.
    """

    figures: Figures
    flags: Mapping[str, Flag]
    words: tuple[str, ...]
    release: re.Pattern[str] | None
    model: re.Pattern[str]
    refusals: Mapping[str, str]
    lowest: frozenset[str]
    measured: Callable[[StartLog], dict[str, int]]
    rows: Callable[[StartLog, Plan, Callable[..., Plan]], list[Row]]


def writer(text: str) -> str:
    """Return the engine that wrote a log, by the first line that only one of them prints; vllm where none is found."""
    found = [(at, engine) for engine, marks in _MARKS.items() for mark in marks if (at := text.find(mark)) >= 0]
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
    unread: list[str] = []
    release = model = refusal = None
    for line in clean_lines(text, words_of(wording)):
        found = _RANK.search(line.text)
        rank = int(found[1]) if found else line.rank or 0
        ranks |= {rank} if found or line.rank is not None else set()
        for name, number in readable(line, wording.figures, unread).items():
            by_rank[name].setdefault(rank, number)
        for name, known in wording.flags.items():
            if (value := known.find(line.text)) not in (None, "None", "auto"):
                flags.setdefault(name, value)
        release = release or _first(wording.release, line.text)
        model = model or _first(wording.model, line.text)
        refusal = next((code for code, words in wording.refusals.items() if words in line.text), refusal)
    figures = {
        name: min(values.values()) if name in wording.lowest else values[min(values)]
        for name, values in by_rank.items()
    }
    return StartLog(release, model, flags, figures, tuple(sorted(ranks)), refusal, engine=engine, unread=tuple(unread))


def words_of(wording: Wording) -> tuple[str, ...]:
    """Return what a line holds at least one of, if it is of any interest."""
    figures = (one.words for of in wording.figures.values() for one in of)
    flags = (word for known in wording.flags.values() for word in known.words)
    return tuple(dict.fromkeys((*figures, *flags, *wording.refusals.values(), *wording.words)))


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
    log = log.within(card.memory_high / GIB)

    def again(**more: Any) -> Plan:
        args = {**log.flags, **own, **more}
        return plan(name, engine=engine or f"{log.engine}@{log.release}", gpu=card, **args)

    wording = _wording(log.engine)
    made = again(**wording.measured(log))
    rows = tuple(wording.rows(log, made, again))
    lacking = tuple(row.name for row in rows if row.printed is None)
    return Audit(log, made, gpu_assumed=False, rows=rows, explains=None, missing=lacking)
