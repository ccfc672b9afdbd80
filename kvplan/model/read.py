"""From a Checkpoint to a ModelSpec: the family's reader, then what all have (dtype, length, quantization)."""

from __future__ import annotations

from kvplan.errors import InvalidConfig, UnknownArchitecture, near
from kvplan.model.families import Reader, architecture_of, reader_of, readers
from kvplan.model.fields import Fields
from kvplan.model.length import read_length
from kvplan.model.quantization import read_quantization
from kvplan.model.spec import ModelSpec
from kvplan.sources.checkpoint import Checkpoint

# Where the language model's section lies in a multimodal config, in the order in which engines look.
_TEXT_SECTIONS = (
    "text_config", "language_config", "llm_config", "decoder_config", "thinker_config", "lm_config", "language",
)  # fmt: skip
_DTYPES = {
    "bfloat16": "bfloat16", "bf16": "bfloat16", "float16": "float16", "half": "float16", "fp16": "float16",
    "float32": "float32", "float": "float32", "fp32": "float32",
}  # fmt: skip


def read_model(checkpoint: Checkpoint) -> ModelSpec:
    """Read a checkpoint's config; raises UnknownArchitecture or InvalidConfig, never guesses."""
    root = Fields(checkpoint.config)
    architecture, reader = _reader(root)
    text = text_section(root)
    shape = reader(text)
    if not shape.layers and shape.kind != "encoder":
        raise InvalidConfig("config.json: no layers")
    return ModelSpec(
        id=checkpoint.id,
        source=checkpoint.source,
        revision=checkpoint.revision,
        architecture=architecture,
        model_type=root.model_type,
        dtype=_dtype(root, text),
        shape=shape,
        length=read_length(text, checkpoint.tokenizer_max_length),
        hidden_size=text.maybe_integer("hidden_size", "n_embd", "n_embed", "d_model", "dim") or 0,
        vocab_size=text.maybe_integer("vocab_size", "padded_vocab_size") or 0,
        intermediate_size=_widest(text, "intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim"),
        moe_intermediate_size=_widest(text, "moe_intermediate_size"),
        num_experts=_widest(text, *_EXPERTS) or 0,
        vision_heads=_vision_heads(root),
        quantization=read_quantization(root, text, checkpoint.quant_config),
        assumed=root.assumed,
        config=checkpoint.config,
    )


_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


def text_section(root: Fields) -> Fields:
    """Return the section that describes the language model: a nested one where there is one, else the config itself."""
    section = root
    for _ in range(3):  # thinker_config.text_config is the deepest nesting met
        name = next((name for name in _TEXT_SECTIONS if section.has(name)), None)
        inner = section.maybe_section(name) if name is not None else None
        if name is None or inner is None:
            return _flat(section)
        section = inner if inner.model_type else inner.as_type(section.section_type(name))
    return section


def _flat(section: Fields) -> Fields:
    """Return the section as its class reads it where it holds the text fields of a nested class (early Qwen2-VL).

    Only a config with another nested section can be one; a plain config needs no look at its class.
    """
    if not any(name.endswith("_config") and name != "quantization_config" for name in section.names()):
        return section
    types = (section.section_type(name) for name in _TEXT_SECTIONS)
    as_type = next((found for found in types if found), "")
    return section.as_type(as_type) if as_type else section


def _reader(root: Fields) -> tuple[str, Reader]:
    architectures = root.maybe_texts("architectures") or []
    name = architectures[0] if architectures else architecture_of(root.model_type)
    if name is None:
        what = f"model_type {root.model_type!r}" if root.model_type else "neither architectures nor model_type"
        raise UnknownArchitecture(f"config.json gives no architecture ({what})", near(root.model_type, readers()))
    reader = reader_of(name)
    if reader is None:
        shown = name if len(name) <= 80 else name[:77] + "…"
        told = (near(name, readers()), f"model_type is {root.model_type!r}" if root.model_type else "")
        hint = "; ".join(part for part in told if part)
        raise UnknownArchitecture(f"kvplan has no reader for the architecture {shown!r}", hint)
    return name, reader


def _vision_heads(root: Fields) -> int | None:
    """Return the heads of a vision tower that engines split over ranks, where the config has one."""
    tower = root.maybe_section("vision_config")
    return tower.maybe_integer("num_heads", "num_attention_heads") if tower is not None else None


def _widest(text: Fields, *names: str) -> int | None:
    """Return a size that some families give as a list (Gemma 3n by layer, Ernie-VL by modality): the largest."""
    name = next((name for name in names if text.has(name)), names[0])
    if isinstance(text.raw(name), list):
        return max(text.maybe_integers(name) or [0]) or None
    return text.maybe_integer(*names, low=0) or None


def _dtype(root: Fields, text: Fields) -> str:
    """Return the checkpoint's dtype; float32 where no section says one, as the Hub's own library assumes."""
    for section in (root, text, root.maybe_section("vision_config"), root.maybe_section("encoder_config")):
        if section is None:
            continue
        written = section.maybe_text("dtype", "torch_dtype")
        if written is None:
            continue
        name = written.removeprefix("torch.")
        if name not in _DTYPES:
            raise section.bad("dtype", "bfloat16, float16 or float32", written)
        return _DTYPES[name]
    return "float32"
