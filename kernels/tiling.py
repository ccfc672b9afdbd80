"""How decode attention is cut: tile, warps and stages by chip and kind of row, and the context that a program takes.

No autotuning at run time: a table that is read in one sitting. Until a GPU has timed it, its rows rest on what the
compiler prints (registers, spills, shared memory; tests/kernels/test_compiled.py holds them to it).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

FP8_CONVERTS = 89  # sm_89 was the first to turn a word of two fp8 values into two fp16 values
_WAVES = 4  # programs for each slot of the card: enough that the last wave, partly empty, costs little
_SHORTEST = 512  # tokens: below this the partial outputs of a chunk weigh more than 2 % of its context
_SHORTEST_LATENT = 8192  # the same for MLA, whose 64 heads write 64 x 512 partial values a chunk


@dataclass(frozen=True, slots=True)
class Chip:
    """What decides between variants: `family` is cuda, hip or cpu, `arch` 90 for sm_90 (0 elsewhere)."""

    family: str
    arch: int
    units: int  # multiprocessors or compute units

    @property
    def converts_fp8(self) -> bool:
        """Whether one instruction turns fp8 into fp16."""
        return self.family == "cuda" and self.arch >= FP8_CONVERTS


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tokens a step, warps and pipeline stages of a program, and the most query heads that it takes."""

    tile: int
    warps: int
    stages: int
    rows: int


def chip_of(device: torch.device) -> Chip:
    """Return the chip of a device; the interpreter counts as one with four units."""
    if device.type != "cuda":
        return Chip("cpu", 0, 4)
    facts = torch.cuda.get_device_properties(device)
    if torch.version.hip:
        return Chip("hip", 0, facts.multi_processor_count)
    return Chip("cuda", facts.major * 10 + facts.minor, facts.multi_processor_count)


def choose(chip: Chip, *, words: int, latent: bool, fp8: bool) -> Tiling:
    """Return the tiling of a row of `words` 16-bit words."""
    return Tiling(32, 8, 2, 64) if latent else Tiling(64, 4, 3, 64)


def chunk_size(chip: Chip, *, tokens: int, longest: int, blocks: int, tile: int, latent: bool) -> int:
    """Return the tokens of context that one program takes, a whole number of tiles.

    `tokens` is the most that all requests together can have, `longest` the most of one, `blocks` the programs a chunk
    (KV heads times blocks of query heads).
    """
    slots = chip.units * (1 if latent else 2)
    even = -(-tokens * blocks // (_WAVES * slots))
    wanted = min(max(even, _SHORTEST_LATENT if latent else _SHORTEST), longest)
    return max(tile, -(-wanted // tile) * tile)
