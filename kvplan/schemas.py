"""The documented shape of every JSON output: `kvplan schema` prints it, tests hold the outputs to it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kvplan.config import Config


class _Object(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Model(_Object):
    """The checkpoint that was planned."""

    id: str
    revision: str | None = Field(description="resolved commit, where the source has one")
    source: Literal["built-in", "folder", "file", "hub"]
    architecture: str
    dtype: str = Field(description="the checkpoint's dtype")
    max_position_embeddings: int | None = Field(description="the config's limit of context length, in tokens")


class Engine(_Object):
    """The engine, its release, and its settings after its own defaults."""

    name: str
    version: str
    args: dict[str, Any] = Field(description="settings in snake_case")
    assumed: list[str] = Field(description="the settings that no flag gave")


class Card(_Object):
    """The card; null where none was asked for."""

    name: str
    count: int = Field(description="cards that one deployment takes: TP x PP x DP")
    memory_bytes: int = Field(description="total as the driver reports it")


class BudgetLine(_Object):
    """A line of the ledger, in bytes of one rank."""

    name: str
    bytes: int
    low: int
    high: int
    basis: Literal["exact", "measured", "modelled", "given"]
    why: str


class BudgetObject(_Object):
    """How one rank's memory is split; null without a card."""

    requested_bytes: int | None
    kv_bytes: int | None
    lines: list[BudgetLine]


class Weights(_Object):
    """Parameters and buffers on one rank, before any repacking after the load."""

    bytes_per_rank: int | None


class Group(_Object):
    """Layers that share a block table."""

    kind: str
    layers: int
    block_size: int
    page_bytes: int
    blocks_per_request: int


class PoolObject(_Object):
    """One pool of an engine that keeps several: whole-length tokens, window tokens, state slots."""

    name: str
    size: int = Field(description="tokens or slots")
    item_bytes: int | None = Field(description="of one token or slot over its layers; null where it is no constant")


class Kv(_Object):
    """The pool, per rank; figures that are not known are null."""

    bytes_per_token: int | None = Field(description="over all layers; null where it is no constant")
    block_size: int | None = Field(description="tokens a block, the smallest of the groups")
    bytes_per_block: int | None
    num_blocks: int | None
    tokens: int | None = Field(description="the token figure that the engine prints")
    max_concurrency: float | None
    max_model_len: int
    longest_model_len: int | None = Field(description="the longest length that fits, 0 where none does")
    max_running_requests: int | None
    sequence_bytes: int | None = Field(description="what one request of max_model_len holds")
    groups: list[Group]
    pools: list[PoolObject] = Field(description="the pools by name, where the engine keeps several")


class Remark(_Object):
    """A reason or a warning."""

    code: str
    message: str
    hint: str


class DecodeBound(_Object):
    """One decode step of so many requests: what one rank reads, and the time that takes at best."""

    batch: int
    weight_bytes: int = Field(description="of experts those that the batch is expected to be sent to")
    kv_bytes: int = Field(description="keys, values and states of all requests")
    step_seconds: float
    tokens_per_second: float


class PrefillBound(_Object):
    """The arithmetic of one prompt on one rank, and the time that takes at the card's peak."""

    tokens: int
    flops: float
    seconds: float


class RooflineObject(_Object):
    """How fast the deployment could be at best: a bound, no forecast."""

    bandwidth: int = Field(description="bytes per second")
    basis: str
    context: int = Field(description="tokens of each request")
    decode: list[DecodeBound]
    prefill: PrefillBound | None


class Size(_Object):
    """`kvplan size MODEL --format json`."""

    schema_: Literal[1] = Field(alias="schema")
    model: Model
    engine: Engine
    gpu: Card | None
    budget: BudgetObject
    weights: Weights
    kv: Kv
    verdict: Literal["fits", "refused"] | None
    reasons: list[Remark]
    warnings: list[Remark]
    roofline: RooflineObject | None = Field(default=None, description="with --roofline or --bandwidth")


