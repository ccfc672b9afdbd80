"""A running server's own figures as the operator's verdict: out of memory, out of slots, or neither."""

from __future__ import annotations

from kvplan.metrics.report import Report, audit_metrics

__all__ = ["Report", "audit_metrics"]
