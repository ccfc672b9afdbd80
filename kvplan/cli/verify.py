"""`kvplan verify [MODEL] [plan flags]`: the plan carried out on the card of this machine, predicted beside measured."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from kvplan.cli.engine_flags import EngineCommand
from kvplan.errors import NO, OK


class Format(StrEnum):
    """How the answer is written."""

    text = "text"
    json = "json"


_Text = str | None
_Count = int | None
_Switch = bool | None
# The engine's other flags, those of `kvplan size`, are taken out of the words by it
COMMAND_CLASS = EngineCommand


def _flag(*names: str, help: str) -> Any:  # noqa: A002  # typer's own word
    return typer.Option(*names, help=help, show_default=False)


def command(
    ctx: typer.Context,
    model: Annotated[
        _Text, typer.Argument(help="As for size; Llama-3.1-8B or kvplan.yaml's without.", show_default=False)
    ] = None,
    device: Annotated[str, typer.Option(help="cuda:N, or cpu for a rehearsal in Triton's interpreter.")] = "cuda:0",
    quick: Annotated[bool, typer.Option("--quick", help="Fill and decode one layer of each kind only.")] = False,
    tune: Annotated[bool, typer.Option("--tune", help="Time other tilings of the kernel first.")] = False,
    save: Annotated[bool, typer.Option("--save", help="Keep what was measured of the card for later plans.")] = False,
    tolerance: Annotated[float, typer.Option(help="What a memory line may be off by, as a share of the card.")] = 0.01,
    concurrency: Annotated[
        _Count, _flag("--concurrency", help="Requests at once, instead of the planned ones.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds after which the child is ended.")] = 900.0,
    gpu: Annotated[_Text, _flag("--gpu", help="Plan by this card's profile, with the real card's memory.")] = None,
    engine: Annotated[str, typer.Option(help="vllm, or vllm@RELEASE; every flag of `kvplan size` is taken.")] = "vllm",
    revision: Annotated[_Text, _flag("--revision", help="Branch, tag or commit on the Hub.")] = None,
    output: Annotated[Format, typer.Option("--format", help="How to write the answer.")] = Format.text,
    tensor_parallel_size: Annotated[
        _Text, _flag("--tensor-parallel-size", "-tp", "--tp", help="GPUs that a layer is split over.")
    ] = None,
    pipeline_parallel_size: Annotated[
        _Text, _flag("--pipeline-parallel-size", "-pp", "--pp", help="Pipeline stages.")
    ] = None,
    enable_prefix_caching: Annotated[
        _Switch, _flag("--enable-prefix-caching/--no-enable-prefix-caching", help="Reuse of common prefixes.")
    ] = None,
    async_scheduling: Annotated[
        _Switch, _flag("--async-scheduling/--no-async-scheduling", help="Schedule a step ahead.")
    ] = None,
) -> int:
    """Verify a plan, and exit with 1 where it is not confirmed (or, on a CPU, rehearsed)."""
    named = {
        "tensor_parallel_size": tensor_parallel_size,
        "pipeline_parallel_size": pipeline_parallel_size,
        "enable_prefix_caching": enable_prefix_caching,
        "async_scheduling": async_scheduling,
    }
    from kvplan.cli.output import write_json, write_lines
    from kvplan.verify.progress import Bar
    from kvplan.verify.report import verify_object, verify_text
    from kvplan.verify.run import verify
    from kvplan.verify.saved import save_card
    from kvplan.verify.section import by_field, configured

    chosen, args = configured(model)
    args |= {name: value for name, value in named.items() if value is not None} | by_field(ctx.obj or {})
    with Bar() as bar:
        found = verify(
            chosen, device=device, gpu=gpu, engine=engine, revision=revision, quick=quick, tune=tune,
            tolerance=tolerance, concurrency=concurrency, timeout=timeout, progress=bar.show, **args,
        )  # fmt: skip
    if found.place.rank == 0:
        saved = save_card(found) if save else []
        if output is Format.json:
            write_json(verify_object(found))
        else:
            *told, verdict = verify_text(found)
            write_lines([*told, *(f"  {line}" for line in saved), verdict])
    return OK if found.ok else NO
