"""Made-up traffic: `prompt=lognormal(1200,0.9) output=exp(300) rate=8 prefix=3000@0.6 turns=10`, the same for a seed.

    prompt, output   tokens of a request                      question  tokens of a chat's later turns (as prompt)
    rate             requests a second, arriving at random    turns     requests of one conversation
    prefix=N@SHARE   that share of the conversations begins   think     seconds between two turns
                     with the same N tokens                   prefixes  how many such beginnings there are
    requests         how many in all

A value is a number or a distribution: exp(MEAN), normal(MEAN,SD), lognormal(MEDIAN,SIGMA), uniform(LOW,HIGH). A later
turn repeats all before it, answers included, and comes when its time has come, whether or not the answer has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import isfinite, log
from random import Random

from kvplan.errors import UsageError, near
from kvplan.simulate.request import Request, Span

MAX_VALUE = 2.0**40
MIN_RATE = 1e-6  # one request in eleven days; the clock counts nanoseconds
_CALL = re.compile(r"([a-z]+)\(([^()]*)\)")
_SECOND = 10**9


@dataclass(frozen=True, slots=True)
class Draw:
    """A number at random: `kind` is `constant` or the name of a distribution."""

    kind: str
    values: tuple[float, ...]

    def __call__(self, random: Random) -> float:
        """Draw one."""
        first, *rest = self.values
        match self.kind:
            case "exp":
                return random.expovariate(1 / first)
            case "normal":
                return random.normalvariate(first, rest[0])
            case "lognormal":
                return random.lognormvariate(log(first), rest[0])
            case "uniform":
                return random.uniform(first, rest[0])
        return first

    def tokens(self, random: Random) -> int:
        """Draw a length of one token at least."""
        return max(1, round(min(self(random), MAX_VALUE)))


@dataclass(frozen=True, slots=True)
class Load:
    """A synthetic trace before it is drawn. `rate` None: all requests are there at the start."""

    prompt: Draw
    output: Draw
    question: Draw
    think: Draw
    rate: float | None = None
    prefix_tokens: int = 0
    prefix_share: float = 0.0
    prefixes: int = 1
    turns: int = 1
    requests: int = 1000


_ARITY = {"exp": 1, "normal": 2, "lognormal": 2, "uniform": 2}
_KEYS = ("prompt", "output", "question", "think", "rate", "prefix", "prefixes", "turns", "requests")


def parse_load(text: str) -> Load:
    """Read a description; raises UsageError, which names the word."""
    words: dict[str, str] = {}
    for word in re.split(r"\s+(?=[a-z]+=)", text.strip()):
        key, equals, value = word.partition("=")
        if not equals or key not in _KEYS or key in words:
            problem = "is given twice" if key in words else "is not read"
            hint = near(key, _KEYS) or f"KEY=VALUE of {', '.join(_KEYS)}"
            raise UsageError(f"--synthetic: {word[:60]!r} {problem}", hint)
        words[key] = value.strip()
    for key in ("prompt", "output"):
        if key not in words:
            raise UsageError(f"--synthetic gives no {key}=", "prompt=lognormal(1200,0.9) output=exp(300) rate=8")
    prefix_tokens, prefix_share = _prefix(words["prefix"]) if "prefix" in words else (0, 0.0)
    prompt = _draw("prompt", words["prompt"])
    return Load(
        prompt=prompt,
        output=_draw("output", words["output"]),
        question=_draw("question", words["question"]) if "question" in words else prompt,
        think=_draw("think", words["think"]) if "think" in words else Draw("constant", (10.0,)),
        rate=_rate(words["rate"]) if "rate" in words else None,
        prefix_tokens=prefix_tokens,
        prefix_share=prefix_share,
        prefixes=_count("prefixes", words.get("prefixes", "1")),
        turns=_count("turns", words.get("turns", "1")),
        requests=_count("requests", words.get("requests", "1000")),
    )


def synthesize(load: Load, seed: int) -> Iterator[Request]:
    """Yield the requests in the order of their arrival; only conversations that go on are kept in memory."""
    random = Random(seed)  # noqa: S311  # traffic, not secrets
    starts = _starts(load, random)
    start = next(starts)
    open_turns: list[tuple[int, int, int, tuple[Span, ...]]] = []  # when, after which row, which turn, what it repeats
    for row in range(load.requests):
        if start is not None and (not open_turns or start <= open_turns[0][0]):
            now, turn, spans, asked = start, 1, _beginning(load, random), load.prompt.tokens(random)
            start = next(starts)
        else:
            now, _, turn, spans = heappop(open_turns)
            asked = load.question.tokens(random)
        output = load.output.tokens(random)
        goes_on = turn < load.turns
        if spans or goes_on:
            spans = (*spans, (("ask", row), asked))
        prompt = sum(span[1] for span in spans) or asked
        yield Request(row, now, prompt, output, spans, ("answer", row) if goes_on else None)
        if goes_on:
            later = now + max(0, round(load.think(random) * _SECOND))
            heappush(open_turns, (later, row, turn + 1, (*spans, (("answer", row), output))))


def _starts(load: Load, random: Random) -> Iterator[int | None]:
    """Yield when conversations begin, so that their turns together come at the rate, and None when all have begun."""
    now = 0.0
    for _ in range(-(-load.requests // load.turns)):
        yield round(now)
        if load.rate is not None:
            now += random.expovariate(load.rate / load.turns) * _SECOND
    while True:
        yield None


def _beginning(load: Load, random: Random) -> tuple[Span, ...]:
    if not load.prefix_tokens or random.random() >= load.prefix_share:
        return ()
    return ((("prefix", random.randrange(load.prefixes)), load.prefix_tokens),)


def _draw(key: str, text: str) -> Draw:
    found = _CALL.fullmatch(text)
    if found is None:
        return Draw("constant", (_number(key, text),))
    kind, values = found[1], [_number(key, value) for value in found[2].split(",")]
    if kind not in _ARITY:
        raise UsageError(f"--synthetic {key}: no distribution {kind[:30]!r}", near(kind, _ARITY) or ", ".join(_ARITY))
    if len(values) != _ARITY[kind]:
        raise UsageError(f"--synthetic {key}: {kind} takes {_ARITY[kind]} numbers, not {len(values)}")
    if kind == "lognormal" and values[1] > 10:
        raise UsageError(f"--synthetic {key}: a sigma of {values[1]:g} spans more than all lengths there are")
    return Draw(kind, tuple(values))


def _prefix(text: str) -> tuple[int, float]:
    tokens, at, share = text.partition("@")
    found = _number("prefix", share) if at else 1.0
    if found > 1:
        raise UsageError(f"--synthetic prefix: a share of {share} is above 1", "prefix=3000@0.6 is 60 % of them")
    return _count("prefix", tokens), found


def _count(key: str, text: str) -> int:
    value = _number(key, text)
    if value != int(value):
        raise UsageError(f"--synthetic {key}: {text[:30]!r} is no whole number")
    return int(value)


def _rate(text: str) -> float:
    rate = _number("rate", text)
    if rate < MIN_RATE:
        raise UsageError(f"--synthetic rate: {text[:30]!r} is below {MIN_RATE:g} requests a second")
    return rate


def _number(key: str, text: str) -> float:
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        value = -1.0
    if not isfinite(value) or not 0 < value <= MAX_VALUE:
        raise UsageError(f"--synthetic {key}: {text[:30]!r} is no number above 0")
    return value
