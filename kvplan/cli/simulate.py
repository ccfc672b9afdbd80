"""`kvplan simulate [MODEL] --trace FILE`: a trace against the planned pool, as vLLM's own scheduler would run it."""

from enum import StrEnum
from typing import Annotated, Any

import typer


class Format(StrEnum):
    """How the answer is written."""

    text = "text"
    json = "json"
    csv = "csv"


class Arrival(StrEnum):
    """When requests come."""

    clock = "clock"
    all = "all"


class Policy(StrEnum):
    """Whom the engine serves first."""

    fcfs = "fcfs"
    priority = "priority"


_Text = str | None
_Count = int | None
_Switch = bool | None


def _option(*names: str, help: str) -> Any:  # noqa: A002  # typer's own word
    return typer.Option(*names, help=help, show_default=False)


def command(
    model: Annotated[_Text, typer.Argument(help="A Hub or built-in id, a folder, or a config.json.")] = None,
    trace: Annotated[_Text, _option("--trace", help="CSV or JSONL, plain or gzip; - is stdin.")] = None,
    synthetic: Annotated[
        _Text, _option("--synthetic", help="prompt=lognormal(1200,0.9) output=exp(300) rate=8 …")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the synthetic load.")] = 0,
    settings: Annotated[_Text, _option("--settings", help="JSON of a scheduler's settings, instead of MODEL.")] = None,
    steps: Annotated[_Text, _option("--steps", help="Write a CSV line a step.")] = None,
    requests: Annotated[_Text, _option("--requests", help="Write a CSV line a request.")] = None,
    rows: Annotated[_Text, _option("--rows", help="FIRST:COUNT of the trace, from 0.")] = None,
    columns: Annotated[_Text, _option("--columns", help="prompt=NAME,output=NAME,arrival=NAME,…")] = None,
    time_unit: Annotated[_Text, _option("--time-unit", help="s, ms, us or ns of numeric times.")] = None,
    tokenizer: Annotated[_Text, _option("--tokenizer", help="A tokenizer.json, for texts without lengths.")] = None,
    chars_per_token: Annotated[
        float | None, _option("--chars-per-token", help="Estimate the lengths of texts by their characters.")
    ] = None,
    arrival: Annotated[Arrival | None, _option("--arrival", help="By the trace's clock, or all at once.")] = None,
    speed: Annotated[float | None, _option("--speed", help="Times the trace's own speed.")] = None,
    n: Annotated[_Count, _option("-n", "--n", help="Answers a request (parallel sampling).")] = None,
    policy: Annotated[Policy | None, _option("--scheduling-policy", help="fcfs or priority.")] = None,
    watermark: Annotated[
        float | None, _option("--watermark", help="Share of blocks that admissions leave free.")
    ] = None,
    long_prefill_token_threshold: Annotated[
        _Count, _option("--long-prefill-token-threshold", help="Most tokens of a long prompt a step.")
    ] = None,
    clock: Annotated[_Text, _option("--clock", help="STEP,TOKEN,KVTOKEN in ns, instead of the modelled.")] = None,
    bandwidth: Annotated[_Text, _option("--bandwidth", help="Measured memory bandwidth, such as '2.9 TB/s'.")] = None,
    no_local: Annotated[bool, typer.Option("--no-local", help="Leave local observations out.")] = False,
    compare: Annotated[
        list[str] | None, _option("--compare", help="NAME=VALUE,… or a baseline; may be repeated.")
    ] = None,
    replicas: Annotated[
        int, typer.Option("--replicas", help="Engines that share the load in turn.", min=1, max=1024)
    ] = 1,
    promise: Annotated[
        _Text, _option("--promise", help="ttft_p99=2s,itl_p99=50ms,preemptions=0: what keeps it?")
    ] = None,
    plot: Annotated[_Text, _option("--plot", help="Draw the replay: .svg, .png or .html.")] = None,
    output: Annotated[Format, typer.Option("--format", help="How to write the answer.")] = Format.text,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a trace with anything wrong.")] = False,
    workers: Annotated[
        _Count, typer.Option("--workers", help="Processes for several replays.", min=1, show_default=False)
    ] = None,
    ray: Annotated[_Text, _option("--ray", help="Run replays on a Ray cluster: ADDRESS, or local.")] = None,
    revision: Annotated[_Text, _option("--revision", help="Branch, tag or commit on the Hub.")] = None,
    gpu: Annotated[_Text, _option("--gpu", help="Card, NAME or NAMExN.")] = None,
    engine: Annotated[_Text, _option("--engine", help="vllm, or vllm@RELEASE.")] = None,
    tensor_parallel_size: Annotated[
        _Text, _option("--tensor-parallel-size", "-tp", "--tp", help="GPUs that a layer is split over.")
    ] = None,
    pipeline_parallel_size: Annotated[
        _Count, _option("--pipeline-parallel-size", "-pp", help="Pipeline stages.")
    ] = None,
    gpu_memory_utilization: Annotated[
        _Text, _option("--gpu-memory-utilization", "--gpu-util", help="Share of the card that the engine may use.")
    ] = None,
    max_model_len: Annotated[_Text, _option("--max-model-len", help="Longest request, or auto.")] = None,
    max_num_seqs: Annotated[_Text, _option("--max-num-seqs", help="Most requests a step.")] = None,
    max_num_batched_tokens: Annotated[_Text, _option("--max-num-batched-tokens", help="Most tokens a step.")] = None,
    kv_cache_dtype: Annotated[_Text, _option("--kv-cache-dtype", help="auto, fp8, …")] = None,
    kv_cache_memory_bytes: Annotated[
        _Text, _option("--kv-cache-memory-bytes", help="KV memory of a GPU, as given.")
    ] = None,
    num_gpu_blocks_override: Annotated[_Text, _option("--num-gpu-blocks-override", help="Blocks, as given.")] = None,
    block_size: Annotated[_Text, _option("--block-size", help="Tokens a block.")] = None,
    dtype: Annotated[_Text, _option("--dtype", help="auto, bfloat16, float16 or float32.")] = None,
    quantization: Annotated[_Text, _option("--quantization", "-q", help="Quantization method.")] = None,
    enforce_eager: Annotated[_Switch, _option("--enforce-eager", help="No CUDA graphs.")] = None,
    enable_prefix_caching: Annotated[
        _Switch, _option("--enable-prefix-caching/--no-enable-prefix-caching", help="Reuse of common prefixes.")
    ] = None,
    async_scheduling: Annotated[
        _Switch, _option("--async-scheduling/--no-async-scheduling", help="Schedule a step ahead.")
    ] = None,
) -> int:
    """Replay a load, and exit with 1 where the engine would get stuck or the promise is not kept."""
    words = dict(locals())
    from kvplan.cli.replay import replay

    return replay(words)
