"""What the options of `kvplan simulate` say: the deployment, the load, the rows of it, the clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from kvplan.errors import UsageError, near
from kvplan.planner import load_model
from kvplan.simulate.baselines import BASELINES, Scenario
from kvplan.simulate.clock import PS, Clock
from kvplan.simulate.deployment import Ask, Deployment, changed, deploy, parse_changes
from kvplan.simulate.settings import Selection, read_settings
from kvplan.simulate.sources import Made, Source, TraceFile
from kvplan.simulate.synthetic import parse_load
from kvplan.simulate.trace.layout import Layout, check_unit, parse_columns
from kvplan.sources.document import read_object
from kvplan.units import parse_bandwidth

Words: TypeAlias = Mapping[str, Any]  # the options by name
_FLAGS = (
    "gpu", "engine", "tensor_parallel_size", "pipeline_parallel_size", "gpu_memory_utilization", "max_model_len",
    "max_num_seqs", "max_num_batched_tokens", "kv_cache_dtype", "kv_cache_memory_bytes", "num_gpu_blocks_override",
    "block_size", "dtype", "quantization", "enforce_eager", "enable_prefix_caching", "async_scheduling",
)  # fmt: skip
_OWN = ("arrival", "speed", "n", "policy", "watermark", "long_prefill_token_threshold")


def files(words: Words) -> dict[str, str | None]:
    """Return the files that options name, those that are read and those that are written."""
    named = {"MODEL": words["model"]}
    named |= {f"--{name}": words[name] for name in ("trace", "settings", "tokenizer", "steps", "requests", "plot")}
    return named | ({"--trace": "/dev/stdin"} if words["trace"] == "-" else {})


def read_ask(words: Words) -> tuple[Ask, Selection]:
    """Return what is to be simulated, and which rows of the trace."""
    flags = {name: words[name] for name in _FLAGS if words[name] is not None}
    own = {name: _plain(words[name]) for name in _OWN if words[name] is not None}
    selection = Selection()
    if words["settings"] is not None:
        if words["model"] is not None:
            raise UsageError("a MODEL and --settings both say what the pool is", "give one of them")
        told = read_object(words["settings"])
        told = told["settings"] if isinstance(told.get("settings"), dict) else told
        _, selection = read_settings(told)
        own = {**told, **own}
    elif words["model"] is None and "num_gpu_blocks_override" not in flags:
        raise UsageError(
            "nothing says what the pool is", "a MODEL and --gpu, --settings FILE, or --num-gpu-blocks-override N"
        )
    spec = None if words["model"] is None else load_model(words["model"], revision=words["revision"])
    if words["settings"] is None:
        own.setdefault("arrival", "clock")
    if words["rows"] is not None:
        selection = _rows(words["rows"])
    bandwidth = None if words["bandwidth"] is None else parse_bandwidth(words["bandwidth"])
    return Ask(spec, flags, own, _clock(words["clock"]), bandwidth, local=not words["no_local"]), selection


def read_source(words: Words, selection: Selection) -> Source:
    """Return the load: a trace file, or made-up traffic."""
    if (words["trace"] is None) == (words["synthetic"] is None):
        raise UsageError("one load is simulated", "--trace FILE, or --synthetic 'prompt=… output=… rate=…'")
    if words["synthetic"] is not None:
        return Made(parse_load(words["synthetic"]), words["seed"])
    chars = words["chars_per_token"]
    if chars is not None and not 0.1 <= chars <= 100:
        raise UsageError(f"--chars-per-token {chars:g} is no number of characters", "English text has about 4")
    layout = Layout(
        columns={} if words["columns"] is None else parse_columns(words["columns"]),
        unit=None if words["time_unit"] is None else check_unit(words["time_unit"]),
        tokenizer=words["tokenizer"],
        chars_per_token=chars,
    )
    return TraceFile(words["trace"], layout, selection)


def read_scenarios(asked: Sequence[str], ask: Ask, deployment: Deployment) -> list[Scenario]:
    """Return what is compared: baselines by name, and other values."""
    found: list[Scenario] = []
    for text in asked:
        if text in BASELINES:
            found += BASELINES[text](deployment.settings)
        elif "=" in text:
            found.append(Scenario(text, deploy(changed(ask, parse_changes(text))).settings))
        else:
            hint = near(text, BASELINES) or f"NAME=VALUE,… or one of {', '.join(BASELINES)}"
            raise UsageError(f"--compare: no baseline {text[:40]!r}", hint)
    return found


def _plain(value: Any) -> Any:
    return value.value if hasattr(value, "value") else value


def _rows(text: str) -> Selection:
    first, colon, count = text.partition(":")
    parts = (first, count) if colon else (first, "")
    if not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts if part):
        raise UsageError(f"--rows {text[:40]!r} is not read", "FIRST:COUNT, from 0: 0:1000 are the first thousand")
    return Selection(int(first or 0), int(count) if count else None)


def _clock(text: str | None) -> Clock | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        raise UsageError(f"--clock {text[:40]!r} is not read", "three whole numbers of nanoseconds: 5000000,25000,40")
    return Clock(*(int(part) * PS for part in parts))
