"""How decode attention is cut: tile, warps and stages by chip and kind of row, and the context that a program takes.

No autotuning at run time: a table that is read in one sitting. Until a GPU has timed it, its rows rest on what the
compiler prints (registers, spills, shared memory; tests/kernels/test_compiled.py holds them to it).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .contract import ContractError

FP8_CONVERTS = 89  # sm_89 was the first to turn a word of two fp8 values into two fp16 values
_RESIDENT = 4  # programs that a multiprocessor holds at once by the registers of this table; of MLA one
_WAVES = 4  # programs for each slot of the card: enough that the last wave, partly empty, costs little
_SHORTEST = 512  # tokens: the partial outputs of four query heads weigh 2 % of as much context in bf16
_SHORTEST_A_HEAD = 64  # and those of MLA's, 512 values each, 6 % of 64 tokens a head


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


# (chip family, kind of row, up to this many 16-bit words) -> tiling; the first row that fits is taken. Element size and
# head dim both come in as the words of a row. Stages 3 give one buffer of K and V ahead: the page ids take the others.
_TABLE = (
    # a key of one run: four programs a multiprocessor hide the latency better than a deeper pipeline of one
    ("cuda", "whole", 128, Tiling(64, 4, 3, 32)),
    ("cuda", "whole", 256, Tiling(32, 4, 3, 32)),
    ("cuda", "whole", 512, Tiling(32, 8, 2, 16)),  # 83 KB of shared memory; sm_89 and sm_120 have 99
    # of two runs: 64 tokens make the layout of a 16-word run repeat itself (196 registers at D 80, against 86)
    ("cuda", "split", 256, Tiling(32, 4, 3, 16)),
    ("cuda", "split", 512, Tiling(32, 8, 2, 16)),
    # MLA: 64 query heads spill 70 values on sm_90, 32 none
    ("cuda", "latent", 576, Tiling(32, 8, 2, 32)),
    ("hip", "whole", 128, Tiling(64, 4, 3, 32)),
    ("hip", "whole", 256, Tiling(32, 4, 3, 32)),
    ("hip", "whole", 512, Tiling(32, 8, 2, 16)),  # just the 64 KB of a compute unit
    ("hip", "split", 256, Tiling(32, 4, 3, 16)),
    ("hip", "split", 512, Tiling(16, 4, 2, 16)),
    ("hip", "latent", 576, Tiling(16, 4, 2, 32)),  # 32 tokens spill 288 values on gfx942
)


# What `verify --tune` and the benchmark time: more stages pay from 5 on (4 compiles to what 3 does)
CANDIDATES = (
    Tiling(32, 4, 3, 32), Tiling(32, 4, 5, 32), Tiling(64, 4, 3, 32), Tiling(64, 4, 5, 32), Tiling(64, 8, 3, 32),
    Tiling(128, 8, 3, 32),
)  # fmt: skip
LATENT_CANDIDATES = (
    Tiling(16, 4, 2, 32), Tiling(32, 8, 2, 16), Tiling(32, 8, 2, 32), Tiling(32, 8, 2, 64), Tiling(64, 8, 2, 32),
)  # fmt: skip


def choose(chip: Chip, *, words: int, latent: bool) -> Tiling:
    """Return the tiling for keys of `words` 16-bit words; raises ContractError for rows wider than any in the table."""
    kind = "latent" if latent else "split" if words & (words - 1) else "whole"
    family = "hip" if chip.family == "hip" else "cuda"
    for of_family, of_kind, widest, found in _TABLE:
        if (of_family, of_kind) == (family, kind) and words <= widest:
            return found
    raise ContractError(f"k: rows of {words} words are wider than the kernel's table")


def chunk_size(chip: Chip, *, tokens: int, longest: int, blocks: int, group: int, tile: int, latent: bool) -> int:
    """Return the tokens of context that one program takes, a whole number of tiles.

    `tokens` is the most that all requests together can have, `longest` the most of one, `blocks` the programs a chunk
    (KV heads times blocks of query heads), `group` the query heads a KV head. Chunks are long enough for their partial
    outputs to weigh little, unless that left the card without one full wave of programs.
    """
    slots = chip.units * (1 if latent else _RESIDENT)
    wave = -(-tokens * blocks // slots)
    least = max(_SHORTEST, min(_SHORTEST_A_HEAD * group, wave))
    wanted = min(max(-(-wave // _WAVES), least), longest)
    return max(tile, -(-wanted // tile) * tile)
