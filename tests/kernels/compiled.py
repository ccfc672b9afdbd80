"""Compile the kernels for GPUs that are not here, and read what the assembler made of them.

A script (`python compiled.py PART OF CHIP…`), because under Triton's interpreter, which the other tests switch on,
nothing is compiled. It takes every OF-th compilation from PART on and prints one JSON object a line.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import decode_variants as variants
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kvplan.kernels import fill, paged_decode, paged_launch, tiling, write

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_89": GPUTarget("cuda", 89, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "sm_120": GPUTarget("cuda", 120, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
POINTERS = {torch.bfloat16: "*bf16", torch.float16: "*fp16"}
BIN = Path(triton.__file__).parent / "backends/nvidia/bin"


def source(kernel, types, constants):
    """Types by argument name, i32 where not named. Pointers are told to be aligned to 16 bytes, and nothing else is."""
    names = kernel.arg_names
    types = {name: "constexpr" if name in constants else types.get(name, "i32") for name in names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if types[name].startswith("*")}
    constants = {(names.index(name),): value for name, value in constants.items()}
    return ASTSource(kernel, types, constexprs=constants, attrs=aligned)


def decode(target, variant):
    """A variant's source as `prepare` would launch it on the target."""
    chip = tiling.Chip(target.backend, target.arch if target.backend == "cuda" else 0, 132)
    cache = getattr(torch, variant.dtype)
    cut = tiling.choose(chip, words=variant.key * cache.itemsize // 2, latent=variant.latent)
    constants = paged_launch.constants(
        chip=chip, cut=cut, cache=cache, group=variant.group, page=variant.page, key=variant.key, value=variant.value,
        wide="wide" in variant.features, chunked=variant.span == "chunk",
    )  # fmt: skip
    query = POINTERS[cache if cache.itemsize == 2 else torch.bfloat16]
    types = {
        "q_ptr": query, "pool_ptr": query if cache.itemsize == 2 else "*i16", "table_ptr": "*i32", "len_ptr": "*i32",
        "sink_ptr": query, "scale_ptr": "*fp32", "lse_ptr": "*fp32",
        "out_ptr": "*fp32" if "split" in variant.features else query,
        "qk_scale": "fp32", "v_scale": "fp32", "softcap": "fp32",
    }  # fmt: skip
    present = {
        "sink_ptr": "sinks" in variant.features, "scale_ptr": "head_scales" in variant.features,
        "softcap": "softcap" in variant.features, "span": variant.span != "all", "v_vecs": not variant.latent,
    }  # fmt: skip
    constants |= {name: None for name, there in present.items() if not there}
    return source(paged_decode.decode_kernel, types, constants), cut.warps, cut.stages


def others():
    """The kernels beside decode: name -> source, warps."""
    pattern = {"MASK": 0x81FF81FF, "BASE": 0x3E003E00, "BLOCK": fill.BLOCK}
    shape = {"DIM": 128, "HEADS": 8, "PAD": 128, "PAGE": 16}
    rows = {"src_ptr": "*bf16", "slot_ptr": "*i64", "scale": "fp32"}
    combine = {"WIDTH": 128, "PAD": 128, "BLOCK": 16}
    made = {
        "fill": (fill.fill_kernel, {"buffer_ptr": "*i32", "vecs": "i64"}, pattern, 4),
        "check": (fill.check_kernel, {"buffer_ptr": "*i32", "wrong_ptr": "*i64", "vecs": "i64"}, pattern, 4),
        "copy": (write.copy_kernel, dict.fromkeys(("source_ptr", "target_ptr"), "*i32") | {"base_ptr": "*i64"},
                 {"BLOCK": 1024}, 4),
        "combine": (paged_decode.combine_kernel, {"part_ptr": "*fp32", "lse_ptr": "*fp32", "out_ptr": "*bf16"},
                    combine, 4),
    }  # fmt: skip
    for kind, cache, warps in (("half", "*bf16", 4), ("e4m3", "*i8", 2), ("e5m2", "*i8", 2)):
        made[f"write {kind}"] = (write.write_kernel, rows | {"cache_ptr": cache}, shape | {"FORMAT": kind}, warps)
    return {name: (source(kernel, types, constants), warps) for name, (kernel, types, constants, warps) in made.items()}


def assembled(kernel):
    """Registers, spills and widths of global accesses, from the listing of NVIDIA's disassembler."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        usage = _run("cuobjdump", "--dump-resource-usage", file.name)
        listing = _run("nvdisasm", "-c", file.name)
    ops = re.findall(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", listing, re.MULTILINE)
    kinds = Counter(op.split(".")[0] for op in ops)
    widths = Counter(f"{op.split('.')[0]} {_width(op)}" for op in ops if op.split(".")[0] in ("LDG", "LDGSTS", "STG"))
    return {
        "registers": int(re.search(r"REG:(\d+)", usage)[1]),
        "spills": kinds["STL"] + kinds["LDL"],
        "instructions": len(ops),
        "widths": dict(widths),
    }


def _run(tool, *arguments):
    return subprocess.run([BIN / tool, *arguments], capture_output=True, text=True, check=True).stdout


def _width(op):
    parts = op.split(".")
    return next((width for width in ("128", "64") if width in parts), "16" if {"U16", "S16"} & set(parts) else "32")


def listed(kernel):
    """The same from AMD's assembly text; registers count both halves of the unified file."""
    text = kernel.asm["amdgcn"]
    words = {"dwordx4": "128", "dwordx2": "64", "dword": "32"}
    accesses = re.findall(r"\bglobal_(load|store)_(\w+)", text)
    return {
        "registers": int(re.search(r"\.vgpr_count:\s*(\d+)", text)[1]),
        "spills": int(re.search(r"\.vgpr_spill_count:\s*(\d+)", text)[1]),
        "widths": dict(Counter(f"{kind} {words.get(size, size)}" for kind, size in accesses)),
    }


def compiled(target_name, name):
    target = TARGETS[target_name]
    if name in variants.VARIANTS:
        made, warps, stages = decode(target, variants.VARIANTS[name])
    else:
        (made, warps), stages = others()[name], 3
    kernel = triton.compile(made, target=target, options={"num_warps": warps, "num_stages": stages})
    read = assembled(kernel) if target.backend == "cuda" else listed(kernel)
    return {"target": target_name, "name": name, "warps": warps, "shared": kernel.metadata.shared, **read}


def main(part, of, targets):
    jobs = [(target, name) for target in targets for name in (*variants.VARIANTS, *others())]
    for target, name in jobs[part::of]:
        sys.stdout.write(json.dumps(compiled(target, name)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
