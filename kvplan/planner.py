"""The heart: plan(model, engine, gpu, flags) -> Plan, what the engine would print or why it would refuse to start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from kvplan.engine.args import EngineArgs, engine_args
from kvplan.engine.names import engine_id
from kvplan.engine.registry import find_engine
from kvplan.errors import UnknownArchitecture, UsageError
from kvplan.hardware import Gpu, check_planned, parse_gpu
from kvplan.home import holds
from kvplan.ledger import Line
from kvplan.model.quantization import missing_quantization
from kvplan.model.read import read_model
from kvplan.model.spec import ModelSpec
from kvplan.record import dataclass
from kvplan.sources import load
from kvplan.stored import with_stored

Verdict = Literal["fits", "refused"]


@dataclass(frozen=True, slots=True)
class Note:
    """A reason for a refusal, or a warning: a stable code, what is the case, and what to do about it."""

    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One cache group as the engine keeps it; `page_bytes` is one layer's page, or the sum of mixed pages."""

    kind: str
    layers: int
    block_size: int
    page_bytes: int
    blocks_per_request: int


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """One pool of an engine that keeps several: tokens or slots, and the bytes of one where that is a constant."""

    name: str
    size: int
    item_bytes: int | None


@dataclass(frozen=True, slots=True)
class KvFacts:
    """The pool in figures, per rank; None is what is not known (no card) or no constant (bytes a token of a hybrid)."""

    bytes_per_token: int | None
    block_size: int | None
    bytes_per_block: int | None
    num_blocks: int | None
    tokens: int | None
    max_concurrency: float | None
    max_model_len: int
    longest_model_len: int | None
    max_running_requests: int | None
    sequence_bytes: int | None
    groups: tuple[GroupFacts, ...]
    pools: tuple[PoolFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class Budget:
    """How one rank's memory is split; `requested_bytes` is what the engine may use, `kv_bytes` what is left for KV.

    The rank is the one that prints: the first of a pipeline. `least_kv_bytes` is the pool of the stage that has least,
    which sets the block count; None where it is not known.
    """

    requested_bytes: int | None
    kv_bytes: int | None
    lines: tuple[Line, ...]
    least_kv_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Smaller:
    """A smaller KV dtype that the engine takes here, and how many times the tokens its pool would hold."""

    dtype: str
    times: float


OVERFLOWS = "pool_exceeds_card"


@dataclass(frozen=True, slots=True)
class Plan:
    """What an engine would make of a model on a card. `gpu_count` is the number of cards that one deployment takes.

    `smaller` is what the command line asks for beside, where a smaller KV dtype holds more; None in every other plan.
    """

    model: ModelSpec
    engine: str
    engine_version: str
    engine_settings: dict[str, Any]
    assumed: tuple[str, ...]
    gpu: Gpu | None
    gpu_count: int
    budget: Budget
    weights_per_rank: int | None
    kv: KvFacts
    verdict: Verdict | None
    reasons: tuple[Note, ...]
    warnings: tuple[Note, ...]
    smaller: Smaller | None = None

    @property
    def fits(self) -> bool:
        """Whether the engine would start; False also where no card was named."""
        return self.verdict == "fits" and not self.overflows

    @property
    def overflows(self) -> bool:
        """Whether a pool that was given by hand passes the engine's checks and is more than the card then holds."""
        return any(note.code == OVERFLOWS for note in self.warnings)

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON object (`kvplan schema size`)."""
        from kvplan.render.json import plan_object  # noqa: PLC0415  # the core does not know its renderings

        return plan_object(self)


def load_model(
    model: str | os.PathLike[str], *, revision: str | None = None, overrides: Mapping[str, Any] | None = None
) -> ModelSpec:
    """Read a model: a Hub or built-in id, a folder or a config.json; raises a KvplanError.

    `overrides` are fields of config.json to change before it is read, as `--hf-overrides` does.
    """
    checkpoint = load(model, revision=revision)
    if overrides:
        from kvplan.model.overrides import overridden  # noqa: PLC0415  # few deployments change a config

        # its files' headers would tell of the model as it is stored
        return read_model(replace(checkpoint, config=overridden(checkpoint.config, overrides)))
    return with_stored(read_model(checkpoint))


def plan(
    model: str | os.PathLike[str] | ModelSpec,
    *,
    engine: str = "vllm",
    gpu: str | Gpu | None = None,
    revision: str | None = None,
    local: bool = False,
    **args: Any,
) -> Plan:
    """Plan a deployment: `plan("meta-llama/Llama-3.1-8B", gpu="h100", max_model_len=8192)`.

    `engine` is `name` or `name@release`; `gpu` is a card's name, alias, label or instance type, with or without xN;
    `args` are the engine's own flags in snake_case (`tensor_parallel_size`, `kv_cache_dtype`, …) and kvplan's
    (`gpu_memory`, `weights`, …), sizes as bytes or as text with a unit. `local` reads what was observed on cards of
    one's own (`kvplan audit --save`), and the lines that come from it say so. Returns a refused Plan, with reasons,
    where the engine would not start; raises a KvplanError where kvplan cannot answer.
    """
    planner = find_engine(engine, local=local)
    checked = engine_args(args, engine_id(engine).partition("@")[0])
    # a spec is taken as it was read, with the overrides if there were any
    spec = model if isinstance(model, ModelSpec) else load_model(model, revision=revision, overrides=checked.overrides)
    check_quantization(spec, checked)
    card, count, told = _cards(gpu, checked)
    if local and card is not None and holds("cards"):
        from kvplan.verify.saved import observed_card  # noqa: PLC0415  # most plans ask for none

        card, observed = observed_card(card)
        told += observed
    made = planner(spec, checked, card, count, read_draft(checked))
    notes = tuple(dict.fromkeys((*made.warnings, *told)))  # each once, whoever says it
    return replace(made, warnings=notes) if notes != made.warnings else made


def check_quantization(spec: ModelSpec, args: EngineArgs) -> None:
    """Raise InvalidConfig where the KV dtype hangs on a quantization file that is missing."""
    named = missing_quantization(spec)
    if named is not None and args.kv_cache_dtype == "auto":
        raise UnknownArchitecture(
            f"{spec.id}: the name says {named}, but no quantization section was found, which decides the KV dtype",
            "put hf_quant_config.json beside config.json, or name the --kv-cache-dtype",
        )


def _cards(gpu: str | Gpu | None, args: EngineArgs) -> tuple[Gpu | None, int, tuple[Note, ...]]:
    """Return the card, how many the deployment takes, and a note where more are there than it takes.

    Raises UsageError where an explicit count is too small, UnknownGpu where the engine has another kind of worker.
    """
    needed = args.world_size
    if gpu is None:
        return None, needed, ()
    card, count = (gpu, None) if isinstance(gpu, Gpu) else parse_gpu(gpu)
    check_planned(card)
    if count is not None and count < needed:
        raise UsageError(
            f"--gpu {gpu}: {count} cards, but TP x PP x DP takes {needed}", "leave xN out, or lower the parallel sizes"
        )
    if count is not None and count > needed:
        idle = Note("gpus_idle", f"{count - needed} of {count} GPUs stay idle", "a larger --tensor-parallel-size")
        return card, needed, (idle,)
    return card, needed, ()


def read_draft(args: EngineArgs) -> ModelSpec | None:
    """Read the draft model that --speculative-config names; None where the method needs none."""
    if args.sglang.speculative_draft_model_path is not None:
        return load_model(args.sglang.speculative_draft_model_path)
    section = args.speculative_config or {}
    name, method = section.get("model"), section.get("method")
    if not isinstance(name, str) or not name or method in _WITHOUT_DRAFT or name in _WITHOUT_DRAFT:
        return None
    revision = section.get("revision")
    return load_model(name, revision=revision if isinstance(revision, str) else None)


# Methods that draft from the prompt, or from layers that the model's own checkpoint carries
_WITHOUT_DRAFT = frozenset({"ngram", "ngram_gpu", "suffix", "mtp"})
