"""The kernels' tests run in Triton's interpreter, on a CPU; without torch and triton there is nothing to run."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the kernels need the extra: pip install '.[gpu]'")
pytest.importorskip("triton", reason="the kernels need the extra: pip install '.[gpu]'")

from kvplan.verify import interpreter

interpreter.enable()
