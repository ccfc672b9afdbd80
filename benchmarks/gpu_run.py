"""One GPU run, one script, one deadline: ceilings, numerics, tuning, sweep, FlashInfer, SDPA, and the product itself.

    python benchmarks/gpu_run.py --out DIR                 on a GPU, 480 s at most; DIR/gpu_run.json after each section
    python benchmarks/gpu_run.py --out DIR --dry           every section in Triton's interpreter, on tiny sizes

Sections run in the order of their worth, each only if it can still end before the deadline; an exception is a result,
not the end. `--wheels DIR` installs wheels that the machine lacks (FlashInfer's) without an index. Written down before
the first run: B 128 x 8,192 tokens, 8 KV heads of 128 in bf16 are 4.29 GB, 1.00 ms at 4.3 TB/s; a pool of 110 GB takes
26 to 28 ms of attention a step.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

DEADLINE = 480.0
READ_SHARE = {"bfloat16": 0.90, "float8_e4m3fn": 0.85}  # of the measured read bandwidth, at 256 request-heads and more


def main() -> int:
    """Run the sections and print the table; 1 where a bar is missed on a GPU, or anything fails in a dry run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--seconds", type=float, default=DEADLINE)
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--wheels", type=Path)
    options = parser.parse_args()
    if options.wheels is not None:
        wheels = sorted(map(str, options.wheels.glob("*.whl")))
        subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", *wheels], check=True)
    from gpu_sections import sections  # torch, and in a dry run the interpreter before any kernel

    start, results = time.monotonic(), {}
    options.out.mkdir(parents=True, exist_ok=True)
    for name, seconds, section in sections(dry=options.dry):
        left = options.seconds - (time.monotonic() - start)
        results[name] = (
            _run(section, results) if left >= seconds else {"skipped": f"{left:.0f} s left, {seconds} asked"}
        )
        (options.out / "gpu_run.json").write_text(json.dumps(results, indent=1, default=str) + "\n")
        print(f"[{time.monotonic() - start:5.0f} s] {name:<12} {_short(results[name])}", flush=True)
    failed = [name for name, result in results.items() if "error" in result]
    missed = [] if options.dry else bars(results)
    print("\n".join([f"failed: {', '.join(failed)}"] * bool(failed) + missed) or "every bar is cleared")
    return 1 if missed or (failed and options.dry) else 0


def _run(section: Callable[[dict[str, Any]], dict[str, Any]], results: dict[str, Any]) -> dict[str, Any]:
    try:
        return section(results)
    except Exception as error:  # noqa: BLE001  # FlashInfer may be missing, a kernel may fail: the other sections go on
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def _short(result: dict[str, Any]) -> str:
    text = json.dumps(result, default=str)
    return text if len(text) <= 150 else f"{text[:147]}..."


def bars(results: dict[str, Any]) -> list[str]:
    """Return the bars that were missed, in words."""
    missed = []
    for row in results.get("sweep", {}).get("rows", []):
        bar = READ_SHARE.get(row["cache"])
        judged = bar is not None and row["page"] == 16 and row["request_heads"] >= 256 and not row["latent"]
        if judged and row["of_read"] < bar:
            missed.append(f"missed: {row['name']} reads at {row['of_read']:.0%} of the ceiling, bar {bar:.0%}")
    missed += [
        f"missed: {row['name']} takes {row['ours_over_theirs']:.2f} of FlashInfer's time"
        for row in results.get("flashinfer", {}).get("rows", [])
        if row["ours_over_theirs"] > 1.0
    ]
    numerics = results.get("numerics", {})
    missed += [f"missed: {name} is off by {error:.1e}" for name, error in numerics.get("beyond", {}).items()]
    product = results.get("product", {})
    if product.get("verdict") != "confirmed":
        missed.append(f"missed: the product says {product.get('verdict', product)}: {product.get('reason', '')}")
    return missed


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
