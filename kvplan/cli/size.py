"""`kvplan size MODEL [flags]`: the plan of one deployment, of a matrix of them, or of common cards."""

from collections.abc import Mapping
from enum import StrEnum
from itertools import product
from typing import Annotated, Any

import typer

from kvplan.cli.engine_flags import EngineCommand
from kvplan.errors import NO, OK, UsageError

# What `size` without --gpu shows: a card of each size that clouds rent out
COMMON_GPUS = ("l4", "rtx-4090", "l40s", "a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200", "mi300x")
_MAX_PLANS = 256


class Format(StrEnum):
    """How the answer is written."""

    text = "text"
    json = "json"
    markdown = "markdown"
    html = "html"


_Text = str | None
_Count = int | None
_Switch = bool | None


def _engine(*names: str, help: str) -> Any:  # noqa: A002  # typer's own word
    return typer.Option(*names, help=help, show_default=False)


COMMAND_CLASS = EngineCommand


def command(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(help="A Hub or built-in id, a folder, or a config.json.")],
    gpu: Annotated[list[str] | None, _engine("--gpu", help="Card, NAME or NAMExN; several give a table.")] = None,
    engine: Annotated[
        str, typer.Option(help="vllm, sglang or tensorrt-llm, NAME@RELEASE too; with its own flags. Two are compared.")
    ] = "vllm",
    revision: Annotated[_Text, _engine("--revision", help="Branch, tag or commit on the Hub.")] = None,
    output: Annotated[Format, typer.Option("--format", help="How to write the answer.")] = Format.text,
    plot: Annotated[_Text, _engine("--plot", help="Draw it too: FILE.html, FILE.svg or FILE.png.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the formulas with this model's numbers.")] = False,
    roofline: Annotated[bool, typer.Option("--roofline", help="Show how fast it decodes at best.")] = False,
    bandwidth: Annotated[_Text, _engine("--bandwidth", help="Measured memory bandwidth, such as '2.9 TB/s'.")] = None,
    fit: Annotated[bool, typer.Option("--fit", help="Find the cheapest change that makes it start.")] = False,
    kv_heads: Annotated[_Count, _engine("--kv-heads", help="What if the model had N KV heads (MHA, GQA, MQA).")] = None,
    tensor_parallel_size: Annotated[
        list[str] | None, _engine("--tensor-parallel-size", "-tp", "--tp", help="GPUs that a layer is split over.")
    ] = None,
    pipeline_parallel_size: Annotated[
        _Count, _engine("--pipeline-parallel-size", "-pp", help="Pipeline stages.")
    ] = None,
    data_parallel_size: Annotated[_Count, _engine("--data-parallel-size", "-dp", help="Engine copies.")] = None,
    decode_context_parallel_size: Annotated[
        _Count, _engine("--decode-context-parallel-size", "-dcp", help="Ranks that a request's tokens are spread over.")
    ] = None,
    enable_expert_parallel: Annotated[
        _Switch, _engine("--enable-expert-parallel", help="Split experts, not layers.")
    ] = None,
    gpu_memory_utilization: Annotated[
        _Text, _engine("--gpu-memory-utilization", "--gpu-util", help="Share of the card that the engine may use.")
    ] = None,
    max_model_len: Annotated[list[str] | None, _engine("--max-model-len", help="Longest request, or auto.")] = None,
    max_num_seqs: Annotated[_Text, _engine("--max-num-seqs", help="Most requests a step.")] = None,
    max_num_batched_tokens: Annotated[_Text, _engine("--max-num-batched-tokens", help="Most tokens a step.")] = None,
    kv_cache_dtype: Annotated[list[str] | None, _engine("--kv-cache-dtype", help="auto, fp8, …")] = None,
    kv_cache_memory_bytes: Annotated[
        _Text, _engine("--kv-cache-memory-bytes", help="KV memory of a GPU, as given.")
    ] = None,
    num_gpu_blocks_override: Annotated[_Text, _engine("--num-gpu-blocks-override", help="Blocks, as given.")] = None,
    block_size: Annotated[_Text, _engine("--block-size", help="Tokens a block.")] = None,
    dtype: Annotated[_Text, _engine("--dtype", help="auto, bfloat16, float16 or float32.")] = None,
    quantization: Annotated[_Text, _engine("--quantization", "-q", help="Quantization method.")] = None,
    enforce_eager: Annotated[_Switch, _engine("--enforce-eager", help="No CUDA graphs.")] = None,
    enable_prefix_caching: Annotated[
        _Switch, _engine("--enable-prefix-caching/--no-enable-prefix-caching", help="Reuse of common prefixes.")
    ] = None,
    async_scheduling: Annotated[
        _Switch, _engine("--async-scheduling/--no-async-scheduling", help="Schedule a step ahead.")
    ] = None,
    disable_hybrid_kv_cache_manager: Annotated[
        _Switch, _engine("--disable-hybrid-kv-cache-manager", help="Windows are kept at full length.")
    ] = None,
    speculative_config: Annotated[_Text, _engine("--speculative-config", help="JSON, as the engine takes it.")] = None,
    hf_overrides: Annotated[_Text, _engine("--hf-overrides", help="JSON of config.json fields to change.")] = None,
    rope_scaling: Annotated[_Text, _engine("--rope-scaling", help="JSON; a flag of releases up to 0.11.0.")] = None,
    enable_lora: Annotated[_Switch, _engine("--enable-lora", help="Room for LoRA adapters.")] = None,
    max_loras: Annotated[_Text, _engine("--max-loras", help="Adapters at once.")] = None,
    max_lora_rank: Annotated[_Text, _engine("--max-lora-rank", help="Largest rank of an adapter.")] = None,
    usage: Annotated[_Text, _engine("--usage", help="server, or offline: whose defaults apply.")] = None,
    cold: Annotated[_Switch, _engine("--cold", help="A first start, which compiles and tunes.")] = None,
    no_local: Annotated[bool, typer.Option("--no-local", help="Leave local observations out.")] = False,
    gpu_memory: Annotated[_Text, _engine("--gpu-memory", help="Memory of the card, such as '80 GiB'.")] = None,
    weights: Annotated[_Text, _engine("--weights", help="Weights on one GPU.")] = None,
    activations: Annotated[_Text, _engine("--activations", help="Activation peak on one GPU.")] = None,
    cuda_graphs: Annotated[_Text, _engine("--cuda-graphs", help="CUDA graphs on one GPU.")] = None,
    non_torch: Annotated[_Text, _engine("--non-torch", help="NCCL and libraries on one GPU.")] = None,
) -> int:
    """Plan a deployment, and exit with 1 where the engine would refuse to start."""
    flags = {name: value for name, value in locals().items() if name not in _NOT_FLAGS and value is not None}
    from kvplan.cli import output as out
    from kvplan.engine.names import engine_id
    from kvplan.planner import load_model, plan

    engine, own = ",".join(map(engine_id, engine.split(","))), ctx.obj or {}
    spec = load_model(model, revision=revision, overrides=_overrides(engine, flags | own))
    if kv_heads is not None:
        from kvplan.model.what_if import with_kv_heads

        spec = with_kv_heads(spec, kv_heads)
    if plot is not None:
        from kvplan.cli.look import check_plot

        check_plot(plot)
    axes = {name: _values(flags.pop(name, None)) for name in _AXES}
    axes |= {name: _values([own.pop(name)]) for name in _OWN_AXES if name in own}
    flags |= own
    cases = list(product(*axes.values()))
    if len(cases) > _MAX_PLANS:
        raise UsageError(f"{len(cases)} plans are more than kvplan makes at once ({_MAX_PLANS})")
    settings = [dict(zip(axes, case, strict=True)) for case in cases]
    bounded = roofline or bandwidth is not None
    one = len(cases) == 1 and "," not in engine and output is not Format.html
    _check_alone(one=one, fit=fit, bounded=bounded, explained=explain, drawn=plot is not None)
    if "," in engine:
        from kvplan.cli.compare import compare

        return compare(spec, engine, flags, settings, output, plot)
    plans = [plan(spec, engine=engine, local=not no_local, **flags, **setting) for setting in settings]
    if len(plans) == 1 and output is not Format.json:
        from kvplan.fit.smaller import with_smaller

        plans = [with_smaller(spec, engine, flags | settings[0], plans[0], local=not no_local)]
    if fit:
        from kvplan.cli.repair import fit_one

        return fit_one(spec, engine, flags | settings[0], plans[0], output.value, local=not no_local)
    common = _common(spec, engine, flags | settings[0], plans[0]) if len(plans) == 1 else []
    if plot is not None or output is Format.html:
        from kvplan.cli.look import look_at

        drawn = common or plans
        asked = [(engine, {**flags, **setting}) for setting in (settings * len(common) if common else settings)]
        look_at(spec, asked, drawn, local=not no_local, plot=plot, page=output is Format.html)
    if output is Format.html:
        pass
    elif len(plans) > 1:
        _write_matrix(out, plans, output)
    else:
        bounds = _bounds(plans[0], bandwidth) if bounded else None
        _write_one(out, plans[0], output, explained=explain, common=common, bounds=bounds)
    return NO if any(made.reasons or made.overflows for made in plans) else OK


