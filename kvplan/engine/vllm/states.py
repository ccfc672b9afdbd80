"""The states of recurrent layers on one rank, and whether the engine can save them from inside a prefill.

Shapes are those of the engine's state calculators; the convolution keeps its last `kernel` - 1 inputs, and one more for
each speculative token.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import assert_never

from kvplan.model.spec import (
    GatedDeltaNet,
    KimiDelta,
    Lightning,
    LinearRecurrence,
    Mamba1,
    Mamba2,
    Mixer,
    Rwkv,
    ShortConv,
    State,
)
from kvplan.record import dataclass

_ITEM = {"bfloat16": 2, "float16": 2, "float32": 4}


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor of a state: its shape on one rank, and the bytes of an element."""

    shape: tuple[int, ...]
    item: int


def state_parts(state: State, tp: int, speculative: int, dtype: str) -> tuple[Part, ...]:
    """Return the tensors of one layer's state on one of `tp` ranks; sizes that do not divide are rounded down."""
    conv, recurrent = _ITEM[dtype], _ITEM[state.recurrent_dtype or dtype]
    mixer = state.mixer
    match mixer:
        case Mamba1():
            inner = mixer.inner // tp
            return (Part((mixer.kernel - 1, inner), conv), Part((inner, mixer.state), recurrent))
        case Mamba2():
            groups = mamba2_groups(mixer.groups, tp)
            width = (mixer.inner + 2 * groups * mixer.state) // tp
            return (
                Part((mixer.kernel - 1 + speculative, width), conv),
                Part((mixer.heads // tp, mixer.head_dim, mixer.state), recurrent),
            )
        case GatedDeltaNet():
            width = (2 * mixer.k_heads * mixer.k_dim + mixer.v_heads * mixer.v_dim) // tp
            return (
                Part((mixer.kernel - 1 + speculative, width), conv),
                Part((mixer.v_heads // tp, mixer.v_dim, mixer.k_dim), recurrent),
            )
        case KimiDelta():
            width = (mixer.heads * mixer.head_dim + 2 * mixer.k_heads * mixer.k_dim) // tp
            return (
                Part((mixer.kernel - 1 + speculative, width), conv),
                Part((mixer.heads // tp, mixer.head_dim, mixer.head_dim), recurrent),
            )
        case Lightning():
            return (Part((mixer.heads // tp, mixer.head_dim, mixer.head_dim), recurrent),)
        case ShortConv():
            return (Part((mixer.kernel - 1 + speculative, mixer.dim // tp), conv),)
        case LinearRecurrence():
            return (Part((mixer.kernel - 1, mixer.dim // tp), conv), Part((mixer.dim // tp,), recurrent))
        case Rwkv():
            return (
                Part((2, mixer.hidden), conv),
                Part((mixer.heads // tp, mixer.head_dim, mixer.head_dim), recurrent),
            )
        case _:
            assert_never(mixer)


def mamba2_groups(groups: int, tp: int) -> int:
    """Return the groups over all ranks, copied so that each rank has those of its heads where tp divides them not."""
    return groups if groups % tp == 0 else tp


def _grid(mixer: Mixer, capability: tuple[int, int], dtype: str) -> int | None:
    """Return the token grid on which a layer's prefill kernel can hand out a state, or None where it cannot."""
    match mixer:
        case GatedDeltaNet():
            # FlashInfer's prefill: Hopper; Blackwell with keys of 128 (CUDA 13)
            flashinfer = capability == (9, 0) or (capability[0] in (10, 12) and mixer.k_dim == 128)
            return 64 if flashinfer else None
        case KimiDelta():
            flash = mixer.bounded and capability[0] in (9, 10, 12) and mixer.head_dim == 128 and dtype == "bfloat16"
            return 16 if flash else None
        case _:
            return None


# Its gated delta net has a class of its own, whose prefill hands out no states
WITHOUT_CHECKPOINTS = frozenset({"OlmoHybridForCausalLM"})


def checkpoint_alignment(states: Sequence[State], capability: tuple[int, int], dtype: str) -> int | None:
    """Return the grid that blocks are aligned to: that of gated delta nets where all state layers have one."""
    grids = [_grid(state.mixer, capability, dtype) for state in states if not isinstance(state.mixer, KimiDelta)]
    if not grids or any(grid is None for grid in grids) or len(grids) < len(states):
        return None
    return lcm(*(grid for grid in grids if grid is not None))


def exports_checkpoint(states: Sequence[State], capability: tuple[int, int], dtype: str) -> bool:
    """Say whether a request keeps a third block for a state saved from inside a prefill."""
    first = states[0].mixer
    if isinstance(first, Mamba2):
        return True  # a chunk can be made to end at any token
    return all(_grid(state.mixer, capability, dtype) is not None for state in states)
