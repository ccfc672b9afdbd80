"""verify(): plan for the card that is there, have a child take and use what the plan says, and compare.

    from kvplan.verify.run import verify

    verify("meta-llama/Llama-3.1-8B", gpu_memory_utilization=0.92).verdict

Needs the extra `gpu`; this module itself imports neither torch nor triton, the child does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvplan.engine.args import engine_args
from kvplan.errors import NO, KvplanError, UsageError
from kvplan.model.spec import ModelSpec
from kvplan.planner import Plan, load_model
from kvplan.verify.batch import Shortfall
from kvplan.verify.child import INTERRUPTED
from kvplan.verify.compare import TOLERANCE, Result, Verdict, decides
from kvplan.verify.device import Factory, Facts
from kvplan.verify.factory import torch_factory
from kvplan.verify.job import Job, Refused
from kvplan.verify.ranks import Place, place
from kvplan.verify.watch import Aftermath, Stopped, watched

DEFAULT_MODEL = "meta-llama/Llama-3.1-8B"
TIMEOUT = 900.0  # seconds: some times what a card of 140 GB should take


class VerifyFailed(KvplanError):
    """The verification did not come to its end; the message says why, and how the card was left."""

    def __init__(self, message: str, hint: str = "", code: int = NO) -> None:
        super().__init__(message, hint)
        self.exit_code = code


@dataclass(frozen=True, slots=True)
class Verification:
    """A verification that came to its end: the plan, the card, what every rank found, and how the child ended."""

    plan: Plan
    facts: Facts
    results: tuple[Result, ...]
    quick: bool
    place: Place
    aftermath: Aftermath

    @property
    def decisive(self) -> Result:
        """The result that decides: the worst rank's."""
        return decides(self.results)

    @property
    def verdict(self) -> Verdict:
        """The verdict of the whole group; memory that does not come back is never confirmed."""
        return self.decisive.verdict if self.aftermath.clean else "not confirmed"

    @property
    def reason(self) -> str:
        """The figure that decides, in words."""
        return self.decisive.reason if self.aftermath.clean else self.aftermath.words()

    @property
    def ok(self) -> bool:
        """Whether the answer is yes: no part of the model was left undecoded, in a rehearsal neither."""
        return self.verdict in ("confirmed", "rehearsed") and not self.decisive.undecodable


def verify(
    model: str | os.PathLike[str] | ModelSpec = DEFAULT_MODEL,
    *,
    device: str = "cuda:0",
    gpu: str | None = None,
    engine: str = "vllm",
    revision: str | None = None,
    quick: bool = False,
    tune: bool = False,
    tolerance: float = TOLERANCE,
    concurrency: int | None = None,
    timeout: float = TIMEOUT,
    factory: Factory | None = None,
    progress: Callable[[str, float], None] = lambda _step, _share: None,
    **args: Any,
) -> Verification:
    """Verify a deployment on a card: `args` are the engine's flags, as in `kvplan.plan`.

    `device` is cuda:N or cpu, a rehearsal in Triton's interpreter on a pool that is scaled down. `gpu` says by which
    card's profile to plan; the memory is always the driver's. `concurrency` takes the place of the planned requests;
    `tolerance` is a share of the card's memory. `factory` makes the card in the child, and must be importable there.

    Raises NoGpu where there is no usable card, VerifyFailed where the plan is refused, the requests need more blocks
    than it has, or the child failed; other KvplanErrors as `kvplan.plan`.
    """
    if engine.partition("@")[0] != "vllm":
        raise UsageError(f"verify lays out the pool of vLLM, not of {engine[:40]!r}", "leave --engine out")
    if not 0 < tolerance < 1:
        raise UsageError(f"--tolerance {tolerance:g} is no share of the card between 0 and 1", "0.01 is the default")
    if concurrency is not None and not 1 <= concurrency <= _MOST_REQUESTS:
        raise UsageError(f"--concurrency {concurrency} is no count from 1 to {_MOST_REQUESTS:,}")
    if not 0 < timeout <= _LONGEST:
        raise UsageError(f"--timeout {timeout:g} is no number of seconds up to {_LONGEST:,}")
    here = place()
    checked = engine_args(args)
    ranks = checked.tensor_parallel_size * checked.pipeline_parallel_size
    if here.size not in (1, ranks):
        raise UsageError(
            f"torchrun started {here.size} ranks, but TP x PP is {ranks}", f"--nproc-per-node {ranks}, or other sizes"
        )
    spec = model if isinstance(model, ModelSpec) else load_model(model, revision=revision)
    job = Job(spec, args, checked, engine, gpu, here, quick=quick, tune=tune, concurrency=concurrency)
    maker = torch_factory(device, here) if factory is None else factory
    facts, made, results, aftermath = _carried_out(job, maker, timeout, progress, tolerance)
    return Verification(made, facts, tuple(results), quick, here, aftermath)


_MOST_REQUESTS = 65_535  # a launch's grid ends there
_LONGEST = 86_400


def _carried_out(
    job: Job, maker: Factory, timeout: float, progress: Callable[[str, float], None], tolerance: float
) -> tuple[Facts, Plan, list[Result], Aftermath]:
    """Run the job in a watched child; whatever stops it is told together with how the card was left."""
    with watched(maker, timeout, progress) as watch:
        try:
            facts, made, results = job.run(watch.child, tolerance)
        except Stopped as stop:
            stopped: tuple[str, str, int] | None = (stop.failure.message, stop.failure.hint, stop.failure.code)
        except Refused as refusal:
            stopped = (str(refusal), refusal.hint, refusal.code)
        except Shortfall as shortfall:
            stopped = (str(shortfall), "fewer requests, a shorter --max-model-len, or a larger pool", NO)
        except KvplanError as error:
            stopped = (error.message, error.hint, error.exit_code)
        except KeyboardInterrupt:
            stopped = ("interrupted", "", INTERRUPTED)
        else:
            stopped = None
    assert watch.aftermath is not None
    if stopped is not None:
        message, hint, code = stopped
        raise VerifyFailed(f"{message}; {watch.aftermath.words()}", hint, code)
    return facts, made, results, watch.aftermath
