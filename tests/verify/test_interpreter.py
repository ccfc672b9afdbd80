"""The interpreter's two repairs, what would happen without them, and where they are refused."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="verify needs the extra: pip install '.[gpu]'")
triton = pytest.importorskip("triton", reason="verify needs the extra: pip install '.[gpu]'")

from kvplan.verify import interpreter

interpreter.enable()

import triton.language as tl

FLOATS = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)


@triton.jit
def cast(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + i, tl.load(x_ptr + i).to(y_ptr.dtype.element_ty))


@triton.jit
def multiply(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(c_ptr + i, tl.dot(tl.load(a_ptr + i), tl.load(b_ptr + i)))


def test_bfloat16_dot():
    a, b = torch.randn(2, 16, 16, generator=torch.Generator().manual_seed(0)).bfloat16()
    c = torch.empty(16, 16)
    multiply[(1,)](a, b, c, 16)
    assert torch.allclose(c, a.float() @ b.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", [*FLOATS, *FP8], ids=str)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_casts_are_torchs(source, target):
    x = (torch.randn(4096, generator=torch.Generator().manual_seed(1)) * 30).to(source)
    x[:4] = torch.tensor([torch.nan, 0.0, -0.0, 1.984375]).to(source)
    y = torch.empty(4096, dtype=target)
    cast[(1,)](x, y, 4096)
    assert torch.equal(y.float().nan_to_num(nan=-1.0), x.to(target).float().nan_to_num(nan=-1.0))


@pytest.mark.parametrize("target", FLOATS, ids=str)
@pytest.mark.parametrize("source", FP8, ids=str)
def test_every_fp8_code_widens_exactly(source, target):
    x = torch.arange(256, dtype=torch.uint8).view(source)
    y = torch.empty(256, dtype=target)
    cast[(1,)](x, y, 256)
    assert torch.equal(y.nan_to_num(nan=-1.0), x.to(target).nan_to_num(nan=-1.0))


@pytest.mark.parametrize("target", FP8, ids=str)
def test_fp8_overflow_saturates(target):
    y = torch.empty(16, dtype=target)
    cast[(1,)](torch.full((16,), 1e6), y, 16)
    assert y.float().unique().item() == torch.finfo(target).max


WITHOUT = """
import os; os.environ["TRITON_INTERPRET"] = "1"
import sys; sys.path[:0] = [{tests!r}]
import torch
from decode_cases import Case, error
print(error(Case()))
"""


def test_an_unrepaired_interpreter_is_far_off(request):
    """If this fails, Triton has mended its interpreter, and the repair can go."""
    script = WITHOUT.format(tests=str(request.config.rootpath / "tests/kernels"))
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True)
    assert float(run.stdout) > 1e6


@pytest.mark.parametrize(
    ("module", "version", "message"),
    [("triton", "3.5.1", "3.6 to 3.9 only"), ("triton", "4.0.0", "3.6 to 3.9 only"), ("numpy", "2.4.1", "numpy < 2.4")],
)
def test_refused_versions(monkeypatch, module, version, message):
    monkeypatch.setattr("triton.__version__", "3.6.0")
    monkeypatch.setattr(f"{module}.__version__", version)
    with pytest.raises(interpreter.InterpreterUnusable, match=message):
        interpreter.enable()


def test_kernels_of_a_gpu_cannot_be_switched_over():
    script = "from kvplan.kernels import fill; from kvplan.verify import interpreter; interpreter.enable()"
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert "the interpreter must be switched on first" in run.stderr


def test_enabling_twice_repairs_once():
    from triton.runtime import interpreter as tritons

    repaired = tritons._convert_float
    interpreter.enable()
    assert tritons._convert_float is repaired
