"""What the tests of the sources share."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def add_model():
    """The script that writes built-ins, as a module: scripts/ is no package."""
    path = Path(__file__).parents[2] / "scripts/add_model.py"
    spec = importlib.util.spec_from_file_location("add_model", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
