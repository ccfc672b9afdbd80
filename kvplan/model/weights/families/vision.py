"""Wrappers around a language model and a CLIP, SigLIP or Pixtral tower: LLaVA, Gemma 3, Mistral 3, Idefics, others."""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.weights.families import weighs
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text
from kvplan.model.weights.towers import (
    NESTED,
    any_vit,
    clip,
    feature_depth,
    language_model,
    pixtral,
    section,
    siglip,
    tower,
)

PROJECTOR = "multi_modal_projector"


def two_step(
    at: Scope, rows: int, columns: int, *, bias: bool, split: bool, names: tuple[str, str] = ("linear_1", "linear_2")
) -> list[Part]:
    """Return a projector of two layers, both of `rows` outputs."""
    first, second = (Role.COLUMN, Role.ROW) if split else (Role.TOWER, Role.TOWER)
    return [at.linear(names[0], rows, columns, first, bias=bias), at.linear(names[1], rows, rows, second, bias=bias)]


@weighs("LlavaForConditionalGeneration", "LlavaNextForConditionalGeneration", "LlavaNextVideoForConditionalGeneration")
@weighs("LlavaOnevisionForConditionalGeneration")
def llava(text: Text) -> list[Part]:
    """Return the parts of a LLaVA 1.5, 1.6 or OneVision."""
    vision, root = section(text), text.config.root
    bias = root.flag("multimodal_projector_bias", default=True)
    split = text.architecture in ("LlavaForConditionalGeneration", "LlavaNextForConditionalGeneration")
    layers = root.raw("vision_feature_layer")
    width = vision.integer("hidden_size") * (len(layers) if isinstance(layers, list) else 1)
    parts = [
        *any_vit("vision_tower.vision_model", vision, feature_depth(text, vision)),
        *two_step(tower(PROJECTOR), text.hidden, width, bias=bias, split=split),
        *language_model(text),
    ]
    if text.architecture in ("LlavaNextForConditionalGeneration", "LlavaOnevisionForConditionalGeneration"):
        parts.append(tower("").tensor("image_newline", text.hidden))
    return parts


@weighs("Mistral3ForConditionalGeneration", "LightOnOCRForConditionalGeneration", "LightOnOcrForConditionalGeneration")
def mistral3(text: Text) -> list[Part]:
    """Return the parts of a Mistral 3: a Pixtral tower whose patches are merged."""
    vision, root = section(text), text.config.root
    at, width = tower(PROJECTOR), vision.integer("hidden_size")
    bias = root.flag("multimodal_projector_bias")
    merged = root.integer("spatial_merge_size") ** 2
    return [
        *pixtral("vision_tower", vision, feature_depth(text, vision)),
        *at.norm("norm", width),
        at.tensor("patch_merger.merging_layer.weight", width, width * merged),
        *two_step(at, text.hidden, width, bias=bias, split=True),
        *language_model(text),
    ]


@weighs("Gemma3ForConditionalGeneration")
def gemma3(text: Text) -> list[Part]:
    """Return the parts of a multimodal Gemma 3."""
    vision = section(text)
    at, width = tower(PROJECTOR), vision.integer("hidden_size")
    return [
        *siglip("vision_tower.vision_model", vision),
        at.tensor("mm_input_projection_weight", width, text.hidden),
        *at.norm("mm_soft_emb_norm", width),
        *language_model(text, "Gemma3ForCausalLM"),
    ]


@weighs("PaliGemmaForConditionalGeneration")
def paligemma(text: Text) -> list[Part]:
    """Return the parts of a PaliGemma."""
    vision = section(text)
    linear = tower(PROJECTOR).linear(
        "linear", text.config.root.maybe_integer("projection_dim") or text.hidden, vision.integer("hidden_size"),
        Role.TOWER, bias=True,
    )  # fmt: skip
    return [*siglip("vision_tower.vision_model", vision), linear, *language_model(text)]


@weighs("Idefics3ForConditionalGeneration", "SmolVLMForConditionalGeneration")
def idefics3(text: Text) -> list[Part]:
    """Return the parts of an Idefics 3, SmolVLM or Granite-Docling: pixels are shuffled into wider vectors."""
    vision, root = section(text), text.config.root
    width = vision.integer("hidden_size") * root.integer("scale_factor") ** 2
    connector = tower("model.connector.modality_projection")
    names = {"model.": "model.text_model.", "lm_head": "lm_head"}
    return [
        *siglip("model.vision_model", vision, ids=False),
        connector.linear("proj", text.hidden, width, Role.TOWER),
        *language_model(text, "LlamaForCausalLM", names=names),
    ]


