"""Every check runs in an empty folder that is a repository of its own, offline, and not under GitHub Actions."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / ".hub"))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    return tmp_path