class Gap(_Object):
    """Why two engines hold different numbers of tokens: ratios of the first one's figures to the second one's."""

    engines: tuple[str, str]
    tokens_ratio: float
    memory_ratio: float
    bytes_per_token_ratio: float
    rule: Literal["memory", "bytes_per_token", "none"]
    why: str


class SizePlans(_Object):
    """`kvplan size MODEL --format json` with several values of a flag, or with several engines."""

    schema_: Literal[1] = Field(alias="schema")
    plans: list[Size]
    differences: list[Gap] | None = Field(default=None, description="of several engines")


class Replica(_Object):
    """One scheduler of a running server; null is what it does not expose."""

    replica: str
    running: float | None
    waiting: float | None
    deferred: float | None = Field(description="of those waiting, the ones that wait for something else than room")
    usage: float | None = Field(description="share of the pool in use, 0 to 1")


class Rates(_Object):
    """What happened between two snapshots, or since the server's start; null is what is not known."""

    since: Literal["start", "first snapshot"]
    seconds: float | None
    restarted: bool = Field(description="counters went back between the snapshots")
    preemptions: float | None
    finished: float | None
    preemptions_a_minute: float | None
    preemptions_a_request: float | None
    hit_rate: float | None
    queried_tokens: float | None
    queue_seconds: float | None = Field(description="mean seconds in the queue")
    still: bool = Field(description="no counter moved between the snapshots")
    inconsistent: list[str] = Field(description="counters that contradict each other; no verdict rests on them")


class Observation(_Object):
    """A finding with the figures behind it."""

    code: str
    message: str
    evidence: list[str]
    hint: str


class Metrics(_Object):
    """`kvplan audit --metrics … --format json`."""

    schema_: Literal[1] = Field(alias="schema")
    engine: str
    model: str | None
    pool_tokens: int | None
    prefix_caching: bool | None
    replicas: list[Replica]
    flow: Rates
    verdict: str = Field(description="the first finding's code, on the hottest replica")
    findings: list[Observation]
    metrics: dict[str, str] = Field(description="which metric each figure was read from")
    missing: list[str]


class FitOption(_Object):
    """One way to run the model: data-parallel copies of an engine, each over tensor-parallel GPUs."""

    gpus: int
    tensor_parallel_size: int
    data_parallel_size: int
    kv_cache_dtype: str
    meets: bool
    requests: float | None = Field(description="of the wished context at once, over all copies; null where unbounded")
    max_running_requests: int | None = Field(description="over all copies")
    tokens: int | None = Field(description="over all copies")
    longest_model_len: int | None
    left_bytes_per_rank: int | None = Field(description="of the pool, free under the wished load; negative: lacking")
    cost_per_hour: float | None
    flags: dict[str, Any] = Field(description="what one copy is started with, by vLLM's names")
    command: str
    reasons: list[Remark]


class FitAnswer(_Object):
    """One card under one engine."""

    engine: str
    gpu: str
    memory_bytes: int
    options: list[FitOption] = Field(description="the fewest GPUs for each KV dtype, best first")
    splits: list[FitOption] = Field(description="all splits of the best option's GPUs that start")
    closest: FitOption | None = Field(description="what came nearest, where nothing meets the wish")


class FitRefused(Remark):
    """Tensor-parallel sizes that the model does not allow."""

    engine: str
    tensor_parallel_sizes: list[int]


class Wish(_Object):
    """The load that was asked for."""

    concurrency: int
    context: int
    max_gpus: int


class FitModel(_Object):
    """The checkpoint."""

    id: str
    architecture: str


class Fit(_Object):
    """`kvplan fit MODEL --format json`."""

    schema_: Literal[1] = Field(alias="schema")
    model: FitModel
    wish: Wish
    currency: str | None
    verdict: Literal["fits", "refused"]
    found: list[FitAnswer] = Field(description="the cards that hold the load, best first")
    failed: list[FitAnswer] = Field(description="those that do not, nearest first")
    refused: list[FitRefused]
    unpriced: int = Field(description="cards that were left out, because the price file has none for them")
    unplanned: list[str] = Field(description="cards whose worker in the engines kvplan does not know")


