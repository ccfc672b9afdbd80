"""The model as SGLang's classes see it: one geometry for all layers, its latents, windows, states and vision tower.

SGLang asks the config for model-wide figures and multiplies by a count of layers, where vLLM asks every layer. So a
model whose layers differ is counted by its first kind, unless its architecture is on one of the lists. Source: SGLang
0.5.23, configs/model_config.py and model_executor/pool_configurator.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from kvplan.engine.sglang.releases import Release, lists, towers
from kvplan.model.fields import Fields
from kvplan.model.read import text_section
from kvplan.model.spec import (
    Attention,
    Chunked,
    CompressedLatent,
    Cross,
    Full,
    Indexer,
    Latent,
    Layer,
    ModelSpec,
    Shared,
    State,
    Window,
)
from kvplan.record import dataclass

_KINDS = (Full, Window, Chunked, Cross)
_NESTED = ("thinker_config", "llm_config", "language_config", "text_config")


@dataclass(frozen=True, slots=True)
class Heads:
    """Keys and values of one layer: `kv_heads` x (`head_dim` + `head_dim_v`) elements a token, over all ranks."""

    kv_heads: int
    head_dim: int
    head_dim_v: int


@dataclass(frozen=True, slots=True)
class Windows:
    """Layers whose windows have a pool of their own; `admitted` is the window that the fit check asks for."""

    heads: Heads
    layers: int
    full_layers: int
    admitted: int | None


@dataclass(frozen=True, slots=True)
class Index:
    """Keys of a sparse indexer: `layers` compute and keep them; `quantised` as in spec.Indexer."""

    head_dim: int
    layers: int
    quantised: bool
    pooled: int


@dataclass(frozen=True, slots=True)
class Served:
    """What decides a model's bytes: `layers` keep keys and values, or latents, at full length.

    `attention`: `grouped` heads, `latent` vectors (MLA), `compressed` ones (DeepSeek-V4), or `none` (states alone).
    `vision` is (layers, width) of the vision tower as the engine reads them, None where the config has no section.
    """

    architecture: str
    attention: Literal["grouped", "latent", "compressed", "none"]
    heads: Heads
    layers: int
    latent: tuple[int, int]
    compressed: tuple[CompressedLatent, ...]
    index: Index | None
    windows: Windows | None
    states: tuple[State, ...]
    multimodal: bool
    vision: tuple[int, int] | None
    native: bool

    def on(self, name: str) -> bool:
        """Say whether the architecture is on one of the engine's lists."""
        return self.architecture in lists()[name]

    @property
    def sparse(self) -> bool:
        """Whether attention selects latents by an index (DeepSeek sparse attention)."""
        return self.attention == "latent" and self.index is not None


def stage_of(model: ModelSpec, stage: range) -> ModelSpec:
    """Return the model of one pipeline stage; a layer that shares an earlier one's cache is charged as that one."""
    layers: list[Layer] = []
    for layer in model.shape.layers:
        shared = next((cache for cache in layer if isinstance(cache, Shared)), None)
        layers.append(layer if shared is None else layers[shared.layer])
    return replace(model, shape=replace(model.shape, layers=tuple(layers[stage.start : stage.stop])))


def serve(model: ModelSpec, release: Release, *, multimodal: bool | None, split: bool) -> Served:
    """Read the model as the engine does; `multimodal` is --enable-multimodal, `split` false keeps windows whole."""
    root = Fields(model.config)
    text = text_section(root)
    known = lists()
    name = model.architecture
    latent = name in known["latent"] and text.maybe_integer("kv_lora_rank") is not None
    compressed = tuple(cache for cache in model.shape.caches() if isinstance(cache, CompressedLatent))
    has_states = name in known["states"] and release.states != "none"
    states = tuple(cache for cache in model.shape.caches() if isinstance(cache, State)) if has_states else ()
    layers = _layers(model, text, counted_alone=bool(states))
    attention: Literal["grouped", "latent", "compressed", "none"] = "latent" if latent else "grouped"
    if compressed:
        attention = "compressed"
    elif not layers:
        attention = "none"
    return Served(
        architecture=name,
        attention=attention,
        heads=_heads(model, _attention(model)),
        layers=layers,
        latent=_latent(model, text) if latent else (0, 0),
        compressed=compressed,
        index=_index(model, text, latent=latent),
        windows=_windows(model, text, release) if split and not latent and not compressed else None,
        states=states,
        multimodal=_multimodal(root, name, release, asked=multimodal),
        vision=_vision(root),
        native=name in known["native"],
    )


# -- layers and heads -------------------------------------------------------------------------------------------------


def _attention(model: ModelSpec) -> list[Attention]:
    return [cache for cache in model.shape.caches() if isinstance(cache, _KINDS)]


def _heads(model: ModelSpec, caches: Iterable[Attention]) -> Heads:
    """Return the geometry of the whole-length layers, or of the first layer where there are none."""
    found = list(caches)
    first = next((cache for cache in found if isinstance(cache, Full)), found[0] if found else None)
    if first is None:
        return Heads(model.shape.kv_heads, model.shape.head_dim, model.shape.head_dim)
    return Heads(first.kv_heads, first.head_dim, first.head_dim_v)


