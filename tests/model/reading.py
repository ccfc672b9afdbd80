"""Reading a config as a checkpoint would be, for the tables of the families' tests."""

from __future__ import annotations

from itertools import groupby

from kvplan.model.read import read_model
from kvplan.model.spec import Layer, Shape
from kvplan.sources.checkpoint import Checkpoint


def shape_of(architecture: str, config: dict[str, object]) -> Shape:
    """Return the shape that the reader of `architecture` finds in a config."""
    return read_model(Checkpoint("test", "file", {"architectures": [architecture], **config})).shape


def runs(layers: tuple[Layer, ...]) -> list[tuple[int, Layer]]:
    """Return the layers as (how many in a row, which), which reads as the pattern that a family repeats."""
    return [(len(list(group)), layer) for layer, group in groupby(layers)]
