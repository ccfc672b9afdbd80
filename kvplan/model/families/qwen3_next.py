"""Qwen3-Next and Qwen3.5: gated delta nets with a full attention layer every few, dense or with experts."""

from __future__ import annotations

from collections.abc import Callable

from kvplan.model.families import Reader, reads
from kvplan.model.families._attention import grouped_query
from kvplan.model.families._latent import draft_count
from kvplan.model.families._multimodal import wraps
from kvplan.model.families._state import LINEAR, gated_delta_net, interval_types, state, state_dtype
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape


def _reader(dtype: Callable[[Fields], str | None], drafts: Callable[[Fields], int]) -> Reader:
    """Return a reader that keeps the recurrent state in `dtype` and finds so many prediction layers, full ones."""

    def read(config: Fields) -> Shape:
        heads = grouped_query(config)
        linear = state(gated_delta_net(config), dtype(config))
        layers = [linear if name == LINEAR else heads.full() for name in interval_types(config, config.layers())]
        return heads.shape(layers, draft_layers=(heads.full(),) * drafts(config))

    return read


def _as_model(_config: Fields) -> str | None:
    return None


def _as_asked(config: Fields) -> str | None:
    return state_dtype(config, "mamba_ssm_dtype")


def _none(_config: Fields) -> int:
    return 0


def _next_drafts(config: Fields) -> int:
    # The published config has no such field and vLLM builds one layer all the same (qwen3_next_mtp.py).
    return draft_count(config, "num_nextn_predict_layers", default=1)


def _drafts(config: Fields) -> int:
    return draft_count(config, "mtp_num_hidden_layers", default=1)


# vLLM looks up by the architecture's name whether mamba_ssm_dtype counts (model_executor/models/config.py): it does for
# Qwen3.5 itself, not for the models that only embed it.
reads("Qwen3NextForCausalLM", model_types=("qwen3_next",))(_reader(_as_model, _next_drafts))
reads("Qwen3_5ForCausalLM", model_types=("qwen3_5_text",))(_reader(_as_asked, _drafts))
reads("Qwen3_5MoeForCausalLM", model_types=("qwen3_5_moe_text",))(_reader(_as_asked, _drafts))
reads("Qwen3_5ForConditionalGeneration", model_types=("qwen3_5",))(wraps("Qwen3_5ForCausalLM"))
reads("Qwen3_5MoeForConditionalGeneration", model_types=("qwen3_5_moe",))(wraps("Qwen3_5MoeForCausalLM"))
for _name, _model_type in (
    ("InternS2PreviewForConditionalGeneration", "intern_s2_preview"),
    ("InternS2MobiusForConditionalGeneration", "interns2_mobius"),
):
    reads(_name, model_types=(_model_type,))(_reader(_as_model, _drafts))
for _name, _model_type in (
    ("MiniCPMV4_6ForConditionalGeneration", "minicpmv4_6"),
    ("MiniCPMV4_7ForConditionalGeneration", "minicpmv4_7"),
):
    reads(_name, model_types=(_model_type,))(_reader(_as_model, _none))
