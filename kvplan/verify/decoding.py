"""Decode steps on torch buffers: views of the pool, tables, queries, and launches that layers of one form share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
import triton

from kvplan.kernels.contract import INT32
from kvplan.kernels.paged_launch import Launch, prepare
from kvplan.kernels.tiling import CANDIDATES, LATENT_CANDIDATES, Tiling
from kvplan.verify.device import Attention, Row, Step
from kvplan.verify.truth import SOFTCAP


class Decoding:
    """Launches by step. Layers of one form share query, output and workspace: they run one after the other."""

    def __init__(self, device: torch.device, buffers: Mapping[int, torch.Tensor]) -> None:
        self.device = device
        self.buffers = buffers
        self._launches: dict[int, tuple[Step, list[Launch]]] = {}
        self._cuts: dict[Attention, Tiling] = {}
        self._ran: tuple[int, int] | None = None  # the step and layer whose output the shared tensor holds

    def warm(self, step: Step, blocks: int) -> None:
        """Compile and run a step's kernels on a pool whose pages are all one and the same."""
        for form in dict.fromkeys(map(_form, step.layers)):
            page = torch.zeros(form.page_bytes, dtype=torch.uint8, device=self.device)
            k, v = _views(page, form, blocks=blocks, page_bytes=0)
            wide = blocks * form.page_bytes > 2 * INT32
            launch = self._prepare(step, form, k, v, wide=wide)
            replace(launch, grid=(launch.splits, 1, 1))()  # one head of one request compiles as much as all of them

    def launches(self, step: Step) -> list[Launch]:
        """Return one launch a layer, prepared on first use."""
        known = self._launches.get(id(step))
        if known is None:
            known = self._launches[id(step)] = (step, self._prepared(step))
        return known[1]

    def run(self, step: Step) -> None:
        """Run a step."""
        launches = self.launches(step)
        for launch in launches:
            launch()
        self._ran = (id(step), len(launches) - 1)

    def row(self, work: Row) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Run one layer of a step; return the query, the output and the sink logit of one request and head."""
        launch = self.launches(work.step)[work.layer]
        if self._ran != (id(work.step), work.layer):
            launch()
            self._ran = (id(work.step), work.layer)
        out = launch.out
        q, sinks = launch.arguments[0], launch.arguments[4]
        place = (work.request, work.head)
        return q[place], out[place], None if sinks is None else sinks[work.head]

    def tune(self, step: Step, seconds: Callable[[Launch], float]) -> float:
        """Time the candidate tilings of each form, keep the fastest; return the table's time over theirs."""
        usual, fastest = 0.0, 0.0
        for form in dict.fromkeys(map(_form, step.layers)):
            layer = next(layer for layer in step.layers if _form(layer) == form)
            k, v = self._layer_views(step, layer)
            candidates = LATENT_CANDIDATES if form.latent else CANDIDATES
            base = self._prepare(step, form, k, v)
            times = {base.tiling: seconds(base)}
            for cut in candidates:
                try:
                    times.setdefault(cut, seconds(self._prepare(step, form, k, v, cut=cut)))
                except (RuntimeError, triton.TritonError):
                    continue  # more shared memory or registers than this chip has
            best = min(times, key=lambda cut: times[cut])
            self._cuts[form] = best
            usual, fastest = usual + times[base.tiling], fastest + times[best]
        self._launches.clear()
        return usual / fastest if fastest else 1.0

    def _prepared(self, step: Step) -> list[Launch]:
        found: list[Launch] = []
        first: dict[Attention, Launch] = {}
        for layer in step.layers:
            k, v = self._layer_views(step, layer)
            form = _form(layer)
            if form not in first:
                first[form] = self._prepare(step, form, k, v)
            found.append(first[form].over(k))
        return found

    def _layer_views(self, step: Step, layer: Attention) -> tuple[torch.Tensor, torch.Tensor | None]:
        buffer = self.buffers[step.buffers[layer.region]]
        return _views(buffer, layer, blocks=buffer.numel() // layer.page_bytes, page_bytes=layer.page_bytes)

    def _prepare(self, step: Step, form: Attention, k: torch.Tensor, v: torch.Tensor | None, **options: Any) -> Launch:
        lengths = step.batch.lengths[form.group]
        rows = step.batch.blocks[form.group]
        widest = max(map(len, rows))
        table = torch.tensor([row + (0,) * (widest - len(row)) for row in rows], dtype=torch.int32)
        draw = torch.Generator().manual_seed(form.heads * 1009 + form.key)
        query = torch.float16 if form.dtype == "float16" else torch.bfloat16
        q = torch.randn(len(lengths), form.heads, form.key, generator=draw).to(query)
        sinks = torch.randn(form.heads, generator=draw).to(self.device) if form.sinks else None
        options.setdefault("cut", self._cuts.get(form))
        return prepare(
            q.to(self.device), k, v, table.to(self.device), torch.tensor(lengths, dtype=torch.int32).to(self.device),
            scale=form.key**-0.5, latent=form.value if form.latent else 0, sinks=sinks,
            softcap=SOFTCAP if form.softcap else None, window=form.window, chunked=form.chunked, **options,
        )  # fmt: skip


def _form(layer: Attention) -> Attention:
    """Return what decides a launch beside the buffer."""
    return replace(layer, region=0)


def _views(
    buffer: torch.Tensor, layer: Attention, *, blocks: int, page_bytes: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return K and V [blocks, page, KV heads, dim] of a buffer whose pages are [KV heads, page, K and V]."""
    dtype = getattr(torch, layer.dtype)
    width = layer.key if layer.latent else layer.key + layer.value
    flat = buffer[: buffer.numel() // 16 * 16].view(dtype)
    shape = (blocks, layer.page, layer.kv_heads)
    strides = (page_bytes // dtype.itemsize, width, layer.page * width, 1)
    k = flat.as_strided((*shape, layer.key), strides)
    v = None if layer.latent else flat.as_strided((*shape, layer.value), strides, layer.key)
    return k, v
