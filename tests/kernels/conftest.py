"""The kernels' tests run in Triton's interpreter, on a CPU; each file skips where torch or triton is missing."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("torch") is not None and find_spec("triton") is not None:
    from kvplan.verify import interpreter

    interpreter.enable()
