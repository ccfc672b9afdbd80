"""Module names against the lists and patterns of a quantization section.

Patterns are a stranger's regular expressions. Python's matcher backtracks, so that a few of them can hold a process for
years: the ones that can are told by their form and refused, and all of a section together have so much time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from time import process_time
from typing import TypeAlias, TypeVar

from kvplan.errors import InvalidConfig

LONGEST = 400  # characters; the longest pattern of a public checkpoint has 90
# Steps grow with (length of a name) ** (open-ended repeats), those of digits apart; names stay under 100 characters.
_MAX_REPEATS = 3
_REPEAT = re.compile(r"(?<!\\)(?<!\\d)(?:[*+]|\{\d*,\d*\})")
_REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{)")  # of two ways through a group, each repetition doubles the tries

_NUMBERED = re.compile(r"\blayers\.(\d+)\.", re.ASCII)
_MAX_GENERAL = 512  # a public list has a few
_MAX_PATTERNS = 64
_SECONDS = 1.0  # of the processor; the patterns of public sections take a thousandth

Matcher: TypeAlias = Callable[[str], bool]
Found = TypeVar("Found")


@lru_cache(maxsize=512)
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a stranger's regular expression; raises InvalidConfig for one that is broken or could run for ever."""
    repeats, nested = len(_REPEAT.findall(pattern)), _REPEATED_GROUP.search(pattern) is not None
    if len(pattern) > LONGEST or repeats > _MAX_REPEATS or nested:
        raise InvalidConfig(f"the quantization section's pattern {pattern[:60]!r} is too intricate to be matched")
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidConfig(f"the quantization section's pattern {pattern[:60]!r} cannot be read") from error


def spellings(name: str) -> tuple[str, ...]:
    """Return the ways in which sections write a module: nested language models have been named in several."""
    inner = name.removeprefix("language_model.")
    if inner != name:
        return (name, inner, inner.replace("model.", "model.language_model.", 1))
    return (name,) if name.startswith("model.") else (name, f"model.{name}")


def listed(names: Iterable[str]) -> Matcher:
    """Match a name that is listed (FP8)."""
    found = frozenset(names)
    return lambda name: any(spelling in found for spelling in spellings(name))


def exact_or_pattern(names: Iterable[str]) -> Matcher:
    """Match a name that is listed, or that a pattern written as `re:…` matches from its start (compressed-tensors)."""
    found = frozenset(names)
    patterns = [compiled(name[3:]) for name in found if name.startswith("re:")]
    if len(patterns) > _MAX_PATTERNS:
        raise InvalidConfig(f"the quantization section has {len(patterns)} patterns in one list")
    return in_time(
        lambda name: any(
            spelling in found or any(pattern.match(spelling) for pattern in patterns) for spelling in spellings(name)
        )
    )


def first_match(rules: Sequence[tuple[str, Found]], otherwise: Found) -> Callable[[str], Found]:
    """Return what the first pattern that matches a name from its start brings (GPTQModel)."""
    if len(rules) > _MAX_GENERAL:
        raise InvalidConfig(f"the quantization section has {len(rules)} rules")
    found = [(compiled(pattern), brings) for pattern, brings in rules]
    return in_time(lambda name: next((brings for pattern, brings in found if pattern.match(name)), otherwise))


def in_time(answer: Callable[[str], Found]) -> Callable[[str], Found]:
    """Return the answer, with so much time for all names together; raises InvalidConfig when it is spent."""
    end = process_time() + _SECONDS

    def timed(name: str) -> Found:
        if process_time() > end:
            raise InvalidConfig("the quantization section's names take too long to be matched")
        return answer(name)

    return timed


def contained(names: Iterable[str]) -> Matcher:
    """Match a name that holds any listed text (AWQ)."""
    texts = tuple(names)
    return in_time(lambda name: any(text in name for text in texts))


def holding(texts: Iterable[str]) -> Matcher:
    """Match a name that a listed text holds (the experts of FP8: one module, whose children are listed)."""
    whole = "\n".join(texts)
    return in_time(lambda name: any(spelling in whole for spelling in spellings(name)))


def excluded(names: Iterable[str]) -> Matcher:
    """Match a name that is listed, holds a listed text, or fits a listed wildcard (ModelOpt).

    A text that holds `layers.7.` is held by names of layer 7 alone, which most of a list is.
    """
    of_layer: defaultdict[str, list[str]] = defaultdict(list)
    of_any: list[str] = []
    for text in sorted(set(names)):
        found = _NUMBERED.search(text) if "[" not in text else None
        (of_any if found is None else of_layer[found[1]]).append(text)
    if len(of_any) > _MAX_GENERAL:
        raise InvalidConfig(f"the quantization section lists {len(of_any)} modules that belong to no layer")

    def match_one(name: str) -> bool:
        found = _NUMBERED.search(name)
        texts = of_any if found is None else [*of_any, *of_layer.get(found[1], ())]
        return any(text in name or fnmatchcase(name, text) for text in texts if text)

    return in_time(lambda name: any(match_one(spelling) for spelling in spellings(name)))
