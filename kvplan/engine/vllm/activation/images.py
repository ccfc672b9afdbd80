"""The largest picture that a multimodal model may be sent: the profile run encodes as many as fit its token budget.

Only families whose processor's limit is in the config, or is known, are covered; of the others the share is not known,
and the ledger says so. Source: the processors' largest item by arithmetic, confirmed by the printed peaks of Gemma 3,
Mistral Small 3.1 and Granite Vision 3.3 on 0.19; Qwen's encoder by one log of the 0.28 line.
"""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.spec import ModelSpec
from kvplan.record import dataclass

_CHANNELS = 3
_PIXTRAL_SIDE = 1540  # pixels, where the config gives none
# Qwen's processors take up to 16,384 tokens a picture, each of 2 x 2 patches, whose encoder then needs more than the
# text
_QWEN = ("Qwen2VLFor", "Qwen2_5_VLFor", "Qwen3VL", "Qwen3_5")
_QWEN_PATCHES, _QWEN_MERGED = 65_536, 4


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: the tokens that it becomes in the language model, and the values of its pixels.

    `encoding` counts the values that the encoder holds at its widest, where that may be more than all that follows.
    """

    tokens: int
    values: int
    encoding: int = 0

    def bytes_of(self, batched_tokens: int, hidden: int, item: int, *, pixels: bool) -> int:
        """Return what as many pictures as fit the batch hold to the end: their tokens, and their pixels where kept."""
        count = max(1, batched_tokens // self.tokens)
        return count * (self.tokens * hidden + (self.values if pixels else 0)) * item


def takes_pictures(model: ModelSpec) -> bool:
    """Say whether the config describes an encoder beside the language model."""
    return any(name in model.config for name in ("vision_config", "audio_config", "vit_config", "visual"))


def largest_picture(model: ModelSpec, tp: int) -> Picture | None:
    """Return the largest picture of a known family on one of `tp` ranks, None for the others.

    Raises InvalidConfig for a field that cannot be read.
    """
    root = Fields(model.config)
    tower = root.maybe_section("vision_config")
    if tower is None:
        return None
    side, patch = tower.maybe_side("image_size"), tower.maybe_side("patch_size")
    if model.architecture.startswith(_QWEN):
        return _qwen(tower, patch or 0, tp)
    match model.architecture:
        case "Gemma3ForConditionalGeneration":
            tokens = root.maybe_integer("mm_tokens_per_image")
            return _square(tokens, side)
        case "Mistral3ForConditionalGeneration" | "PixtralForConditionalGeneration" if patch:
            side = side or _PIXTRAL_SIDE
            across = side // (patch * (root.maybe_integer("spatial_merge_size") or 1))
            return _square(across * across, side)
        case "LlavaForConditionalGeneration" if side and patch:
            return _square((side // patch) ** 2, side)
        case "LlavaNextForConditionalGeneration" if side and patch:
            tiles = 1 + _most_tiles(root, side)  # and the whole picture, scaled down
            return Picture(tiles * (side // patch) ** 2, tiles * _CHANNELS * side * side)
        case _:
            return None


def _qwen(tower: Fields, patch: int, tp: int) -> Picture | None:
    """A Qwen encoder holds four copies of its hidden state, its MLP and the patches themselves."""
    hidden = tower.maybe_integer("embed_dim", "hidden_size")
    if hidden is None:
        return None
    wide = tower.maybe_integer("intermediate_size") or 4 * hidden
    gated = tower.raw("hidden_act") == "silu"
    values = _CHANNELS * (tower.maybe_integer("temporal_patch_size") or 2) * patch * patch
    widest = (3 if gated else 2) * wide // tp + 4 * hidden + values
    return Picture(_QWEN_PATCHES // _QWEN_MERGED, _QWEN_PATCHES * values, _QWEN_PATCHES * widest)


def _square(tokens: int | None, side: int | None) -> Picture | None:
    return None if not tokens or not side else Picture(tokens, _CHANNELS * side * side)


def _most_tiles(root: Fields, side: int) -> int:
    """Return the tiles of the largest grid that the config allows."""
    grids = root.raw("image_grid_pinpoints")
    pairs = [pair for pair in grids if isinstance(pair, list) and len(pair) == 2] if isinstance(grids, list) else []
    sides = [{"height": high, "width": wide} for high, wide in pairs]
    sections = [Fields(one, where="image_grid_pinpoints", root=root) for one in sides]
    return max((s.integer("height") // side * (s.integer("width") // side) for s in sections), default=1)