class FlagChange(_Object):
    """A flag before and after."""

    name: str
    flag: str
    before: Any
    after: Any


class Remedy(_Object):
    """Changes made together, and the pool that they give."""

    changes: list[FlagChange]
    verdict: Literal["fits", "refused"]
    lacking_bytes: int | None = Field(description="of one GPU for one request; null where memory is not lacking")
    kv: Kv


class Limits(_Object):
    """The largest values that fit with the rest as it stands; 0 where none does, null where nothing bounds them."""

    max_model_len: int | None
    max_num_seqs: int | None


class Repair(_Object):
    """What `--fit` adds: the cheapest change that makes the deployment fit."""

    order: list[str] = Field(description="the flags that may change, cheapest first")
    needed: bool
    change: Remedy | None
    single: list[Remedy] = Field(description="every change of one flag that does")
    closest: Remedy | None
    limits: Limits


class SizeFit(Size):
    """`kvplan size MODEL --fit --format json`."""

    fit: Repair


class DeploymentObject(_Object):
    """One engine as a manifest deploys it."""

    file: str
    line: int = Field(description="1-based")
    column: int = Field(description="1-based")
    kind: str = Field(description="of the manifest, as k8s/Deployment")
    where: str = Field(description="its name within the file")
    role: str | None = Field(description="prefill or decode, where they are apart")
    engine: str
    release: str | None = Field(description="the engine's, as the image or the settings state it")
    model: str | None = Field(description="as written, after variables are resolved")
    model_source: str | None = Field(description="hf, path, pvc, s3 and so on")
    served_model_name: str | None
    args: dict[str, Any] = Field(description="by snake_case name; a value that is not resolved as it is written")
    gpu: str | None = Field(description="the card's name in the catalogue")
    gpus_per_pod: int | None
    nodes: int | None = Field(description="pods, or machines, that run one copy")
    replicas: int | None
    unresolved: list[str] = Field(description="variables without a value; model, where nobody can tell which it is")
    confidence: Literal["exact", "partial", "heuristic"]
    not_planned: str | None = Field(description="why there is no plan: engine, model, or in words")
    plan: Size | None


class FindingObject(_Object):
    """What a rule found."""

    rule: str
    name: str
    severity: Literal["error", "warning", "note"]
    confidence: Literal["high", "medium", "low"]
    file: str
    line: int
    column: int
    deployment: str = Field(description="the deployment's name within the file")
    message: str
    fix: str = Field(description="the cheapest change that mends it; empty where there is none")


class ErrorObject(_Object):
    """A file, or a part of one, that cannot be read."""

    file: str
    line: int
    column: int
    message: str


class Check(_Object):
    """`kvplan check --format json`."""

    schema_: Literal[1] = Field(alias="schema")
    deployments: list[DeploymentObject]
    findings: list[FindingObject]
    errors: list[ErrorObject]


class VerifyModel(_Object):
    """The model that was verified."""

    id: str
    architecture: str


class VerifyEngine(_Object):
    """The engine whose plan was carried out."""

    name: str
    version: str
    args: dict[str, Any]


class VerifyCard(_Object):
    """The card, as its driver describes it; in a rehearsal the interpreter."""

    name: str
    chip: str = Field(description="sm_90, gfx942, interpreter")
    memory_bytes: int
    planned_as: str | None = Field(description="the card of the catalogue whose profile the plan is by")
    software: str


class VerifyLine(_Object):
    """One line of the ledger, predicted beside measured, in bytes of one rank."""

    name: str
    predicted_bytes: int
    measured_bytes: int
    basis: Literal["exact", "measured", "modelled", "given"] = Field(description="given: held, not measured")
    tolerance: int | None = Field(description="bytes; null where nothing is compared")
    ok: bool


