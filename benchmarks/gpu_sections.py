"""The sections of gpu_run.py. Each takes the results so far and returns its own, as plain numbers and words."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvplan.verify.factory import GpuFactory, InterpreterFactory

Section = Callable[[dict[str, Any]], dict[str, Any]]


def sections(*, dry: bool) -> list[tuple[str, int, Section]]:
    """Return (name, seconds it needs, section) in order; opens the card, and imports torch and the kernels by that."""
    card = (InterpreterFactory() if dry else GpuFactory(0)).open()
    card.facts()
    runner = _Runner(card, dry=dry)
    return [
        ("environment", 0, runner.environment),
        ("ceilings", 10, runner.ceilings),
        ("numerics", 40, runner.numerics),
        ("tune", 40, runner.tune),
        ("sweep", 60, runner.sweep),
        ("flashinfer", 40, runner.flashinfer),
        ("sdpa", 15, runner.sdpa),
        ("product", 60, runner.product),
    ]


class _Runner:
    """The card, and the sections as methods."""

    def __init__(self, card: Any, *, dry: bool) -> None:
        import torch

        from kvplan.kernels import fill, paged_launch, reference, tiling, write

        self.card, self.dry, self.torch = card, dry, torch
        self.fill, self.launcher, self.reference, self.tiling, self.write = fill, paged_launch, reference, tiling, write
        self.pools: dict[int, Any] = {}

    def environment(self, _: dict[str, Any]) -> dict[str, Any]:
        """The card and the software."""
        facts = self.card.facts()
        return {"gpu": facts.name, "chip": facts.chip, "software": facts.software, "memory": list(facts.memory)}

    def ceilings(self, _: dict[str, Any]) -> dict[str, Any]:
        """Copy, write and read streams of 8 GB, in bytes per second."""
        torch, size = self.torch, 2**16 if self.dry else 8 << 30
        a, b = (torch.empty(size // 4, dtype=torch.int32, device=self.card.device) for _ in range(2))
        wrong = torch.zeros(1, dtype=torch.int64, device=self.card.device)
        self.fill.fill(a, torch.bfloat16, 1)
        return {
            "copy": 2 * size / self._seconds(lambda: b.copy_(a)),
            "write": size / self._seconds(lambda: self.fill.fill(a, torch.bfloat16, 1)),
            "read": size / self._seconds(lambda: self.fill.check(a, wrong, torch.bfloat16, 1)),
            "wrong": int(wrong.item()),
        }

    def numerics(self, _: dict[str, Any]) -> dict[str, Any]:
        """The poisoned cases of the tests on the card: worst row by dtype; writes bit for bit."""
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests/kernels"))
        from decode_cases import BOUND, Case, build
        from gpu_forms import cases

        torch = self.torch
        worst: dict[str, float] = {}
        beyond: dict[str, float] = {}
        for case in cases(Case, dry=self.dry):
            *tensors, options = build(case)
            on_card = [None if x is None else x.to(self.card.device) for x in tensors]
            moved = {k: v.to(self.card.device) if torch.is_tensor(v) else v for k, v in options.items()}
            out = self.launcher.decode(*on_card, **moved)
            error = self.reference.worst_row(out, self.reference.decode(*tensors, **options))
            cache = str(case.cache).removeprefix("torch.")
            worst[cache] = max(error, worst.get(cache, 0.0))
            bound = BOUND[torch.float16 if case.cache == torch.float16 else torch.bfloat16]
            if not error < bound:
                beyond[str(case)] = error
        return {"worst": worst, "beyond": beyond, "writes_wrong": self._writes()}

    def _writes(self) -> int:
        torch, wrong = self.torch, 0
        for cache in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
            rows = (torch.randn(40, 8, 128, generator=torch.Generator().manual_seed(1)) * 9).bfloat16()
            pool, slots = torch.zeros(8, 16, 8, 128, dtype=cache), torch.randperm(128)[:40]
            scale = 1.0 if cache == torch.bfloat16 else 0.37
            there = pool.to(self.card.device)
            self.write.write(rows.to(self.card.device), there, slots.to(self.card.device), scale=scale)
            self.reference.write(rows, pool, slots, scale=scale)
            source, target = torch.tensor([0, 3], dtype=torch.int32), torch.tensor([5, 1], dtype=torch.int32)
            self.write.copy_pages([there], source.to(self.card.device), target.to(self.card.device))
            self.reference.copy_pages(pool, source, target)
            wrong += int((there.cpu().view(torch.int8) != pool.view(torch.int8)).sum())
        return wrong

    def tune(self, _: dict[str, Any]) -> dict[str, Any]:
        """Every candidate tiling by form of cache, in bytes per second; e4m3 by shifts beside the conversion."""
        from gpu_forms import Shape

        lengths = (64,) * 2 if self.dry else (8192,) * 128
        forms = [
            Shape(lengths, cache=cache, hnd=hnd) for cache in ("bfloat16", "float8_e4m3fn") for hnd in (True, False)
        ]
        forms.append(Shape(lengths, heads=16, kv_heads=1, key=576, value=512, latent=True))
        table: dict[str, Any] = {}
        for form in forms[: 1 if self.dry else None]:
            candidates = self.tiling.LATENT_CANDIDATES if form.latent else self.tiling.CANDIDATES
            for cut in candidates[: 1 if self.dry else None]:
                name = f"{form.name}: tile {cut.tile} warps {cut.warps} stages {cut.stages} rows {cut.rows}"
                table[name] = self._speed(form, cut=cut)
            if form.cache == "float8_e4m3fn":
                table[f"{form.name}: by shifts"] = self._speed(form, constants={"CONVERT": False})
        return {"bytes_per_second": table, "best": max(table, key=lambda name: table[name] or 0)}

    def sweep(self, results: dict[str, Any]) -> dict[str, Any]:
        """Every form of the grid: the share of the read stream."""
        from gpu_forms import grid

        read = results["ceilings"]["read"]
        rows = []
        for form in grid(dry=self.dry):
            speed = self._speed(form)
            if speed is None:
                continue
            rows.append({
                "name": form.name, "cache": form.cache, "page": form.page, "latent": form.latent,
                "request_heads": len(form.lengths) * form.kv_heads, "bytes_per_second": speed, "of_read": speed / read,
            })  # fmt: skip
        return {"rows": rows, "least_of_read": min(row["of_read"] for row in rows)}

    def flashinfer(self, _: dict[str, Any]) -> dict[str, Any]:
        """FlashInfer's two decode kernels on the same tensors, planned outside of the clock; outputs compared too."""
        if self.dry:
            return {"rows": [], "note": "a GPU library"}
        import flashinfer  # type: ignore[import-not-found]
        from gpu_forms import Shape

        torch, rows = self.torch, []
        for cache in ("bfloat16", "float8_e4m3fn"):
            for requests, length in ((8, 8192), (32, 4096), (128, 8192)):
                form = Shape((length,) * requests, cache=cache, hnd=False)
                pages = requests * length // 16
                pool = self._pool(form, pages).view(pages, 2, 16, 8, 128)
                q, table, lengths = self._inputs(form, pages)
                ours = self.launcher.prepare(q, pool[:, 0], pool[:, 1], table, lengths, scale=128**-0.5)
                mine, out = self._seconds(ours), ours().clone()
                for tensor_cores in (False, True):
                    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
                        torch.empty(256 << 20, dtype=torch.uint8, device=q.device), "NHD", use_tensor_cores=tensor_cores
                    )
                    first = torch.arange(requests + 1, dtype=torch.int32, device=q.device) * (length // 16)
                    last = torch.full((requests,), 16, dtype=torch.int32, device=q.device)
                    wrapper.plan(
                        first, table.flatten(), last, 32, 8, 128, 16, q_data_type=q.dtype, kv_data_type=pool.dtype
                    )
                    theirs = self._seconds(lambda wrapper=wrapper, q=q, pool=pool: wrapper.run(q, pool))
                    difference = self.reference.worst_row(wrapper.run(q, pool), out.cpu().double())
                    name = f"{form.name}, {'tensor' if tensor_cores else 'CUDA'} cores"
                    rows.append({"name": name, "ours_s": mine, "theirs_s": theirs, "ours_over_theirs": mine / theirs,
                                 "differs_by": difference})  # fmt: skip
        return {"version": flashinfer.__version__, "rows": rows}

    def sdpa(self, _: dict[str, Any]) -> dict[str, Any]:
        """Torch's attention on contiguous keys and values, without paging: what is the best that one could hope for."""
        torch = self.torch
        requests, length = (2, 64) if self.dry else (128, 8192)
        shape = (requests, 8, length, 128)
        k, v = (torch.randn(shape, device=self.card.device).bfloat16() for _ in range(2))
        q = torch.randn(requests, 32, 1, 128, device=self.card.device).bfloat16()
        attend = torch.nn.functional.scaled_dot_product_attention
        return {"bytes_per_second": 2 * k.nbytes / self._seconds(lambda: attend(q, k, v, enable_gqa=True))}

    def product(self, _: dict[str, Any]) -> dict[str, Any]:
        """`kvplan verify --gpu-util 0.92` at full size, in its own child, after everything here is given back."""
        from kvplan.verify.report import verify_object
        from kvplan.verify.run import verify

        self.pools.clear()
        self.card.flush()
        extra = {"concurrency": 1, "max_model_len": 40} if self.dry else {}
        return verify_object(verify(device="cpu" if self.dry else "cuda:0", gpu_memory_utilization=0.92, **extra))

    def _seconds(self, action: Callable[[], Any]) -> float:
        return float(self.card.timed(action).seconds)

    def _speed(self, form: Any, *, constants: dict[str, Any] | None = None, **options: Any) -> float | None:
        """Return the bytes of cache a second that a form is decoded at; None where it does not fit 60 GB."""
        pages = sum(-(-length // form.page) for length in form.lengths)
        width = form.key if form.latent else form.key + form.value
        row = form.kv_heads * width * getattr(self.torch, form.cache).itemsize
        if pages * form.page * row > 60e9:
            return None
        pool = self._pool(form, pages)
        shape = (pages, form.kv_heads, form.page, width) if form.hnd else (pages, form.page, form.kv_heads, width)
        cells = pool.view(shape).transpose(1, 2) if form.hnd else pool.view(shape)
        q, table, lengths = self._inputs(form, pages)
        k, v = cells[..., : form.key], None if form.latent else cells[..., form.key :]
        launch = self.launcher.prepare(
            q, k, v, table, lengths, scale=form.key**-0.5, latent=form.value if form.latent else 0, **options
        )
        if constants:
            launch = replace(launch, constants=launch.constants | constants)
        return float(sum(form.lengths) * row / self._seconds(launch))

    def _pool(self, form: Any, pages: int) -> Any:
        """Return a flat pool, filled once and lent to every form that it is large enough for."""
        dtype = getattr(self.torch, form.cache)
        width = form.key if form.latent else form.key + form.value
        elements = pages * form.page * form.kv_heads * width
        held = self.pools.get(dtype.itemsize)
        if held is None or held.numel() < elements:
            self.pools.clear()
            held = self.torch.empty(elements, dtype=dtype, device=self.card.device)
            self.fill.fill(held.view(self.torch.int32), dtype, 0)
            self.pools[dtype.itemsize] = held
        return held[:elements]

    def _inputs(self, form: Any, pages: int) -> tuple[Any, Any, Any]:
        """Return queries, shuffled tables and lengths."""
        torch, draw = self.torch, self.torch.Generator().manual_seed(0)
        order = torch.randperm(pages, generator=draw, dtype=torch.int32)
        needed = [-(-length // form.page) for length in form.lengths]
        table = torch.zeros(len(needed), max(needed), dtype=torch.int32)
        for row, (ids, count) in enumerate(zip(order.split(needed), needed, strict=True)):
            table[row, :count] = ids
        q = torch.randn(len(needed), form.heads, form.key, generator=draw).bfloat16()
        lengths = torch.tensor(form.lengths, dtype=torch.int32)
        return q.to(self.card.device), table.to(self.card.device), lengths.to(self.card.device)
