"""What a model's weights take: its tensors, their quantised forms, and the bytes that one rank holds."""

from __future__ import annotations

from kvplan.model.weights.placement import Ranks
from kvplan.model.weights.weigh import Weights, inventory, is_computed, weigh

__all__ = ["Ranks", "Weights", "inventory", "is_computed", "weigh"]
