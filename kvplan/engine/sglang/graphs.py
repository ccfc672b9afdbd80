"""What SGLang captures: the largest decode batch, and whether prefills are captured when the fraction is computed.

Source: SGLang 0.5.23, arg_groups/memory_hook.py, cuda_graph_hook.py and model_overrides/qwen3_vl.py.
"""

from __future__ import annotations

from kvplan.engine.args import EngineArgs
from kvplan.engine.sglang.device import Device
from kvplan.engine.sglang.fraction import Work
from kvplan.engine.sglang.served import Served

MAX_PREFILL_TOKENS = 16384
_LATENT_PREFILL = 8192  # the longest captured prefill over latents
_LLAMA_2_PREFILL = 4096
_PROFILED_BATCH = 512


def decode_batch(served: Served, args: EngineArgs, device: Device, default: int) -> int:
    """Return the largest decode batch that is captured; fewer requests lower it, and on some cards more raise it."""
    if args.sglang.cuda_graph_max_bs_decode is not None:
        return args.sglang.cuda_graph_max_bs_decode
    asked = args.max_num_seqs
    if asked is None:
        return default
    if asked < default:
        return asked
    profiled = served.multimodal and device.large_hopper and served.architecture.startswith("Qwen3VL")
    return asked if profiled and asked <= _PROFILED_BATCH else default


def work_of(served: Served, args: EngineArgs, device: Device, batch: int, chunk: int, name: str) -> Work:
    """Return what the reserve is computed from; `name` is the model's path, which decides for Llama-2."""
    own = args.sglang
    largest = min(_LATENT_PREFILL, chunk) if served.attention == "latent" else chunk
    if own.max_total_tokens is not None:
        largest = min(largest, own.max_total_tokens)
    if "llama-2" in name.lower():
        largest = min(largest, _LLAMA_2_PREFILL)
    captured = not device.rocm and _prefill_graphs(served, args)
    return Work(
        chunk=chunk,
        max_prefill=own.max_prefill_tokens or MAX_PREFILL_TOKENS,
        batch=batch,
        decode_graphs=not (args.enforce_eager or own.disable_decode_cuda_graph),
        prefill_tokens=largest if captured else 0,
        latent=served.attention == "latent",
        ranks=args.tensor_parallel_size * args.pipeline_parallel_size,
        tensor=args.tensor_parallel_size,
        attention_dp=own.attn_dp_size,
        speculative=own.speculative_algorithm.upper() if own.speculative_algorithm is not None else None,
        deepep=own.moe_a2a_backend == "deepep",
    )


_CAPTURED_EXCHANGES = frozenset({"none", "deepep", "megamoe", "flashinfer"})


def _prefill_graphs(served: Served, args: EngineArgs) -> bool:
    """Say whether prefills are captured when the fraction is computed; without chunks there is no size to capture."""
    if args.enforce_eager or args.sglang.disable_prefill_cuda_graph or args.pipeline_parallel_size > 1:
        return False
    if served.multimodal and not served.on("prefill_graphs"):
        return False
    if args.sglang.moe_a2a_backend not in _CAPTURED_EXCHANGES:
        return False
    return served.attention != "compressed" and not served.on("kda")
