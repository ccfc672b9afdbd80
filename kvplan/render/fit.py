"""Which cards hold a load, as a terminal or a Markdown page shows it: the best first, then why the others do not."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from math import inf, isfinite
from typing import Any

from kvplan.fit.ask import flag, shortage
from kvplan.fit.wish import CardAnswer, Fit, Option
from kvplan.model.describe import describe
from kvplan.render.table import markdown_table, table
from kvplan.render.text import ENGINE_NAMES, kv_dtype_name, short_name, two_ends
from kvplan.units import gib, quantity

_RIGHT = frozenset({"gpus", "tp", "dp", "requests", "left a GPU", "an hour"})
_OTHERS = 4  # other splits of the best card's GPUs that are told


def fit_text(fit: Fit, *, top: int) -> list[str]:
    """Return the lines of an answer with its `top` cards."""
    head = two_ends(f"{short_name(fit.model)}   {describe(fit.model)}", _engines(fit))
    return [*head, "", *_table(fit, top, table), *(f"  {line}".rstrip() for line in _told(fit, top))]


def fit_markdown(fit: Fit, *, top: int) -> list[str]:
    """Return the same as Markdown."""
    head = [f"### {fit.model.id}", "", f"{describe(fit.model)}; {_engines(fit)}", ""]
    return head + _table(fit, top, markdown_table) + [f"- {line}" for line in _told(fit, top) if line]


def _engines(fit: Fit) -> str:
    plans = {answer.engine: option.plan for answer in (*fit.found, *fit.failed) if (option := _any(answer)) is not None}
    return ", ".join(
        f"{ENGINE_NAMES.get(plans[name].engine, name)} {plans[name].engine_version.removesuffix('.0')}"
        if name in plans
        else name
        for name in fit.engines
    )


def _any(answer: CardAnswer) -> Option | None:
    return answer.best or answer.closest


def _table(fit: Fit, top: int, shape: Any) -> list[str]:
    """Return a row for each of the best cards, without columns that are the same in all; empty where there is none."""
    rows = [_row(fit, answer, answer.options[0]) for answer in fit.found[:top]]
    if not rows:
        return []
    header = list(rows[0])
    right = frozenset(i for i, name in enumerate(header) if name in _RIGHT)
    return [*shape(header, [list(row.values()) for row in rows], right=right), ""]


def _row(fit: Fit, answer: CardAnswer, option: Option) -> dict[str, str]:
    assumed = any(note.code == "backend_assumed" for note in option.plan.warnings)
    row = {"gpus": str(option.gpus), "card": answer.gpu.name + (" ~" if assumed else "")}
    if option.cost is not None:
        row["an hour"] = f"{quantity(option.cost, 2)}{f' {fit.currency}' if fit.currency else ''}"
    if len(fit.engines) > 1:
        row["engine"] = answer.engine
    return row | {
        "kv dtype": kv_dtype_name(option.plan),
        "tp": str(option.tensor),
        "dp": str(option.data),
        "requests": _number(option.requests),
        "left a GPU": gib(option.left_bytes) if option.left_bytes is not None else "-",
    }


def _told(fit: Fit, top: int) -> list[str]:
    lines = _verdict(fit, top)
    for refused in fit.refused:
        if len(refused.sizes) == fit.max_gpus:  # it is not the size
            lines += [f"refused by {refused.engine}: {refused.reason.message}", f"next: {refused.reason.hint}"]
        else:
            sizes = ", ".join(str(size) for size in refused.sizes)
            lines.append(f"not allowed: TP {sizes} ({refused.engine}): {refused.reason.message}")
    for card in fit.unplanned:
        lines.append(f"not planned: {card.name}: the engines' worker on {card.label} is not one that kvplan knows")
    if fit.unpriced:
        lines.append(f"note: {fit.unpriced} cards have no price and were left out")
    return lines


def _verdict(fit: Fit, top: int) -> list[str]:
    load = f"{fit.wish.concurrency:,} requests of {fit.wish.context:,} tokens at once"
    cards = len({answer.gpu.name for answer in (*fit.found, *fit.failed)})
    if not fit.found:
        return [f"refused: none of {cards} cards holds {load} on up to {fit.max_gpus} GPUs", *_closest(fit)]
    holding = len({answer.gpu.name for answer in fit.found})
    best = fit.found[0]
    lines = [f"fits: {load} on {holding} of {cards} cards, on up to {fit.max_gpus} GPUs"]
    if len(fit.found) > top:
        lines[0] += f"; {len(fit.found) - top} more with --top {len(fit.found)}"
    lines.append(f"next: {command(best, best.options[0])}")
    return lines + _other_splits(best) + _closest(fit)


def command(answer: CardAnswer, option: Option) -> str:
    """Return the command that plans an option in full."""
    words = ["kvplan", "size", option.plan.model.id, "--gpu", answer.gpu.name]
    if answer.engine != "vllm":
        words += ["--engine", answer.engine]
    return shlex.join(words + flag_words(answer.engine, option.flags))


def flag_words(engine: str, flags: Mapping[str, Any]) -> list[str]:
    """Return flags as the words of an engine's command line."""
    words: list[str] = []
    for name, value in flags.items():
        if value is not None and value is not False:
            words += [flag(engine, name), *([] if value is True else [str(value)])]
    return words


