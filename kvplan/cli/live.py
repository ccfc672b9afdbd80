"""What `kvplan audit --metrics` runs: a scrape of a running server, or two, as the operator's verdict."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.errors import NO, OK, USAGE


def audit_live(
    sources: Sequence[str], *, interval: float | None, max_num_seqs: int | None, timeout: float, as_json: bool
) -> int:
    """Write the report; 1 where something is to be changed, 2 where the metrics do not hold what a verdict needs."""
    from kvplan.cli.output import write_json, write_lines
    from kvplan.metrics import audit_metrics
    from kvplan.render.metrics import metrics_object, metrics_text

    report = audit_metrics(sources, interval=interval, max_num_seqs=max_num_seqs, seconds=timeout)
    if as_json:
        write_json(metrics_object(report))
    else:
        write_lines(metrics_text(report))
    if report.verdict == "unclear":
        return USAGE
    return NO if report.trouble else OK
