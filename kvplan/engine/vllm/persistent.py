"""Buffers that a rank makes after its weights are loaded and keeps: charged from 0.27 on, outside the books before.

Source: vLLM 0.33's runner and sampler built on pretend tensors; figures are bytes.
"""

from __future__ import annotations

from kvplan.engine.vllm.activation import Peak, Run
from kvplan.engine.vllm.activation.images import takes_pictures
from kvplan.engine.vllm.launch import Launch
from kvplan.engine.vllm.settings import is_pooling
from kvplan.ledger import Line

_WORD = 32  # tokens of the vocabulary in a word of a mask
_TABLES = 17_928  # bytes a request: biases, allowed and stop tokens, bad words
_PER_TOKEN, _PER_REQUEST = 13, 32.5  # the runner's input buffers, fitted on what it allocates at five batch sizes


def persistent_line(launch: Launch, run: Run, peak: Peak) -> Line:
    """Return what stays: the sampler's and the runner's buffers, and what the profile run kept."""
    if launch.release.budget != "consumed":
        return Line.certain("persistent", 0, "exact", "buffers made before the profile run are not charged")
    model, settings = launch.model, launch.settings
    sequences, tokens = settings.max_num_seqs, settings.max_num_batched_tokens
    state = tokens * model.hidden_size * settings.item_size
    size = peak.kept + 2 * state * (run.stage > 0)
    if takes_pictures(model) and run.stage == 0:
        size += state
    if settings.runner_v2:
        size += round(_PER_TOKEN * tokens + _PER_REQUEST * sequences)
        if run.is_last and not is_pooling(model):
            vocabulary = model.vocab_size
            size += sequences * (4 * vocabulary + 8 * -(-vocabulary // _WORD) + _TABLES)
    why = f"sampler and input buffers for {sequences:,} sequences"
    return Line("persistent", size, size, size + size // 20, "modelled", why)
