"""The mixers that keep a state in place of keys and values: Mamba 1 and 2, gated delta nets, short convolutions.

Groups of Mamba-2 behave as KV heads do: ranks beyond them keep copies. The engine keeps a second, contiguous copy of
Mamba-2's convolution weights (`conv_weights`). Source: vLLM 0.33.0, model_executor/layers/mamba.
"""

from __future__ import annotations

from typing import Any, TypeVar

from kvplan.model.fields import Fields
from kvplan.model.spec import Full, GatedDeltaNet, Mamba1, Mamba2, Mixer, ShortConv, State, Window
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import Linear, Part, Role, Tensor
from kvplan.model.weights.text import Text

_Mixer = TypeVar("_Mixer", bound=Mixer)


def mixer_layers(text: Text, kind: type[_Mixer]) -> tuple[list[int], _Mixer | None]:
    """Return the layers that have a state of this kind, and the mixer."""
    found = [
        (i, cache.mixer)
        for i in text.layers
        for cache in text.shape.layers[i]
        if isinstance(cache, State) and isinstance(cache.mixer, kind)
    ]
    return [i for i, _ in found], found[0][1] if found else None


def attending(text: Text) -> list[int]:
    """Return the layers that keep keys and values."""
    return [i for i in text.layers if any(isinstance(cache, Full | Window) for cache in text.shape.layers[i])]


def needed(config: Fields, mixer: _Mixer | None, name: str) -> _Mixer:
    """Return the mixer; raises InvalidConfig where no layer has one."""
    if mixer is None:
        raise config.lacks(name)
    return mixer


def mamba1(
    at: Scope, hidden: int, mixer: Mamba1, rank: int, *, bias: bool = False, conv_bias: bool = True
) -> list[Part]:
    """Return a selective state space over `mixer.inner` channels, whose step sizes have `rank`."""
    inner, state = mixer.inner, mixer.state
    parts: list[Part] = [
        at.linear("in_proj", 2 * inner, hidden, bias=bias),
        at.linear("x_proj", rank + 2 * state, inner, Role.ROW),
        at.linear("dt_proj", inner, rank, bias=True),
        at.linear("out_proj", hidden, inner, Role.ROW, bias=bias),
        at.tensor("A_log", inner, state, role=Role.COLUMN, dtype="float32"),
        at.tensor("D", inner, role=Role.COLUMN),
        at.tensor("conv1d.weight", inner, 1, mixer.kernel, role=Role.COLUMN),
    ]
    return [*parts, at.tensor("conv1d.bias", inner, role=Role.COLUMN)] if conv_bias else parts


def mamba2(
    at: Scope, hidden: int, mixer: Mamba2, *, bias: bool = False, conv_bias: bool = True, norm: bool = True
) -> list[Part]:
    """Return a state space dual mixer: gate, input, B, C and step sizes from one projection."""
    inner, groups, width = mixer.inner, mixer.groups, mixer.groups * mixer.state
    by_group: dict[str, Any] = {"role": Role.KV, "heads": groups}
    parts: list[Part] = [
        at.linear("in_proj", inner, hidden, bias=bias),
        at.linear("in_proj", inner, hidden, bias=bias, leads=False),
        at.linear("in_proj", width, hidden, bias=bias, leads=False, **by_group),
        at.linear("in_proj", width, hidden, bias=bias, leads=False, **by_group),
        at.linear("in_proj", mixer.heads, hidden, bias=bias, leads=False),
        at.linear("out_proj", hidden, inner, Role.ROW, bias=bias),
        at.tensor("A_log", mixer.heads, role=Role.COLUMN, dtype="float32"),
        at.tensor("D", mixer.heads, role=Role.COLUMN),
        at.tensor("dt_bias", mixer.heads, role=Role.COLUMN),
    ]
    for rows, more in ((inner, {"role": Role.COLUMN}), (width, by_group), (width, by_group)):
        parts.append(at.tensor("conv1d.weight", rows, 1, mixer.kernel, **more))
        parts.append(at.tensor("conv_weights", rows, mixer.kernel, holder="engine", **more))
        if conv_bias:
            parts.append(at.tensor("conv1d.bias", rows, **more))
    return [*parts, at.tensor("norm.weight", inner, role=Role.COLUMN)] if norm else parts


def short_conv(at: Scope, hidden: int, mixer: ShortConv, *, bias: bool = False) -> list[Part]:
    """Return a gated short convolution."""
    parts: list[Part] = [
        *(at.linear("in_proj", mixer.dim, hidden, bias=bias, leads=index == 0) for index in range(3)),
        at.linear("out_proj", hidden, mixer.dim, Role.ROW, bias=bias),
        at.tensor("conv.weight", mixer.dim, 1, mixer.kernel, role=Role.COLUMN),
    ]
    return [*parts, at.tensor("conv.bias", mixer.dim, role=Role.COLUMN)] if bias else parts


def gated_delta(
    at: Scope,
    hidden: int,
    mixer: GatedDeltaNet,
    *,
    qkv: str = "in_proj_qkvz",
    z: str = "in_proj_qkvz",
    b: str = "in_proj_ba",
    a: str = "in_proj_ba",
    whole: bool = False,
) -> list[Part]:
    """Return a gated delta net; checkpoints store its input projections merged in one way or another.

    `whole`: every rank holds the small ones, b and a, entirely.
    """
    keys, values = mixer.k_heads * mixer.k_dim, mixer.v_heads * mixer.v_dim
    rows: tuple[tuple[str, int], ...] = ((qkv, keys), (qkv, keys), (qkv, values), (z, values))
    inputs: list[Linear] = [at.linear(name, size, hidden, leads=index == 0) for index, (name, size) in enumerate(rows)]
    small = Role.REPLICATED if whole else Role.COLUMN
    inputs += [at.linear(name, mixer.v_heads, hidden, small, leads=name != a or a == b) for name in (b, a)]
    own: list[Tensor] = [
        at.tensor("dt_bias", mixer.v_heads, role=Role.COLUMN),
        at.tensor("A_log", mixer.v_heads, role=Role.COLUMN, dtype="float32"),
        at.tensor("conv1d.weight", 2 * keys + values, 1, mixer.kernel, role=Role.COLUMN),
        at.tensor("norm.weight", mixer.v_dim),
    ]
    return [*inputs, *own, at.linear("out_proj", hidden, values, Role.ROW)]
