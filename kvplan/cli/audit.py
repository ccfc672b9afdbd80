"""`kvplan audit LOG`: a start-up log beside the prediction; `--metrics FILE|URL`: what a running server says."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from kvplan.errors import UsageError


class Format(StrEnum):
    """How the answer is written."""

    text = "text"
    json = "json"


def _option(*names: str, help: str) -> Any:  # noqa: A002  # typer's own word
    return typer.Option(*names, help=help, show_default=False)


def command(
    log: Annotated[
        str | None, typer.Argument(help="A start-up log: a file, or - for stdin.", show_default=False)
    ] = None,
    model: Annotated[str | None, _option("--model", help="The model, where the log does not name it.")] = None,
    gpu: Annotated[str | None, _option("--gpu", help="The card, where its memory does not tell.")] = None,
    engine: Annotated[str | None, _option("--engine", help="vllm@RELEASE, where the log does not say.")] = None,
    tensor_parallel_size: Annotated[int | None, _option("--tensor-parallel-size", "-tp", help="GPUs a layer.")] = None,
    max_model_len: Annotated[int | None, _option("--max-model-len", help="Longest request.")] = None,
    max_num_batched_tokens: Annotated[
        int | None, _option("--max-num-batched-tokens", help="Most tokens a step.")
    ] = None,
    gpu_memory_utilization: Annotated[
        float | None, _option("--gpu-memory-utilization", "--gpu-util", help="Share of the card.")
    ] = None,
    quantization: Annotated[str | None, _option("--quantization", "-q", help="Quantization method.")] = None,
    save: Annotated[bool, typer.Option("--save", help="Keep what was measured for later plans.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="Show what was kept.")] = False,
    forget: Annotated[str | None, _option("--forget", help="Delete what was kept: an id, or all.")] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics", help="Scrape of a running server: file, -, or address; twice for rates.", show_default=False
        ),
    ] = None,
    interval: Annotated[
        float | None, typer.Option("--interval", help="Seconds between two scrapes.", show_default=False)
    ] = None,
    max_num_seqs: Annotated[
        int | None, typer.Option("--max-num-seqs", help="Most requests a step.", show_default=False)
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds to wait for an address.")] = 10.0,
    output: Annotated[Format, typer.Option("--format", help="How to write the answer.")] = Format.text,
) -> int:
    """Compare a log with its plan, or judge a running server.

    Exit code 0: pool, tokens and requests (or the refusal) are as predicted, the server needs no change. 1: they are
    not, or it does. 2: the log prints no pool, the metrics do not hold what a verdict needs.
    """
    flags = {name: value for name, value in locals().items() if name in _FLAGS and value is not None}
    as_json = output is Format.json
    if list_ or forget is not None:
        from kvplan.cli.audit_log import forget_observation, list_observations

        return forget_observation(forget) if forget is not None else list_observations(as_json=as_json)
    if log is not None and metrics:
        raise UsageError("a LOG and --metrics ask two questions", "audit one, then the other")
    if log is not None:
        from kvplan.cli.audit_log import audit_log

        return audit_log(log, as_json=as_json, save=save, flags=flags)
    if not metrics:
        raise UsageError("nothing to audit", "give a start-up log, or --metrics FILE or URL")
    from kvplan.cli.live import audit_live

    return audit_live(metrics, interval=interval, max_num_seqs=max_num_seqs, timeout=timeout, as_json=as_json)


_FLAGS = frozenset({
    "model", "gpu", "engine", "tensor_parallel_size", "max_model_len", "max_num_batched_tokens", "max_num_seqs",
    "gpu_memory_utilization", "quantization",
})  # fmt: skip
