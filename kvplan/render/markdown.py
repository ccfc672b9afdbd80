"""The plan as Markdown, for an issue, a pull request or a wiki."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.model.describe import describe
from kvplan.planner import Plan
from kvplan.render import matrix
from kvplan.render.table import markdown_table
from kvplan.render.text import plan_text, where
from kvplan.units import gib


def plan_markdown(plan: Plan) -> list[str]:
    """Return one plan: a heading, the ledger as a table, the verdict and the notes."""
    lines = [f"### {plan.model.id}", "", f"{describe(plan.model)}; {where(plan)}", ""]
    if plan.budget.requested_bytes is not None:
        ledger = [(line.name, gib(line.bytes, 2), line.basis, line.why) for line in plan.budget.lines]
        rows = [("budget", gib(plan.budget.requested_bytes, 2), "", "what the engine may use of one GPU"), *ledger]
        lines += [*markdown_table(("line", "size", "basis", "why"), rows, right=frozenset({1})), ""]
    marks = ("fits:", "refused:", "next:", "note:", "one request", "KV cache in", "this model keeps")
    told = [text.strip() for text in plan_text(plan)[1:]]
    lines += [f"- {text}" for text in told if text.startswith(marks) or " a token and GPU" in text]
    return lines


def matrix_markdown(plans: Sequence[Plan]) -> list[str]:
    """Return several plans as one table."""
    return [f"### {plans[0].model.id}", "", *markdown_table(matrix.HEADER, matrix.rows(plans), right=matrix.RIGHT)]
