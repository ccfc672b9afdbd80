"""Plant a bug in a copy of the kernels, and see that the named test catches it: who tests the tests.

    python tests/kernels/planted.py [WORD ...]     those whose name holds a word; about 4 minutes of one core for all

It first asserts that every named test passes on the kernels as they are, then that each planted bug makes its test fail
(or die: an offset that wraps around ends in somebody else's memory).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
KERNELS = HERE.parents[1] / "kernels"


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    file: str
    good: str
    bad: str
    test: str


def _decode(name, good, bad, test):
    return Bug(name, "paged_decode.py", good, bad, f"test_paged_decode.py::{test}")


BUGS = (
    _decode("end off by one", "(t < last)", "(t <= last)", "test_ends_of_chunks_and_pages"),
    _decode("window off by one", "(t >= lo)", "(t >= lo - 1)", "test_window"),
    _decode("window loses its first token", "(t >= lo)", "(t > lo)", "test_window"),
    _decode("window begins at the tile", "(t >= lo) & (t < last)", "(t < last)", "test_window"),
    _decode("window counts chunks from zero", "first = lo // TILE * TILE + split * chunk", "first = split * chunk",
            "test_window_starts_inside_a_late_tile"),
    _decode("local chunk off by one", "tl.maximum(length - 1, 0) // span * span", "length // span * span",
            "test_chunked_attention_sees_its_own_chunk"),
    _decode("page size halved", "t % PAGE *", "t % (PAGE // 2) *", "test_pages"),
    _decode("chunks overlap", "tl.minimum(first + chunk, length)", "tl.minimum(first + chunk + 1, length)",
            "test_ends_of_chunks_and_pages"),
    _decode("earlier sums not faded", "even_acc * fade[:, None]", "even_acc",
            "test_large_logits_need_the_running_maximum"),
    _decode("total not faded", "total = total * fade + tl.sum(p, 1)", "total = total + tl.sum(p, 1)",
            "test_large_logits_need_the_running_maximum"),
    _decode("value scale lost", "norm = (v_scale /", "norm = (1.0 /", "test_variant"),
    _decode("V read as K", "_row(row + v_step * VEC,", "_row(row,", "test_variant"),
    _decode("odd dims from even", "odd = ((words >> 1) & -16512)", "odd = (((words << 8) >> 1) & -16512)",
            "test_variant"),
    _decode("sign bit lost", "even = (((words << 8) >> 1) & -16512)", "even = (((words << 8) >> 1) & 16256)",
            "test_variant"),
    _decode("sink in every chunk",
            "top = tl.where(split == 0, sink, top)\n        total = tl.where(split == 0, 1.0, total)",
            "top = sink\n        total = total + 1.0", "test_variant"),
    _decode("softcap without its base", "softcap - 2 * softcap / (tl.exp2(s) + 1)", "softcap - 2 / (tl.exp2(s) + 1)",
            "test_variant"),
    _decode("softcap overflows", "softcap - 2 * softcap / (tl.exp2(s) + 1)",
            "softcap * (tl.exp2(s) - 1) / (tl.exp2(s) + 1)", "test_softcap_of_huge_logits"),
    _decode("wrong table row", "pages = table_ptr + req * table_req", "pages = table_ptr", "test_variant"),
    _decode("heads of the next block", "member = block % BLOCKS * ROWS", "member = block % BLOCKS * (ROWS // 2)",
            "test_variant"),
    _decode("per-head scale of the first head", "tl.load(scale_ptr + kv_head)", "tl.load(scale_ptr)", "test_variant"),
    _decode("combine ignores the weights", "weight = tl.exp2(lse - base)", "weight = tl.exp2(lse * 0)",
            "test_chunks_join_to_one_answer"),
    _decode("combine forgets its first blocks", "acc = acc * fade + tl.sum", "acc = tl.sum",
            "test_chunks_join_to_one_answer"),
    _decode("empty chunks say nothing", 'tl.store(lse_ptr + slot, float("-inf"), mask=member < GROUP)\n        return',
            "return", "test_ends_of_chunks_and_pages"),
    Bug("32-bit page offset", "paged_decode.py", "head_step = page_vecs.to(tl.int64),", "head_step = page_vecs,",
        "test_big_pool.py::test_last_pages_of_a_pool_beyond_32_bit_offsets"),
    Bug("32-bit head offset of a write", "write.py", "head_vecs.to(tl.int64)", "head_vecs",
        "test_big_pool.py::test_last_pages_of_a_pool_beyond_32_bit_offsets"),
    Bug("padding written", "write.py", "if slot < 0:", "if slot < -1:", "test_write.py::test_write"),
    Bug("ties away from zero", "write.py", "+ ((bits >> SHIFT) & 1)", "+ 1",
        "test_write.py::test_every_fp16_value_rounds"),
    Bug("cast before the clamp", "write.py", "size = tl.minimum(tl.abs(x), LIMIT)", "size = tl.abs(x)",
        "test_write.py::test_every_fp16_value_rounds"),
    Bug("NaN becomes the largest number", "write.py", "tl.where(x == x, byte, NAN)", "byte",
        "test_write.py::test_every_fp16_value_rounds"),
    Bug("copies backwards", "write.py", "tl.store(words + target + i, tl.load(words + source + i",
        "tl.store(words + source + i, tl.load(words + target + i", "test_write.py::test_copy_pages"),
    Bug("hash repeats after 16 GiB", "fill.py", "high = (start >> 32).to(tl.uint32) * 0x9E3779B9 + salt.to(tl.uint32)",
        "high = salt.to(tl.uint32)", "test_fill.py::test_hash_beyond_four_billion_words"),
    Bug("check reads nothing", "fill.py", "if wrong > 0:", "if wrong < 0:", "test_fill.py::test_check_counts"),
)  # fmt: skip


def passes(kernels, test):
    """Run a test (all its parameters, up to the first failure) on a folder of kernels."""
    file, _, name = test.partition("::")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", HERE / file, "-k", name]
    environment = os.environ | {"KVPLAN_PLANTED": str(kernels)}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=HERE.parents[1], check=False)
    assert run.returncode != 5, f"{test} names no test"  # pytest's code for "nothing was run"
    return run.returncode == 0


def planted(bug, folder):
    """Write the kernels into a folder, with the bug."""
    copy = Path(shutil.copytree(KERNELS, folder / bug.name.replace(" ", "-")))
    text = (copy / bug.file).read_text()
    assert bug.good in text, f"{bug.name}: {bug.file} no longer holds {bug.good!r}"
    (copy / bug.file).write_text(text.replace(bug.good, bug.bad))
    return copy


def main(words):
    bugs = [bug for bug in BUGS if not words or any(word in bug.name for word in words)]
    for test in dict.fromkeys(bug.test for bug in bugs):
        assert passes(KERNELS, test), f"{test} fails without a bug"
        sys.stdout.write(f"passes unplanted   {test}\n")
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        for bug in bugs:
            caught = not passes(planted(bug, Path(folder)), bug.test)
            survivors += [] if caught else [bug.name]
            sys.stdout.write(f"{'caught' if caught else 'SURVIVES':<18} {bug.name}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(bugs) - len(survivors)} of {len(bugs)} caught\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