_AXES = ("gpu", "tensor_parallel_size", "kv_cache_dtype", "max_model_len")
_OWN_AXES = ("tp_size", "context_length", "max_seq_len")
_NOT_FLAGS = frozenset({
    "ctx", "model", "engine", "revision", "output", "plot", "explain", "roofline", "bandwidth", "fit", "kv_heads",
    "no_local",
})  # fmt: skip


def _overrides(engine: str, flags: dict[str, Any]) -> Mapping[str, Any]:
    """Return what the flags change in config.json; with two engines compared the first one's names are looked for."""
    from kvplan.engine.args import engine_args

    names = ("hf_overrides", "rope_scaling", "json_model_override_args")
    given: dict[str, Any] = {name: flags[name] for name in names if name in flags}
    return engine_args(given, engine.partition(",")[0].partition("@")[0]).overrides if given else {}


def _values(given: list[str] | None) -> list[str | None]:
    """Return the values of a flag that may be repeated or hold several, separated by commas; [None] where not given."""
    if not given:
        return [None]
    found = [part.strip() for text in given for part in text.split(",")]
    if "" in found:
        raise UsageError("an empty value between commas")
    return list(dict.fromkeys(found))


def _common(spec: Any, engine: str, flags: dict[str, Any], made: Any) -> list[Any]:
    """Return plans for common cards where no card was named and nothing else says how much memory there is."""
    if made.verdict is not None or made.reasons:
        return []
    from kvplan.planner import plan

    return [plan(spec, engine=engine, **flags | {"gpu": name}) for name in COMMON_GPUS]