class Numerics(_Object):
    """Sampled output rows against float64."""

    worst_row: float = Field(description="relative error of the worst (request, head) row")
    bound: float
    dtype: str


class VerifyStep(_Object):
    """One decode step of all layers: what the measured bandwidth allows, and what it took."""

    requests: int
    longest: int
    read_bytes: int
    predicted_s: float
    measured_s: float
    spread_s: float
    read_bandwidth: float = Field(description="bytes per second")
    copy_bandwidth: float


class _VerifyResult(_Object):
    blocks: int
    lines: list[VerifyLine]
    numerics: Numerics | None = Field(description="null where the kernels decode no layer")
    step: VerifyStep | None = Field(description="the planned requests at once")
    long_step: VerifyStep | None = Field(description="one request of the longest length")
    remaining_bytes: int
    undecodable: list[str] = Field(description="caches that were filled and read back, but not decoded")


_VerifyVerdict = Literal["confirmed", "memory confirmed", "not confirmed", "rehearsed"]


class VerifyRank(_VerifyResult):
    """What one rank found."""

    rank: int
    verdict: _VerifyVerdict


class Released(_Object):
    """How the card was left."""

    ended: bool = Field(description="whether the child process is gone")
    left_bytes: int | None = Field(description="in use beyond the baseline; null where no tool says")


class Verify(_VerifyResult):
    """`kvplan verify --format json`; the figures are those of the rank that decides."""

    schema_: Literal[1] = Field(alias="schema")
    rehearsal: bool
    quick: bool
    verdict: _VerifyVerdict
    reason: str = Field(description="the figure that decides, in words")
    model: VerifyModel
    engine: VerifyEngine
    gpu: VerifyCard
    ranks: list[VerifyRank]
    of_ranks: int = Field(description="ranks that the deployment has: TP x PP")
    released: Released
    notes: list[str]


class Percentiles(_Object):
    """Nanoseconds on the virtual clock, or tokens; null where nothing was counted."""

    p50: int | None
    p90: int | None
    p95: int | None
    p99: int | None
    max: int | None


class ReplayLatency(_Object):
    """Modelled: they hang on the step clock."""

    ttft: Percentiles = Field(description="from arrival to the end of the step that computed the first token")
    itl: Percentiles = Field(description="for each token that continues an answer, the step that it took")
    itl_beside_prompts: Percentiles = Field(description="of those, the steps that computed prompts, too")
    e2e: Percentiles = Field(description="from arrival to the last token")
    queue: Percentiles = Field(description="from arrival to the first step that took part")


class ReplayPoint(_Object):
    """Some steps in a row: the highest of queues and blocks, and sums."""

    end_ns: int
    running: int
    waiting: int
    used_blocks: int
    preempted: int
    queried: int
    hit: int


class ReplayResult(_Object):
    """What one replay came to."""

    name: str = Field(description="what was compared; empty for the deployment itself")
    outcome: Literal["complete", "head_of_line_blocked", "no_progress", "interrupted"]
    settings: dict[str, Any] = Field(description="the scheduler's settings")
    totals: dict[str, int | float | None]
    latency: ReplayLatency
    lengths: Percentiles = Field(description="tokens of a prompt with its answer, as the trace has them")
    curve: list[ReplayPoint]


class ReplayClock(_Object):
    """The step clock, in picoseconds: a step, a scheduled token, a cached token that is read, a request."""

    basis: Literal["convention", "given", "modelled"]
    why: list[str]
    step_ps: int
    token_ps: int
    kv_token_ps: int
    request_ps: int


class TraceProblem(_Object):
    """What is wrong with rows of a trace."""

    code: str
    count: int
    first_row: int = Field(description="counted from 0, without a header")
    example: str


class ReplayFigures(_Object):
    """What advice is weighed by."""

    finished: int
    preemptions: int
    queue_p99_ns: int
    itl_p99_ns: int
    tokens_per_s: float


class ReplayTrial(_Object):
    """The replay that was asked for, and one with the change."""

    before: ReplayFigures
    after: ReplayFigures


