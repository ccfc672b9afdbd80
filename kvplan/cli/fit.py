"""`kvplan fit MODEL --concurrency N --context L`: which cards hold a load, and how many of them."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from kvplan.errors import NO, OK, UsageError


class Format(StrEnum):
    """How the answer is written."""

    text = "text"
    json = "json"
    markdown = "markdown"
    html = "html"


_Text = str | None


def _engine(*names: str, help: str) -> Any:  # noqa: A002  # typer's own word
    return typer.Option(*names, help=help, show_default=False)


def command(
    model: Annotated[str, typer.Argument(help="A Hub or built-in id, a folder, or a config.json.")],
    concurrency: Annotated[int, typer.Option("--concurrency", help="Requests at once.")],
    context: Annotated[str, typer.Option("--context", help="Tokens of each, such as 32k or 32768.")],
    gpu: Annotated[
        list[str] | None, _engine("--gpu", help="Only these cards, NAMExN: at most N; all otherwise.")
    ] = None,
    engine: Annotated[str, typer.Option(help="Engines, separated by commas, each with @RELEASE or without.")] = "vllm",
    max_gpus: Annotated[int, typer.Option("--max-gpus", help="Most GPUs of one deployment.")] = 16,
    price: Annotated[_Text, _engine("--price", help="A YAML file of hourly prices: rank by cost.")] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Cards to show.")] = 12,
    plot: Annotated[_Text, _engine("--plot", help="Draw them too: FILE.html, FILE.svg or FILE.png.")] = None,
    revision: Annotated[_Text, _engine("--revision", help="Branch, tag or commit on the Hub.")] = None,
    output: Annotated[Format, typer.Option("--format", help="How to write the answer.")] = Format.text,
    kv_cache_dtype: Annotated[
        list[str] | None, _engine("--kv-cache-dtype", help="KV dtypes to try; auto and fp8 otherwise.")
    ] = None,
    gpu_memory_utilization: Annotated[
        _Text, _engine("--gpu-memory-utilization", "--gpu-util", help="Share of the card that the engine may use.")
    ] = None,
    max_num_seqs: Annotated[_Text, _engine("--max-num-seqs", help="Most requests a step.")] = None,
    max_num_batched_tokens: Annotated[_Text, _engine("--max-num-batched-tokens", help="Most tokens a step.")] = None,
    dtype: Annotated[_Text, _engine("--dtype", help="auto, bfloat16, float16 or float32.")] = None,
    quantization: Annotated[_Text, _engine("--quantization", "-q", help="Quantization method.")] = None,
    enforce_eager: Annotated[bool | None, _engine("--enforce-eager", help="No CUDA graphs.")] = None,
    enable_expert_parallel: Annotated[
        bool | None, _engine("--enable-expert-parallel", help="Split experts, not layers.")
    ] = None,
    speculative_config: Annotated[_Text, _engine("--speculative-config", help="JSON, as the engine takes it.")] = None,
) -> int:
    """Find the cards that hold a load, and exit with 1 where none does."""
    flags = {name: value for name, value in locals().items() if name in _FLAGS and value is not None}
    from kvplan.cli.output import write_json, write_lines
    from kvplan.engine.args import engine_args
    from kvplan.fit.prices import read_prices
    from kvplan.fit.search import fit
    from kvplan.fit.wish import Wish
    from kvplan.hardware import gpus, parse_gpu
    from kvplan.planner import load_model
    from kvplan.render.fit import fit_markdown, fit_object, fit_text

    length = engine_args({"max_model_len": context}).max_model_len
    if not isinstance(length, int):
        raise UsageError(f"--context takes a number of tokens, not {context[:40]!r}")
    if not 1 <= concurrency <= _MOST:
        raise UsageError(f"--concurrency takes a whole number from 1 to {_MOST:,}, not {concurrency}")
    if plot is not None:
        from kvplan.cli.look import check_plot

        check_plot(plot)
    named = {card.name: (card, count) for card, count in map(parse_gpu, _values(gpu))}
    spec, dtypes = load_model(model, revision=revision), _values(kv_cache_dtype)
    for name in _values([engine]):
        _check_dtypes(spec, name, dtypes)
    found = fit(
        spec,
        Wish(concurrency, length),
        [card for card, _ in named.values()] or [card for card in gpus() if card.is_planned],
        engines=_values([engine]),
        kv_cache_dtypes=dtypes or None,
        max_gpus=max_gpus,
        counts={name: count for name, (_, count) in named.items() if count is not None},
        prices=None if price is None else read_prices(price),
        **flags,
    )
    if plot is not None or output is Format.html:
        from kvplan.cli.look import look_at_fit

        look_at_fit(found, top, plot=plot, page=output is Format.html)
    if output is Format.json:
        write_json(fit_object(found))
    elif output is not Format.html:
        write = fit_markdown if output is Format.markdown else fit_text
        write_lines(write(found, top=top))
    return OK if found.found else NO


_MOST = 1_000_000
_FLAGS = frozenset({
    "gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens", "dtype", "quantization", "enforce_eager",
    "enable_expert_parallel", "speculative_config",
})  # fmt: skip


def _check_dtypes(spec: Any, engine: str, names: list[str]) -> None:
    """Refuse a KV dtype that the engine has no name for; one that no card takes is an answer, not a mistake."""
    from kvplan.planner import plan

    for name in names:
        for note in plan(spec, engine=engine, kv_cache_dtype=name).reasons:
            if note.code == "kv_cache_dtype_unknown":
                raise UsageError(note.message, note.hint)


def _values(given: list[str] | None) -> list[str]:
    """Return the values of a flag that may be repeated or hold several, separated by commas."""
    found = [part.strip() for text in given or [] for part in text.split(",")]
    if "" in found:
        raise UsageError("an empty value between commas")
    return list(dict.fromkeys(found))
