"""What is loaded beside the model: LoRA slots and a draft model."""

from __future__ import annotations

from kvplan.engine.args import EngineArgs
from kvplan.engine.vllm.activation.widths import Widths
from kvplan.engine.vllm.settings import Settings
from kvplan.engine.vllm.weights import ranks_of
from kvplan.ledger import Line
from kvplan.model.spec import ModelSpec
from kvplan.model.weights import weigh

_SEEN = 1.09  # what a slot takes over its matrices: 79.0 MiB for 72.4, the only log that tells


def lora_line(model: ModelSpec, widths: Widths, args: EngineArgs, item: int, layers: int) -> Line:
    """Return the slots of all adapters: a pair of narrow matrices for each linear layer, embedding and head.

    The matrices are what vLLM's own LoRA layers allocate; a public log of Qwen3-4B at rank 16 takes 9 % more a slot.
    """
    attention = widths.attention
    inputs = outputs = 0
    if attention is not None:
        inputs += 3 * widths.hidden + attention.query
        outputs += attention.query + attention.key + attention.value + widths.hidden
    if widths.mlp:
        inputs += 2 * widths.hidden + widths.mlp
        outputs += 2 * widths.mlp + widths.hidden
    vocabulary = 2 * (model.vocab_size + widths.hidden)
    slot = args.max_lora_rank * item * (layers * (inputs + outputs) + vocabulary)
    size = round(args.max_loras * slot * _SEEN)
    why = f"{args.max_loras} slots of rank {args.max_lora_rank}"
    return Line("lora", size, size * 9 // 10, size * 11 // 10, "modelled", why)


def draft_line(draft: ModelSpec, args: EngineArgs, settings: Settings) -> Line:
    """Return the weights of a draft model, which lies on the ranks as the model does."""
    found = weigh(draft, ranks_of(draft, args), dtype=settings.dtype).line
    return Line("draft_weights", found.bytes, found.low, found.high, found.basis, f"{draft.id}: {found.why}")
