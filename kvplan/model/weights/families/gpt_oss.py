"""gpt-oss: sinks, biases throughout, MXFP4 experts whose width is rounded up to whole runs of 32 on each rank."""

from __future__ import annotations

from kvplan.model.weights.blocks import attention, experts, rope, router
from kvplan.model.weights.dense import TWO_NORMS
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text


@weighs("GptOssForCausalLM")
def gpt_oss(text: Text) -> list[Part]:
    """Return the parts of a gpt-oss; its rope table is float32."""
    return [*ends(text), *layers(text), *rope(text, dtype="float32")]


def layers(text: Text) -> list[Part]:
    """Return the layers of a gpt-oss."""
    at, hidden, count = text.at(), text.hidden, text.config.integer("num_local_experts")
    names = ("gate_up_proj", "gate_up_proj", "down_proj")
    return [
        *attention(at, text, bias=True, out_bias=True),
        at.tensor("self_attn.sinks", text.shape.heads, role=Role.COLUMN),
        *router(at, count, hidden, name="mlp.router"),
        at.tensor("mlp.router.bias", count),
        *experts(at, count, hidden, text.intermediate, within="mlp.experts", names=names, bias=True),
        *at.norms(hidden, *TWO_NORMS),
    ]


@weighs("OpenAIPrivacyFilterForTokenClassification")
def privacy_filter(text: Text) -> list[Part]:
    """Return the parts of OpenAI's privacy filter: a bidirectional gpt-oss with a classifier."""
    return [*ends(text), *layers(text), *rope(text, dtype="float32")]
