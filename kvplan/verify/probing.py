"""The activation probe on a device: real matrix products on random numbers, phase by phase (see probe.Probe)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import torch

from kvplan.verify.probe import Probe

Phase: TypeAlias = Callable[[], list[torch.Tensor]]


def phases(probe: Probe, device: torch.device) -> Iterator[Phase]:
    """Yield each phase ready to run, its weights made: running it returns the tensors that are alive at its fullest."""
    yield _attention(probe, device)
    if probe.mlp:
        yield _mlp(probe, device)
    if probe.per_token:
        yield _experts(probe, device)
    if probe.expanded:
        yield _expanded(probe, device)
    yield _logits(probe, device)


def _random(probe: Probe, device: torch.device, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float32 if probe.item == 4 else torch.bfloat16, device=device)


def _attention(probe: Probe, device: torch.device) -> Phase:
    weight = _random(probe, device, probe.hidden, probe.projected)

    def run() -> list[torch.Tensor]:
        x = _random(probe, device, probe.tokens, probe.hidden)
        residual = x.clone()
        return [x, residual, x @ weight]

    return run


def _mlp(probe: Probe, device: torch.device) -> Phase:
    weight = _random(probe, device, probe.hidden, 2 * probe.mlp)

    def run() -> list[torch.Tensor]:
        x = _random(probe, device, probe.tokens, probe.hidden)
        residual, normed = x.clone(), x * 0.5
        both = normed @ weight
        gate, up = both.chunk(2, dim=1)
        product = torch.empty_like(gate, memory_format=torch.contiguous_format)
        torch.mul(gate, up, out=product)
        return [x, residual, normed, both, product]

    return run


def _experts(probe: Probe, device: torch.device) -> Phase:
    weight = _random(probe, device, probe.hidden, 2 * probe.expert)
    kept = _workspace(probe, device) if probe.kept else None

    def run() -> list[torch.Tensor]:
        x = _random(probe, device, probe.tokens, probe.hidden)
        residual = x.clone()
        own = _workspace(probe, device) if kept is None else []
        first = (kept or own)[0]
        for chosen in range(probe.per_token):  # each token goes to so many experts; the weights are the same ones here
            at = chosen * probe.tokens * 2 * probe.expert
            out = first[at : at + probe.tokens * 2 * probe.expert].view(probe.tokens, 2 * probe.expert)
            torch.mm(x, weight, out=out)
        return [x, residual, *own]

    return run


def _workspace(probe: Probe, device: torch.device) -> list[torch.Tensor]:
    rows = probe.tokens * probe.per_token
    return [_random(probe, device, rows * width) for width in probe.workspace()]


def _expanded(probe: Probe, device: torch.device) -> Phase:
    weight = _random(probe, device, probe.hidden, probe.expanded)

    def run() -> list[torch.Tensor]:
        x = _random(probe, device, probe.tokens, probe.hidden)
        residual = x.clone()
        both = torch.empty(probe.expanded_tokens, probe.expanded, dtype=x.dtype, device=device)
        rows = min(probe.tokens, probe.expanded_tokens)
        torch.mm(x[:rows], weight, out=both[:rows])
        return [x, residual, both]

    return run


def _logits(probe: Probe, device: torch.device) -> Phase:
    weight = _random(probe, device, probe.hidden, probe.vocabulary)

    def run() -> list[torch.Tensor]:
        hidden = _random(probe, device, probe.tokens, probe.hidden)
        last = hidden[: probe.sequences].clone()
        logits = last @ weight
        wide = torch.empty_like(logits, dtype=torch.float32).copy_(logits)
        masked = wide.clone()
        chances = torch.empty_like(masked)
        torch.softmax(masked, dim=1, out=chances)
        return [hidden, last, logits, wide, masked, chances]

    return run