def _check_alone(*, one: bool, fit: bool, bounded: bool, explained: bool, drawn: bool) -> None:
    """Refuse what answers for one deployment only where there are several, or beside another such flag."""
    if fit and (not one or bounded or drawn):
        raise UsageError("--fit answers for one deployment, in text, json or markdown")
    if bounded and not one:
        raise UsageError("--roofline answers for one deployment, in text, json or markdown")
    if explained and not one:
        raise UsageError("--explain answers for one deployment, in text or markdown")


def _bounds(made: Any, bandwidth: str | None) -> Any:
    """Return the roofline of a plan; None for one that is refused."""
    if made.reasons:
        return None
    from kvplan.roofline import roofline
    from kvplan.units import parse_bandwidth

    return roofline(made, None if bandwidth is None else parse_bandwidth(bandwidth))


def _write_one(out: Any, made: Any, output: Format, *, explained: bool, common: list[Any], bounds: Any) -> None:
    if output is Format.json:
        answer = made.to_dict()
        if bounds is not None:
            from kvplan.render.roofline import roofline_object

            answer["roofline"] = roofline_object(bounds)
        out.write_json(answer)
        return
    from kvplan.render import matrix
    from kvplan.render.table import markdown_table, table

    marked = output is Format.markdown
    if marked:
        from kvplan.render.markdown import plan_markdown as render
    else:
        from kvplan.render.text import plan_text as render
    lines = render(made)
    if common:
        shape = markdown_table if marked else table
        lines += ["", *shape(matrix.HEADER, matrix.rows(common), right=matrix.RIGHT)]
    if explained:
        from kvplan.render.explain import explain
        from kvplan.render.weights import explain_weights

        told = [*explain(made), *explain_weights(made)]
        lines += ["", *(["```", *told, "```"] if marked else told)]
    if bounds is not None:
        from kvplan.render.roofline import roofline_text

        told = roofline_text(bounds)
        lines += ["", *(["```", *told, "```"] if marked else told)]
    out.write_lines(lines)


def _write_matrix(out: Any, plans: list[Any], output: Format) -> None:
    if output is Format.json:
        out.write_json({"schema": 1, "plans": [made.to_dict() for made in plans]})
        return
    from kvplan.render import matrix
    from kvplan.render.markdown import matrix_markdown
    from kvplan.render.table import table

    text = matrix_markdown(plans) if output is Format.markdown else None
    out.write_lines(text or table(matrix.HEADER, matrix.rows(plans), right=matrix.RIGHT))