def _other_splits(best: CardAnswer) -> list[str]:
    """Say what the same GPUs hold when they are split otherwise, where they can be."""
    others = [f"TP {o.tensor} x DP {o.data} holds {_number(o.requests)}" for o in best.layouts[1 : 1 + _OTHERS]]
    if not others:
        return []
    chosen = best.options[0]
    return [f"split: TP {chosen.tensor} x DP {chosen.data} holds {_number(chosen.requests)}, {', '.join(others)}"]


def _closest(fit: Fit) -> list[str]:
    """Say how near the nearest card comes that does not do it."""
    if not fit.failed or fit.failed[0].closest is None:
        return []
    answer, option = fit.failed[0], fit.failed[0].closest
    split = f"TP {option.tensor} x DP {option.data}"
    which = f"closest of the other {len(fit.failed)}" if fit.found else "closest"
    what = f"{which}: {option.gpus} x {answer.gpu.name} ({kv_dtype_name(option.plan)}, {split})"
    return [f"{what} {_lack(fit, option)}"]


def _lack(fit: Fit, option: Option) -> str:
    kv = option.plan.kv
    if option.plan.fits and kv.max_model_len < fit.wish.context:
        return f"shortens requests to {kv.max_model_len:,} tokens"
    if option.plan.fits:
        running = kv.max_running_requests
        slots = running is not None and running * option.data < min(option.requests, fit.wish.concurrency)
        return f"runs {running * option.data:,} at once" if slots and running else f"holds {_number(option.requests)}"
    lacking = shortage(option.plan)
    if kv.longest_model_len:
        return f"holds one request of {kv.longest_model_len:,} tokens"
    if 0 < lacking < inf:
        return f"lacks {gib(int(lacking))} a GPU for the first request"
    return f"refuses: {option.plan.reasons[0].message}"


def _number(requests: float) -> str:
    return quantity(requests, 1) if isfinite(requests) else "any number"


def fit_object(fit: Fit) -> dict[str, Any]:
    """Return the object of `kvplan fit --format json`."""
    return {
        "schema": 1,
        "model": {"id": fit.model.id, "architecture": fit.model.architecture},
        "wish": {"concurrency": fit.wish.concurrency, "context": fit.wish.context, "max_gpus": fit.max_gpus},
        "currency": fit.currency or None,
        "verdict": "fits" if fit.found else "refused",
        "found": [_answer_object(answer) for answer in fit.found],
        "failed": [_answer_object(answer) for answer in fit.failed],
        "refused": [
            {"engine": refused.engine, "tensor_parallel_sizes": list(refused.sizes), **_note(refused.reason)}
            for refused in fit.refused
        ],
        "unpriced": fit.unpriced,
        "unplanned": [card.name for card in fit.unplanned],
    }


def _answer_object(answer: CardAnswer) -> dict[str, Any]:
    return {
        "engine": answer.engine,
        "gpu": answer.gpu.name,
        "memory_bytes": answer.gpu.memory_bytes,
        "options": [_option_object(answer, option) for option in answer.options],
        "splits": [_option_object(answer, option) for option in answer.layouts],
        "closest": None if answer.closest is None else _option_object(answer, answer.closest),
    }


def _option_object(answer: CardAnswer, option: Option) -> dict[str, Any]:
    kv = option.plan.kv
    return {
        "gpus": option.gpus,
        "tensor_parallel_size": option.tensor,
        "data_parallel_size": option.data,
        "kv_cache_dtype": option.flags.get("kv_cache_dtype", "auto"),
        "meets": option.meets,
        "requests": option.requests if isfinite(option.requests) else None,
        "max_running_requests": None if kv.max_running_requests is None else kv.max_running_requests * option.data,
        "tokens": None if kv.tokens is None else kv.tokens * option.data,
        "longest_model_len": kv.longest_model_len,
        "left_bytes_per_rank": option.left_bytes,
        "cost_per_hour": option.cost,
        "flags": dict(option.flags),
        "command": command(answer, option),
        "reasons": [_note(note) for note in option.plan.reasons],
    }


def _note(note: Any) -> dict[str, str]:
    return {"code": note.code, "message": note.message, "hint": note.hint}
