"""The object of `kvplan check --format json`, schema 1."""

from __future__ import annotations

from typing import Any

from kvplan.checks.case import Case
from kvplan.checks.finding import Finding, Report
from kvplan.manifests.read import Problem
from kvplan.render.json import plan_object

SCHEMA = 1


def report_object(report: Report) -> dict[str, Any]:
    """Return the report. A file that was only skipped is no error: its reason goes to stderr."""
    return {
        "schema": SCHEMA,
        "deployments": [_deployment(case) for case in report.cases],
        "findings": [_finding(finding) for finding in report.findings],
        "errors": [_error(problem) for problem in report.problems if problem.grave],
    }


def _deployment(case: Case) -> dict[str, Any]:
    found, topology = case.deployment, case.deployment.topology
    return {
        "file": found.file,
        "line": found.place.line,
        "column": found.place.column,
        "kind": found.kind,
        "where": found.where,
        "role": found.role,
        "engine": found.engine,
        "release": case.release,
        "model": found.model,
        "model_source": found.source,
        "served_model_name": found.served_model_name,
        "args": {name: argument.value for name, argument in found.arguments.items()},
        "gpu": case.gpu.name if case.gpu is not None else None,
        "gpus_per_pod": case.gpus,
        "nodes": topology.nodes,
        "replicas": topology.replicas,
        "unresolved": list(found.unresolved),
        "confidence": found.confidence,
        "not_planned": case.unplanned,
        "plan": plan_object(case.plan) if case.plan is not None else None,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "name": finding.name,
        "severity": finding.severity.word,
        "confidence": finding.confidence,
        "file": finding.file,
        "line": finding.place.line,
        "column": finding.place.column,
        "deployment": finding.deployment,
        "message": finding.message,
        "fix": finding.fix,
    }


def _error(problem: Problem) -> dict[str, Any]:
    return {
        "file": problem.file,
        "line": problem.place.line,
        "column": problem.place.column,
        "message": problem.message,
    }
