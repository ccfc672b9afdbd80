"""The tensors of a checkpoint, computed from its config: the family's rule, then the quantised form of each matrix."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from kvplan.model.fields import Fields
from kvplan.model.read import text_section
from kvplan.model.spec import ModelSpec
from kvplan.model.weights.expand import expand
from kvplan.model.weights.families import NoRule, rule_of
from kvplan.model.weights.forms import Form
from kvplan.model.weights.packing import packed_for
from kvplan.model.weights.placement import Ranks
from kvplan.model.weights.schemes import scheme_of
from kvplan.model.weights.schemes.scheme import PLAIN, UNQUANTISED, Capability, Scheme
from kvplan.model.weights.tensors import Linear, Part, Tensor
from kvplan.model.weights.text import Text


def parts_of(model: ModelSpec) -> list[Part] | None:
    """Return the matrices and tensors of a model, not yet quantised; None where it, or a part of it, has no rule."""
    rule = rule_of(model.architecture)
    if rule is None:
        return None
    text = text_section(Fields(model.config))
    try:
        return rule(Text(text, model.shape, model.architecture))
    except NoRule:
        return None


def scheme_for(model: ModelSpec, asked: str | None = None, capability: Capability | None = None) -> Scheme:
    """Return how a model's matrices are quantised; `asked` is --quantization, `capability` that of the card."""
    return scheme_of(model.quantization, asked, Fields(model.config), capability=capability)


def quantised(parts: Iterable[Part], scheme: Scheme, ranks: Ranks | None = None) -> Iterator[Tensor]:
    """Yield the tensors of all parts, each matrix in the form that the scheme gives it in each of its layers.

    `ranks`: as the engine makes room for them there; None: as the checkpoint stores them.
    """
    for part in parts:
        if isinstance(part, Tensor):
            yield part
            if part.name.endswith(scheme.scaled):
                for count, dtype in scheme.scales:
                    yield replace(part, name=f"{part.name}.{dtype}", shape=(count,), dtype=dtype)
            continue
        for form, layers in forms_of(part, scheme):
            matrix = replace(part, layers=layers) if layers != part.layers else part
            yield from expand(matrix, form if ranks is None else packed_for(matrix, form, ranks))


def forms_of(matrix: Linear, scheme: Scheme) -> Iterator[tuple[Form, tuple[int, ...] | None]]:
    """Yield each form that the matrix has, with the layers in which it has it."""
    if scheme is UNQUANTISED or matrix.kind in ("plain", "embedding"):
        yield PLAIN, matrix.layers
        return
    if matrix.layers is None:  # the layers of a tower are taken to be alike
        yield scheme.choose(matrix.name.replace("{}", "0"), matrix.kind), None
        return
    by_form: defaultdict[Form, list[int]] = defaultdict(list)
    for layer in matrix.layers:
        name = matrix.name.replace("{}", str(layer), 1).replace("{}", "0")
        by_form[scheme.choose(name, matrix.kind)].append(layer)
    for form, layers in by_form.items():
        yield form, tuple(layers)
