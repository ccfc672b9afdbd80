"""What the package promises: its names, its types, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kvplan

HEAVY = ("torch", "triton", "huggingface_hub", "rich", "pydantic", "matplotlib", "numpy")


def test_the_public_names_are_these():
    assert kvplan.__all__ == sorted(kvplan.__all__)
    assert kvplan.__all__ == [
        "Gpu", "KvplanError", "Line", "ModelSpec", "Plan", "UnknownArchitecture", "find_gpu", "load_model", "plan",
    ]  # fmt: skip
    assert all(hasattr(kvplan, name) for name in kvplan.__all__)
    with pytest.raises(AttributeError):
        _ = kvplan.nothing


def test_plan_is_the_function_whatever_was_imported_before():
    code = "from kvplan import Plan, load_model; import kvplan; kvplan.plan('meta-llama/Llama-3.1-8B')"
    subprocess.run([sys.executable, "-c", code], check=True)


def imported(code: str) -> set[str]:
    told = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print('\\n'.join(sys.modules), file=sys.stderr)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in told.stderr.split()}


@pytest.mark.parametrize(
    "code",
    [
        "import kvplan",
        "import kvplan; kvplan.plan('meta-llama/Llama-3.1-8B', gpu='h100')",
        "from kvplan.cli import run; run(['--help'])",
        "from kvplan.cli import run; run(['size', 'meta-llama/Llama-3.1-8B', '--gpu', 'h100'])",
        "from kvplan.cli import run; run(['gpus', 'h100'])",
    ],
)
def test_an_offline_answer_imports_nothing_heavy(code):
    assert not imported(code) & set(HEAVY)


def test_the_package_itself_imports_none_of_its_modules():
    told = subprocess.run(
        [sys.executable, "-c", "import kvplan, sys; print([m for m in sys.modules if m.startswith('kvplan.')])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == "[]"
