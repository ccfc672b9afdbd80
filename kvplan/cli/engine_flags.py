"""The flags of the asked engine on `kvplan size`: read by its own parser's table where they are not vLLM's.

vLLM's are options of the command. SGLang's and TensorRT-LLM's are taken out of the words before the command parses
them, so that `--help` and the start-up time stay vLLM's; a flag of an engine that was not asked for is refused with the
name that the asked one uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import Any

from typer.core import TyperCommand

from kvplan.engine.names import ENGINES, NAMES, elsewhere, engine_id, named, switched
from kvplan.errors import UsageError

_ASKED = "kvplan.engines"
_HELP_WIDTH = 76


class EngineCommand(TyperCommand):
    """A command with `--engine`; what other engines' flags say is in `ctx.obj`, by the engine's own names."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the flags of the asked engines out of the words, and parse the rest."""
        takes_value = {
            name: not (getattr(param, "is_flag", False) or getattr(param, "count", False))
            for param in self.params
            for name in (*param.opts, *param.secondary_opts)
        }
        ctx.meta[_ASKED] = asked = asked_engines(args)
        rest, ctx.obj = take(args, asked, takes_value)
        return list(super().parse_args(ctx, rest))

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the flags of the asked engines that are no options of the command."""
        options = {name for param in self.params for name in param.opts}
        for engine in ctx.meta.get(_ASKED, ()):
            own = sorted({f"--{name.replace('_', '-')}" for name in NAMES[engine]} - options)
            if own and engine != "vllm":
                told = wrap(" ".join(own), _HELP_WIDTH, break_on_hyphens=False)
                formatter.write(f"\nFlags of {engine}:\n  " + "\n  ".join(told) + "\n")


def asked_engines(words: Sequence[str]) -> list[str]:
    """Return the engines that `--engine` names, without their releases; raises UnknownEngine."""
    text = "vllm"
    for index, word in enumerate(words):
        if word == "--engine" and index + 1 < len(words):
            text = words[index + 1]
        elif word.startswith("--engine="):
            text = word.partition("=")[2]
    found = [engine_id(part).partition("@")[0] for part in text.split(",")]
    for name in found:
        if name and name not in ENGINES:
            from kvplan.engine.registry import find_engine

            find_engine(name)
    return [name for name in found if name in ENGINES] or ["vllm"]


def take(
    words: Sequence[str], engines: Sequence[str], takes_value: dict[str, bool]
) -> tuple[list[str], dict[str, Any]]:
    """Split words into those of the command and the values of the engines' own flags."""
    rest: list[str] = []
    own: dict[str, Any] = {}
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        flag, equals, value = word.partition("=")
        if word == "--":
            return [*rest, word, *words[position:]], own
        if not word.startswith("--") or flag in takes_value:
            rest.append(word)
            if takes_value.get(flag) and not equals and position < len(words):
                rest.append(words[position])
                position += 1
            continue
        name = _own_name(flag, engines)
        if name is None:
            rest.append(word)
            continue
        if switched(name, engines):
            own[name] = True
            continue
        if not equals:
            if position == len(words):
                raise UsageError(f"{flag} needs a value")
            value = words[position]
            position += 1
        if name in own:
            raise UsageError(f"{flag} is given twice")
        own[name] = value
    return rest, own


def _own_name(flag: str, engines: Iterable[str]) -> str | None:
    """Return the name of a flag among those of the asked engines, None where no engine knows it."""
    name = named(flag)
    asked = list(engines)
    if any(name in NAMES[engine] for engine in asked):
        return name
    from kvplan.manifests.flags import table

    for engine in asked:
        known = table(engine)
        found = known.find(flag) if known is not None and engine != "vllm" else None
        if found is None:
            continue
        if found.dest in NAMES[engine]:
            return found.dest
        raise UsageError(
            f"{flag} is no flag that kvplan plans by", f"{engine} has it, but it moves no memory that kvplan knows"
        )
    other = elsewhere(name, asked[0])
    if other is None:
        return None
    owner, here = other
    hint = f"{asked[0]} calls it --{here.replace('_', '-')}" if here else f"{asked[0]} has no such flag"
    raise UsageError(f"{flag} is a flag of {owner}, not of {' or '.join(asked)}", hint)
