"""The page of a layer: how many bytes one block of it takes, and how many blocks one request claims.

vLLM gives each cached layer a page specification; equal ones share a block table. `Page` holds what grouping and
counting need of it, in our own terms. All figures are per rank. Source: the engine's cache interface, re-derived and
checked against its planner on the rows of tests/golden.
"""

from __future__ import annotations

from enum import Enum, unique

from kvplan.record import dataclass


@unique
class Kind(Enum):
    """What a page holds; FULL and LATENT are one family to the engine, whose layers may share a group."""

    FULL = "full"
    LATENT = "latent"
    WINDOW = "window"
    LATENT_WINDOW = "latent_window"
    CHUNKED = "chunked"
    STATE = "state"
    CROSS = "cross"


WHOLE_LENGTH = frozenset({Kind.FULL, Kind.LATENT})
LOCAL = frozenset({Kind.WINDOW, Kind.LATENT_WINDOW, Kind.CHUNKED})


@dataclass(frozen=True, slots=True)
class Page:
    """One layer's page.

    `block_size` tokens a block; `token_bytes` bytes a stored state, of which there is one for each `tokens_per_state`
    tokens (a whole block's bytes for STATE); `padded` is a page size that overrides the natural one; `span` is the
    window or chunk in tokens; `align` rounds the natural page up; `form` is what the engine compares beside these when
    it asks whether two layers may share a group (heads, dims, dtype, role). STATE pages: `resident` blocks a request.
    """

    kind: Kind
    block_size: int
    token_bytes: int
    tokens_per_state: int = 1
    padded: int | None = None
    span: int = 0
    align: int = 1
    resident: int = 1
    sharded: bool = True
    form: tuple[object, ...] = ()

    @property
    def natural_bytes(self) -> int:
        """The page without padding, in bytes."""
        if self.kind is Kind.STATE:
            return self.token_bytes
        size = self.block_size // self.tokens_per_state * self.token_bytes
        return -(-size // self.align) * self.align

    @property
    def bytes(self) -> int:
        """The page in bytes."""
        return self.natural_bytes if self.padded is None else self.padded


@dataclass(frozen=True, slots=True)
class Scheduling:
    """What the scheduler's settings add to a request's claim.

    `in_flight` is the most tokens that are scheduled but not settled; `encoder_tokens` the encoder's budget; `dcp` the
    number of ranks that a request's tokens are spread over.
    """

    in_flight: int
    encoder_tokens: int
    dcp: int = 1


def blocks_per_request(page: Page, length: int, scheduling: Scheduling) -> int:
    """Return the blocks that one request of `length` tokens claims in a layer of this page."""
    size = page.block_size
    match page.kind:
        case Kind.FULL | Kind.LATENT:
            tokens = -(-length // scheduling.dcp) if page.sharded else length
            return -(-tokens // size)
        case Kind.WINDOW | Kind.LATENT_WINDOW:
            # window - 1 tokens behind the newest, what is in flight, and one block because a window may begin mid-block
            return -(-min(page.span - 1 + scheduling.in_flight, length) // size) + 1
        case Kind.CHUNKED:
            return -(-min(page.span + scheduling.in_flight, length) // size)
        case Kind.STATE:
            return page.resident
        case Kind.CROSS:
            return -(-scheduling.encoder_tokens // size)