def _layers(model: ModelSpec, text: Fields, *, counted_alone: bool) -> int:
    """Return the layers that are charged: all of them, or those with attention in a model with a pool of states."""
    kept = sum(any(isinstance(cache, (*_KINDS, Latent)) for cache in layer) for layer in model.shape.layers)
    if counted_alone or not model.shape.heads:
        return kept
    latents = max((sum(isinstance(cache, Latent) for cache in layer) for layer in model.shape.layers), default=1)
    loops = text.maybe_integer("loop_num", "num_loops", high=64) or 1
    if model.architecture == "WhisperForConditionalGeneration":
        # its layer ids run over the encoder, the decoder and the cross attention, whether they keep a cache or not
        return text.integer("encoder_layers", low=0) + 2 * text.integer("decoder_layers", low=0)
    count = text.layers() if loops > 1 else len(model.shape.layers)
    return count * max(1, latents) * loops


def _latent(model: ModelSpec, text: Fields) -> tuple[int, int]:
    """Return the rank of the latent and the rope dimension beside it."""
    latent = next((cache for cache in model.shape.caches() if isinstance(cache, Latent)), None)
    if latent is not None:
        return latent.rank, latent.rope_dim
    return text.integer("kv_lora_rank"), text.integer("qk_rope_head_dim", low=0)


def _index(model: ModelSpec, text: Fields, *, latent: bool) -> Index | None:
    """Return the indexer: of DeepSeek's sparse attention where the class is on its list, or of MiniMax-M3."""
    keys = [cache for cache in model.shape.caches() if isinstance(cache, Indexer)]
    if not keys or (latent and model.architecture not in lists()["sparse"]):
        return None
    return Index(keys[0].head_dim, len(keys), keys[0].quantised, text.maybe_integer("index_kpool") or 1)


# -- windows ----------------------------------------------------------------------------------------------------------

# Gemma's and gpt-oss's classes count the current token out of the window; MiMo's and Llama-4's return it as it stands.
_INCLUSIVE = frozenset({
    "Llama4ForConditionalGeneration", "MiMoV2ForCausalLM", "MiMoV2FlashForCausalLM", "Step3p5ForCausalLM",
    "Step3p7ForConditionalGeneration",
})  # fmt: skip
_BY_METHOD = ("Gemma2ForCausalLM", "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "Gemma3nForCausalLM",
              "Gemma3nForConditionalGeneration", "GptOssForCausalLM")  # fmt: skip


def _windows(model: ModelSpec, text: Fields, release: Release) -> Windows | None:
    name = model.architecture
    listed = name in lists()["split_windows"] or text.flag("is_hybrid_swa")
    if not (release.windows == "listed" and listed) and not (release.windows == "by_method" and name in _BY_METHOD):
        return None
    local = [cache for cache in model.shape.caches() if isinstance(cache, Window | Chunked)]
    if not local:
        return None
    first = local[0]
    span = first.window if isinstance(first, Window) else first.chunk
    return Windows(
        heads=Heads(first.kv_heads, first.head_dim, first.head_dim_v),
        layers=_count(model, (Window, Chunked)),
        full_layers=_count(model, (Full,)),
        admitted=span if name in _INCLUSIVE else span - 1,
    )


def _count(model: ModelSpec, kinds: tuple[type, ...]) -> int:
    """Return the layers that keep a cache of one of these kinds."""
    return sum(any(isinstance(cache, kinds) for cache in layer) for layer in model.shape.layers)


# -- other inputs -----------------------------------------------------------------------------------------------------


def _multimodal(root: Fields, name: str, release: Release, *, asked: bool | None) -> bool:
    """Say whether the model takes images or sound: its class is listed, or its language model is a nested section."""
    known = lists()
    if asked is None and release.multimodal_off and name in known["multimodal_off"]:
        return False
    if asked is None and name == "MiMoV2ForCausalLM" and not (root.has("vision_config") and root.has("audio_config")):
        return False
    if asked is False or root.flag("language_model_only"):
        return False
    wrapped = any(root.has(nested) for nested in _NESTED) and not (
        name.startswith("Llava") and name.endswith("ForCausalLM")
    )
    return name in known["multimodal"] or wrapped


_TOWER = (24, 1024)  # what the engine takes where neither the section nor its class says anything (ViT-L/14)


def _vision(root: Fields) -> tuple[int, int] | None:
    """Return (layers, width) of the vision tower, as attributes of the section's class; None where there is none."""
    section = root.maybe_section("vision_config")
    known = towers()
    if section is None:
        return known.get(root.model_type)
    layers, width = known.get(section.model_type) or known.get(root.model_type) or _TOWER
    return (
        section.maybe_integer("num_hidden_layers", "vt_num_hidden_layers") or layers,
        section.maybe_integer("hidden_size", "vt_hidden_size") or width,
    )
