"""MiniCPM-V 4.6 and 4.7: a SigLIP with a merger inside it, and a Qwen3.5."""

from __future__ import annotations

from kvplan.model.weights.families import weighs
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text
from kvplan.model.weights.towers import encoder_layer, language_model, section, siglip, tower


@weighs("MiniCPMV4_6ForConditionalGeneration", "MiniCPMV4_7ForConditionalGeneration")
def minicpm_v(text: Text) -> list[Part]:
    """Return the parts of a MiniCPM-V: patches are merged four to one within the tower, and again behind it."""
    vision, inside = section(text), tower("vit_merger")
    hidden, width = vision.integer("hidden_size"), vision.integer("intermediate_size")
    rows, columns = vision.maybe_integers("window_kernel_size", exactly=2) or [2, 2]
    merged = hidden * rows * columns
    attention = encoder_layer(inside, hidden, width)
    return [
        *siglip("vpm", vision, ids=False),
        *(part for part in attention if ".mlp." not in part.name and ".layer_norm2" not in part.name),
        *_merger(inside, merged, 4 * merged, hidden),
        *_merger(tower("merger.mlp.0"), merged, merged, text.hidden),
        *language_model(text),
    ]


def _merger(at: Scope, merged: int, width: int, out: int) -> list[Part]:
    return [
        *at.norm("pre_norm", merged, bias=True),
        at.linear("linear_1", width, merged, Role.TOWER, bias=True),
        at.linear("linear_2", out, width, Role.TOWER, bias=True),
    ]
