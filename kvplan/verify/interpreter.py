"""Triton's interpreter as a device: switched on, and repaired where it miscounts, before the first kernel is imported.

numpy has neither bfloat16 nor float8, so the interpreter keeps both as raw words, and two of its operations are wrong
on them (seen in Triton 3.6.0 and 3.9.0; the versions between are held to be alike):

* `tl.dot` multiplies bfloat16 words as integers: a bfloat16 decode is off by a factor of 10**9;
* casts drop the carry out of the mantissa (1.98 becomes 1.0), round ties wrong and lose NaN: half of all
  float32 -> bfloat16 casts are off by one unit in the last place.

torch converts both types right on a CPU and stands in for the casts; dots are taken in float32, which holds every
bfloat16 exactly. A Triton outside the range is refused: an unrepaired interpreter would blame our kernels, and a
repair of what is no longer broken could break it.
"""

from __future__ import annotations

import os
import sys
from typing import Any

FIRST, LAST = (3, 6), (3, 9)  # the Triton releases that the repairs were checked on, both ends included


class InterpreterUnusable(RuntimeError):
    """Triton cannot serve as a device here; the message says why."""


def enable() -> None:
    """Switch Triton to its interpreter and repair it; must run before a module with `@triton.jit` is imported.

    Raises InterpreterUnusable for a Triton that the repairs were not checked on, for a numpy that this Triton cannot
    work with, and where kernels were already imported for a GPU.
    """
    compiled = [name for name in sys.modules if name.startswith("kvplan.kernels.")]
    if compiled and os.environ.get("TRITON_INTERPRET") != "1":
        raise InterpreterUnusable(f"{compiled[0]} was imported for a GPU: the interpreter must be switched on first")
    os.environ["TRITON_INTERPRET"] = "1"
    import numpy as np  # noqa: PLC0415  # the environment must be set before triton is imported
    import triton  # noqa: PLC0415
    from triton.runtime import interpreter  # noqa: PLC0415

    release = _release(triton.__version__)
    if not FIRST <= release <= LAST:
        known = f"{FIRST[0]}.{FIRST[1]} to {LAST[0]}.{LAST[1]}"
        raise InterpreterUnusable(f"triton {triton.__version__}: its interpreter is repaired for {known} only")
    if release == (3, 6) and _release(np.__version__) >= (2, 4):
        raise InterpreterUnusable(f"triton 3.6 interprets loops wrongly with numpy {np.__version__}: numpy < 2.4")
    if interpreter._convert_float.__module__ != __name__:  # noqa: SLF001  # the repair is of private parts
        _repair(interpreter)


def _release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _repair(interpreter: Any) -> None:
    import numpy as np  # noqa: PLC0415
    import torch  # noqa: PLC0415
    import triton.language as tl  # noqa: PLC0415

    known = {
        tl.float16: torch.float16,
        tl.bfloat16: torch.bfloat16,
        tl.float32: torch.float32,
        tl.float8e4nv: torch.float8_e4m3fn,
        tl.float8e5: torch.float8_e5m2,
    }
    words = {1: np.uint8, 2: np.uint16, 4: np.uint32}
    original_cast, builder = interpreter._convert_float, interpreter.InterpreterBuilder  # noqa: SLF001
    original_dot = builder.create_dot

    def cast(data: Any, source: Any, target: Any, rounding: Any) -> Any:
        if source not in known or target not in known:
            return original_cast(data, source, target, rounding)
        raw = torch.from_numpy(np.ascontiguousarray(data).view(np.uint8).copy())
        value = raw.view(known[source]).float()
        if target.primitive_bitwidth == 8:  # as the hardware casts: overflow becomes the largest finite number
            limit = torch.finfo(known[target]).max
            value = value.clamp(-limit, limit)
        result = value.to(known[target])
        return result.view(torch.uint8).numpy().view(words[result.itemsize]).reshape(np.shape(data))

    def widened(operand: Any) -> Any:
        if operand.dtype.scalar != tl.bfloat16:
            return operand
        return interpreter.TensorHandle((operand.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        return original_dot(self, widened(a), widened(b), *rest)

    cast.__module__ = __name__
    interpreter._convert_float = cast  # noqa: SLF001
    builder.create_dot = dot
