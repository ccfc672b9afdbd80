"""The weight rules: one file a family, each turning a config into the matrices and tensors of the model.

A rule is registered under the architecture names that it knows, and imported only where one of them is asked for.
Adding a family is adding one file; an architecture without a rule has no exact weights.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from kvplan.model.weights.tensors import Part
from kvplan.model.weights.text import Text

Rule: TypeAlias = Callable[[Text], list[Part]]
_RULES: dict[str, Rule] = {}
# A pooling or scoring head on a decoder: its base model has the same name with another ending.
_BASES = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "Model")
_HEADS = (
    "ForTextEncoding", "EmbeddingModel", "ForSequenceClassification", "ForTokenClassification", "ClassificationModel",
    "ForRewardModeling", "ForRewardModel", "RewardModel", "Model",
)  # fmt: skip


class NoRule(Exception):
    """The language model inside a wrapper has no weight rule."""


def weighs(*architectures: str) -> Callable[[Rule], Rule]:
    """Register a rule for these architectures."""

    def register(rule: Rule) -> Rule:
        for name in architectures:
            assert name not in _RULES, f"{name} has two weight rules"
            _RULES[name] = rule
        return rule

    return register


def rule_of(architecture: str) -> Rule | None:
    """Return the rule of an architecture, or of the decoder under its pooling or scoring head."""
    return next((rule for name in _candidates(architecture) if (rule := _rule(name)) is not None), None)


def rules() -> dict[str, Rule]:
    """Return all rules by architecture."""
    for path in _files():
        import_module(f"{__name__}.{path.stem}")
    return _RULES


def _candidates(architecture: str) -> Iterator[str]:
    yield architecture
    for head in _HEADS:
        if architecture.endswith(head) and (stem := architecture.removesuffix(head)):
            yield from (stem + base for base in _BASES)


def _rule(architecture: str) -> Rule | None:
    if architecture not in _RULES and architecture.isidentifier():
        registers = re.compile(rb'^@weighs\([^)]*"' + architecture.encode() + b'"', re.MULTILINE)
        path = next((path for path in _files() if registers.search(path.read_bytes())), None)
        if path is not None:
            import_module(f"{__name__}.{path.stem}")
    return _RULES.get(architecture)


def _files() -> list[Path]:
    return sorted(Path(__file__).parent.glob("[a-z]*.py"))