class ReplayAdvice(_Object):
    """What to try, in order."""

    code: str
    why: str
    flags: str = Field(description="empty where it is a finding")
    price: str = Field(description="what no replay shows")
    replayed: ReplayTrial | None = Field(description="null where it is a finding, or was not tried")


class PromiseLimit(_Object):
    """The most that a figure may be: nanoseconds, or how many preemptions."""

    name: str
    most: int


class PromiseCandidate(_Object):
    """Settings that were tried."""

    changes: dict[str, Any]
    kept: bool
    values: dict[str, int | None]
    totals: dict[str, int | float | None]


class PromiseLengths(_Object):
    """A max_model_len that holds 99 % of the trace, and all of it."""

    p99: int
    all: int


class PromiseAnswer(_Object):
    """What keeps the promise, best first."""

    limits: list[PromiseLimit]
    candidates: list[PromiseCandidate]
    max_model_len: PromiseLengths
    replicas: int | None = Field(description="engines of the first candidate that keep it together; null: none do")


class ChatFigures(_Object):
    """A chat of fixed lengths, in tokens."""

    tokens_at_end: int
    without_cache: int
    new_input: int
    ratio: float


class ReclaimFigures(_Object):
    """A preempted request on average: computed again, or moved over PCIe. Modelled."""

    tokens: int
    computed_again: int
    recompute_ns: int
    swap_ns: int
    break_even: int | None = Field(description="tokens from which moving beats computing all; null: never")


class Series(_Object):
    """One series."""

    columns: list[str]
    rows: list[list[int | None]]


class ReplaySeries(_Object):
    """Both series of a replay, in the columns of --steps and --requests."""

    steps: Series
    requests: Series


class Simulate(_Object):
    """`kvplan simulate --format json`."""

    schema_: Literal[1] = Field(alias="schema")
    trace: str
    replicas: int
    clock: ReplayClock
    result: ReplayResult
    problems: list[TraceProblem]
    compared: list[ReplayResult]
    advice: list[ReplayAdvice]
    promise: PromiseAnswer | None
    chat: ChatFigures | None
    reclaim: ReclaimFigures | None
    series: ReplaySeries | None = Field(description="null above 250,000 rows, and for several engines")


class AuditEngine(_Object):
    """The engine whose log was read."""

    name: str
    version: str = Field(description="the release that was planned")
    printed: str | None = Field(description="the release that the log names")


class AuditCard(_Object):
    """The card of the plan."""

    name: str
    assumed: bool = Field(description="whether the log's total of memory told the card")


class AuditRow(_Object):
    """One figure, predicted and printed; null where it is not known or not printed."""

    name: str
    unit: str = Field(description="GiB, tokens, requests, bytes or count")
    predicted: float | None
    low: float | None
    high: float | None
    printed: float | None
    difference: float | None = Field(description="printed minus predicted")
    holds: bool | None = Field(description="whether the printed figure lies in the predicted interval")


class AuditRefusal(_Object):
    """Why the engine did not start, by kvplan's codes."""

    printed: str | None
    predicted: list[str]


class AuditLog(_Object):
    """`kvplan audit LOG --format json`: a start-up log beside its plan."""

    schema_: Literal[1] = Field(alias="schema")
    model: str
    engine: AuditEngine
    gpu: AuditCard | None
    rows: list[AuditRow]
    explains: str | None = Field(description="the part whose difference is largest")
    refusal: AuditRefusal
    agrees: bool | None = Field(description="whether pool, tokens and requests, or the refusal, are as predicted")
    missing: list[str] = Field(description="what the log does not print")
    unread: list[str] = Field(description="what was left out, because no start prints such a figure")


SCHEMAS: dict[str, type[BaseModel]] = {
    "audit": AuditLog,
    "size": Size,
    "size-plans": SizePlans,
    "config": Config,
    "check": Check,
    "size-fit": SizeFit,
    "fit": Fit,
    "metrics": Metrics,
    "verify": Verify,
    "simulate": Simulate,
}
