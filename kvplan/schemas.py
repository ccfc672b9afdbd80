"""The documented shape of every JSON output: `kvplan schema` prints it, tests hold the outputs to it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


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


class Remark(_Object):
    """A reason or a warning."""

    code: str
    message: str
    hint: str


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


SCHEMAS: dict[str, type[BaseModel]] = {"size": Size}
