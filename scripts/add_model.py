"""Write profiles/models/OWNER--NAME.yaml, a built-in checkpoint, from a config.json.

    python scripts/add_model.py CONFIG.json --id owner/name --source "where the file comes from" [--revision SHA]

The file keeps every field that may decide memory, and so every field that is not known to be noise: what a reader does
not know yet may matter to the next one. `DROPPED` and `DROPPED_PATTERN` below are the noise, at every level but not
within a quantization section. Ids of the same geometry are for checkpoints whose kept fields are equal, such as a chat
variant.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from plain_yaml import plain_yaml

from kvplan.assets import PROFILES
from kvplan.errors import KvplanError
from kvplan.sources.document import read_object

_GENERATION = """
    bad_words_ids begin_suppress_tokens diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size
    exponential_decay_length_penalty force_bos_token_to_be_generated forced_decoder_ids length_penalty
    max_length min_length no_repeat_ngram_size num_beam_groups num_beams num_return_sequences output_scores
    remove_invalid_values repetition_penalty return_dict_in_generate suppress_tokens temperature top_k top_p
    typical_p
"""
_TRAINING = """
    aux_loss_alpha ep_size freeze_llm freeze_mm_mlp_adapter freeze_mm_vision_resampler gradient_checkpointing
    init_config init_device init_div_is_residual init_gain init_nonlinearity init_std initializer_factor
    initializer_range input_jitter_noise mm_projector_lr mm_tunable_parts mm_vision_tower_lr moe_drop_tokens
    moe_jitter_eps moe_loss_weight mtp_loss_scaling_factor output_router_logits pretraining_tp
    random_routing_dropped_token rescale_prenorm_residual router_aux_loss_coef router_jitter_noise seq_aux
    tune_mm_mlp_adapter tune_mm_vision_resampler unfreeze_mm_vision_tower use_backbone_lora use_grad_checkpoint
    use_llm_lora z_loss_coefficient drop_path_rate emb_init_std emb_init_uniform_lim
    time_step_limit
"""
_LIBRARY = """
    _attn_implementation _attn_implementation_autoset _commit_hash _name_or_path attn_implementation auto_map
    cache_implementation chunk_size_feed_forward finetuning_task for_llm_compressor
    output_attentions output_hidden_states output_past predict_special_tokens prefix problem_type pruned_heads
    return_dict task_specific_params template tf_legacy_loss tokenizer_class tokenizer_name torchscript
    transformers.js_config transformers_version unsloth_fixed use_bfloat16 use_cache use_flash_attn verbose
"""
_TOKENS = """
    eos_token ignore_index im_end_id im_newline_id im_start_id image_start_id mask_init_id pad_id pad_token
    text_end_id text_start_id video_end_id video_placeholder video_start_id
"""
_OTHER_TOOLS = "context_window_size prefill_chunk_size"  # MLC's own, in configs that were taken from its presets
DROPPED = frozenset(f"{_GENERATION} {_TRAINING} {_LIBRARY} {_TOKENS} {_OTHER_TOOLS}".split())
DROPPED_PATTERN = re.compile(r".*_token_(?:id|ids|index)|.*dropout.*|.*_pdrop|.*layerdrop|summary_.*")
QUANTIZATION = ("quantization_config", "quantization", "compression_config")


def noise(key: str, value: Any) -> bool:
    """Tell whether a field cannot decide memory; `id2label`, if not the default pair, sizes a classifier's head."""
    if key in ("id2label", "label2id"):
        return key == "label2id" or value is None or len(value) == 2
    return key in DROPPED or DROPPED_PATTERN.fullmatch(key) is not None


def trimmed(value: Any) -> Any:
    """Return a config without the fields that are known to be noise."""
    if isinstance(value, list):
        return [trimmed(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {
        key: value[key] if key in QUANTIZATION else trimmed(value[key]) for key in value if not noise(key, value[key])
    }


def document(config: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Return the content of a built-in's file, in the order in which it is written."""
    weights = None
    if options.weight_bytes is not None:
        weights = {"value": options.weight_bytes, "source": options.weight_source}
    content = {
        "id": options.id,
        "aliases": options.alias,
        "same_geometry": options.same_geometry,
        "revision": options.revision,
        "source": options.source,
        "weight_bytes": weights,
        "config": trimmed(config),
    }
    if options.quant_config is not None:
        content["hf_quant_config"] = read_object(options.quant_config)  # whole: engines look at its `producer` too
    return content


def main(arguments: list[str] | None = None) -> int:
    """Write one built-in; 2 where an input cannot be read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("config", type=Path, metavar="CONFIG.json")
    parser.add_argument("--id", required=True, help="owner/name, as the Hub spells it")
    parser.add_argument("--alias", action="append", default=[], help="a former id (repeatable)")
    parser.add_argument("--same-geometry", action="append", default=[], help="an id with equal fields (repeatable)")
    parser.add_argument("--revision", help="the commit that the config is of")
    parser.add_argument("--source", required=True, help="where the config comes from")
    parser.add_argument("--weight-bytes", type=int, help="bytes of the published weights")
    parser.add_argument("--weight-source", help="where that figure comes from")
    parser.add_argument("--quant-config", type=Path, metavar="hf_quant_config.json")
    parser.add_argument("--folder", type=Path, default=PROFILES / "models")
    options = parser.parse_args(arguments)
    if (options.weight_bytes is None) != (options.weight_source is None):
        parser.error("--weight-bytes and --weight-source go together")
    try:
        content = document(read_object(options.config), options)
    except KvplanError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return error.exit_code
    path: Path = options.folder / f"{options.id.replace('/', '--')}.yaml"
    path.write_text(plain_yaml(content), encoding="utf-8")
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