@weighs("Cohere2VisionForConditionalGeneration")
def cohere_vision(text: Text) -> list[Part]:
    """Return the parts of a Command A Vision: a gated projector over merged patches."""
    vision, root = section(text), text.config.root
    width = vision.integer("hidden_size") * root.integer("downsample_factor") ** 2
    inner = root.integer("alignment_intermediate_size")
    at = tower(PROJECTOR)
    return [
        *siglip("vision_tower.vision_model", vision, ids=True),
        at.linear("linear_1", inner, width, bias=True),
        at.linear("linear_2", text.hidden, inner // 2, Role.ROW, bias=True),
        *language_model(text),
    ]


@weighs("Phi3VForCausalLM")
def phi3v(text: Text) -> list[Part]:
    """Return the parts of a Phi-3-vision, whose CLIP tower the engine knows by name; the embedding is held twice."""
    processor = text.config.root.maybe_section("img_processor")
    if processor is None:
        raise text.config.root.lacks("img_processor")
    width = 4 * processor.integer("image_dim_out")
    at = tower("model.vision_embed_tokens")
    hidden = text.hidden
    tower_parts = clip("model.vision_embed_tokens.img_processor.vision_model", _CLIP_LARGE_336, 23)
    return [
        at.tensor("glb_GN", 1, 1, width),
        at.tensor("sub_GN", 1, 1, 1, width),
        *tower_parts,
        at.tensor("img_projection.0.weight", hidden, width),
        at.tensor("img_projection.0.bias", hidden),
        at.tensor("img_projection.2.weight", hidden, hidden),
        at.tensor("img_projection.2.bias", hidden),
        tower("").tensor("embed_tokens.weight", text.vocabulary, hidden, role=Role.VOCABULARY, holder="engine"),
        *language_model(text, "Phi3ForCausalLM", names={"model.": "model."}),
    ]


# openai/clip-vit-large-patch14-336, which Phi-3-vision's configs name without its sizes
_CLIP_LARGE_336 = Fields(
    {
        "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
        "image_size": 336, "patch_size": 14,
    }
)  # fmt: skip


@weighs("Lfm2VlForConditionalGeneration")
def lfm2_vl(text: Text) -> list[Part]:
    """Return the parts of an LFM2-VL: a SigLIP 2 tower that reads patches of any number."""
    vision, root = section(text), text.config.root
    hidden, patch = vision.integer("hidden_size"), vision.integer("patch_size")
    at = tower("vision_tower.vision_model")
    wide = patch * patch * vision.integer("num_channels", default=3)
    inner = root.integer("projector_hidden_size")
    merged = hidden * root.integer("downsample_factor") ** 2
    bias = root.flag("projector_bias", default=True)
    projector = tower(PROJECTOR)
    norm = projector.norm("layer_norm", merged, bias=True) if root.flag("projector_use_layernorm", default=True) else []
    generic = siglip("vision_tower.vision_model", vision, positions=vision.integer("num_patches"), ids=False)
    return [
        *(part for part in generic if not part.name.endswith("patch_embedding.weight")),
        at.tensor("embeddings.patch_embedding.weight", hidden, wide),
        *norm,
        projector.linear("linear_1", inner, merged, Role.TOWER, bias=bias),
        projector.linear("linear_2", text.hidden, inner, Role.TOWER, bias=bias),
        *language_model(text, names=NESTED),
    ]


@weighs("PaddleOCRVLForConditionalGeneration")
def paddle_ocr(text: Text) -> list[Part]:
    """Return the parts of a PaddleOCR-VL: a SigLIP tower with rotary positions, and an Ernie 4.5."""
    vision = section(text)
    hidden, heads = vision.integer("hidden_size"), vision.integer("num_attention_heads")
    merged, at = hidden * vision.integer("spatial_merge_size") ** 2, tower("mlp_AR")
    return [
        *siglip("visual.vision_model", vision),
        tower("visual.vision_model").table("encoder.rotary_pos_emb.inv_freq", hidden // heads // 4),
        *at.norm("pre_norm", hidden, bias=True),
        at.linear("linear_1", merged, merged, Role.TOWER, bias=True),
        at.linear("linear_2", text.hidden, merged, Role.TOWER, bias=True),
        *language_model(text, "Ernie4_5ForCausalLM"),
    ]


@weighs("InternVLForConditionalGeneration", "InternS1ForConditionalGeneration")
def internvl(text: Text) -> list[Part]:
    """Return the parts of an InternVL 3 in the Hugging Face layout; its attention is not split."""
    vision, root = section(text), text.config.root
    hidden, at = vision.integer("hidden_size"), tower("vision_tower")
    size, patch = vision.side("image_size"), vision.side("patch_size")
    layers = at.under("encoder.layer.{}").copies(vision.integer("num_hidden_layers"))
    merged = int(hidden / (root.maybe_number("downsample_ratio") or 1) ** 2)
    projector, bias = tower(PROJECTOR), vision.flag("attention_bias")
    names = ("attention.q_proj", "attention.k_proj", "attention.v_proj")
    norms = vision.integer("hidden_size") if vision.flag("use_qk_norm") else 0
    return [
        at.tensor("embeddings.cls_token", 1, 1, hidden),
        at.tensor("embeddings.position_embeddings", 1, (size // patch) ** 2 + 1, hidden),
        at.tensor("embeddings.patch_embeddings.projection.weight", hidden, 3, patch, patch),
        at.tensor("embeddings.patch_embeddings.projection.bias", hidden),
        *(layers.linear(name, hidden, hidden, Role.TOWER, bias=bias) for name in names),
        layers.linear("attention.projection_layer", hidden, hidden, Role.TOWER, bias=True),
        *(layers.norms(norms, "attention.q_norm", "attention.k_norm") if norms else []),
        layers.linear("mlp.fc1", vision.integer("intermediate_size"), hidden, bias=True),
        layers.linear("mlp.fc2", hidden, vision.integer("intermediate_size"), Role.ROW, bias=True),
        *layers.norms(hidden, "layernorm_before", "layernorm_after", bias=vision.maybe_text("norm_type") != "rms_norm"),
        layers.tensor("lambda_1", hidden),
        layers.tensor("lambda_2", hidden),
        *projector.norm("layer_norm", merged, bias=True),
        *(
            projector.linear(name, text.hidden, columns, Role.TOWER, bias=True)
            for name, columns in (("linear_1", merged), ("linear_2", text.hidden))
        ),
        *language_model(text),
    ]
