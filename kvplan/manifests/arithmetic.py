"""Whole-number arithmetic as `$((…))` writes it: `+ - * / %`, brackets, names."""

from __future__ import annotations

import re
from collections.abc import Callable

NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)
_TERM = re.compile(r"\s*(?:([0-9]{1,15})|\$?\{?([A-Za-z_][A-Za-z0-9_]*)\}?|([-+*/%()]))", re.ASCII)
_MAX_TERMS = 64  # a serving script multiplies two or three numbers


def evaluate(expression: str, number: Callable[[str], int]) -> int | None:
    """Return what an expression comes to, `number` giving the value of a name; None where it is none that is known."""
    terms: list[int | str] = []
    text, position = expression.strip(), 0
    while position < len(text):
        found = _TERM.match(text, position)
        if found is None or len(terms) == _MAX_TERMS:
            return None
        position = found.end()
        terms.append(int(found[1]) if found[1] else found[3] or number(found[2]))
    terms.reverse()
    try:
        result = _sum(terms)
    except (ArithmeticError, LookupError, ValueError):
        return None
    return result if not terms and abs(result) < 10**15 else None


def _sum(terms: list[int | str]) -> int:
    value = _product(terms)
    while terms and terms[-1] in ("+", "-"):
        value = value + _product(terms) if terms.pop() == "+" else value - _product(terms)
    return value


def _product(terms: list[int | str]) -> int:
    value = _factor(terms)
    while terms and terms[-1] in ("*", "/", "%"):
        operator, other = terms.pop(), _factor(terms)
        value = value * other if operator == "*" else value // other if operator == "/" else value % other
    return value


def _factor(terms: list[int | str]) -> int:
    term = terms.pop()
    if isinstance(term, int):
        return term
    if term == "-":
        return -_factor(terms)
    if term != "(":
        raise ValueError(term)
    value = _sum(terms)
    if terms.pop() != ")":
        raise ValueError(term)
    return value
