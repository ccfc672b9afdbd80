"""The kernels' tests run in Triton's interpreter, on a CPU; each file skips where torch or triton is missing."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for decode_cases and decode_variants

if find_spec("torch") is not None and find_spec("triton") is not None:
    from kvplan import kernels
    from kvplan.verify import interpreter

    if "KVPLAN_PLANTED" in os.environ:  # planted.py's copy of the kernels, with a bug in it
        kernels.__path__ = [os.environ["KVPLAN_PLANTED"]]
    interpreter.enable()


def pytest_configure(config):
    """numpy's remarks on the interpreter's own arithmetic: scalars taken from arrays, exp2 and log2 at infinity."""
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning:triton.runtime.interpreter")
    config.addinivalue_line("filterwarnings", "ignore::RuntimeWarning:triton.runtime.interpreter")
