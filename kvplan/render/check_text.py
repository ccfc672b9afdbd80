"""The report of `kvplan check` as a terminal shows it: a line a deployment, its findings below, one summary."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.checks.case import Case
from kvplan.checks.finding import Finding, Report, Severity
from kvplan.checks.ranks import too_few
from kvplan.render.explain import explain
from kvplan.render.text import verdict_word
from kvplan.units import counted, gib, quantity


def check_text(report: Report, *, quiet: bool = False, verbose: bool = False) -> list[str]:
    """Return the lines; `quiet` leaves the deployments out, `verbose` adds the ledger of each plan."""
    lines: list[str] = []
    for case in report.cases:
        findings = report.of(case)
        if quiet and not findings:
            continue
        if not quiet:
            lines += _deployment(case, verbose=verbose)
        for finding in findings:
            lines += _finding(finding)
    for problem in report.problems:
        word = "error" if problem.grave else "note"
        lines.append(f"{problem.file}:{problem.place.line}:{problem.place.column}: {word}: {problem.message}")
    return [*lines, *([] if quiet else ["", summary(report), *advice(report)])]


def summary(report: Report) -> str:
    """Return the counts in one line: `3 deployments in 12 files: 1 error, 2 notes, 1 not planned`."""
    counts = [
        (sum(finding.severity is severity for finding in report.findings), severity.word)
        for severity in sorted(Severity, reverse=True)
    ]
    told = [counted(count, word) for count, word in counts if count]
    unplanned = sum(case.plan is None for case in report.cases)
    told += [f"{unplanned} not planned"] if unplanned else []
    cardless = sum(_lacks_card(case) for case in report.cases)
    told += [f"{cardless} planned without a card"] if cardless else []
    unread = sum(problem.grave for problem in report.problems)
    told += [f"{counted(unread, 'place')} that cannot be read"] if unread else []
    what = f"{counted(len(report.cases), 'deployment')} in {counted(report.files, 'file')}"
    return f"{what}: {', '.join(told) if told else 'nothing to say'}"


def advice(report: Report) -> list[str]:
    """Say how a card is named, where one is missing."""
    cardless = [case for case in report.cases if _lacks_card(case)]
    if any(case.named_card is None for case in cardless):
        return ["name the card with --gpu NAME, or with gpu: in kvplan.yaml"]
    return ["name the card in an entry of deployments: in kvplan.yaml; kvplan gpus lists them"] if cardless else []


def _lacks_card(case: Case) -> bool:
    return case.plan is not None and case.gpu is None and not case.is_fully_planned


def verdict(case: Case) -> str:
    """Return in a few words what became of a deployment."""
    plan = case.plan
    if plan is None:
        return f"not planned: {case.unplanned}"
    if plan.verdict is None:
        return "planned" if case.gpu is not None else f"planned without a card{_named(case)}"
    if plan.verdict == "refused":
        return "would not start"
    if plan.kv.tokens is None or plan.kv.max_concurrency is None:
        return "fits"
    held = f"{plan.kv.tokens:,} tokens, {quantity(plan.kv.max_concurrency, 2)} requests of {plan.kv.max_model_len:,}"
    # a pool of a given size can be told on no card, but not that the weights fit beside it
    word = verdict_word(plan)
    return f"{word}: {held}" if case.gpu is not None else f"{word} on a card with room for it: {held}{_named(case)}"


def _named(case: Case) -> str:
    return f" ({case.named_card} is none that kvplan plans)" if case.named_card is not None else ""


def hardware(case: Case) -> str:
    """Return the card and how many: `2 x H100 SXM 80 GB`, and how many are there where those are fewer."""
    count = case.plan.gpu_count if case.plan is not None else (case.gpus or 0) * (case.deployment.topology.nodes or 1)
    label = case.gpu.label if case.gpu is not None else ("GPU" if count else "")
    told = f"{count} x {label}" if count and label else label
    there = too_few(case) if case.plan is not None else None
    return told if there is None else f"{told}, but the deployment asks for {counted(there, 'GPU')}"


def _deployment(case: Case, *, verbose: bool) -> Iterator[str]:
    found = case.deployment
    parts = [found.model or "no model", engine(case), hardware(case)]
    yield f"{found.file}:{found.place.line}: {found.where}"
    yield f"  {', '.join(part for part in parts if part)}"
    yield f"  {verdict(case)}"
    names = [name for name in found.unresolved if name != "model"] or list(found.unresolved)
    if names:
        yield f"  not resolved: {', '.join(names)}"
    if verbose and case.plan is not None:
        for line in case.plan.budget.lines:
            yield f"    {line.name:<14} {gib(line.bytes, 2):>12}   {line.why}"
        yield from (f"    {line}" for line in explain(case.plan))


def engine(case: Case) -> str:
    """Return the engine and the release it is planned as: `vLLM 0.33.0`, `vLLM (as of 0.33, 0.99.0 is not known)`."""
    names = {"vllm": "vLLM", "sglang": "SGLang", "tensorrt-llm": "TensorRT-LLM", "nim": "NIM"}
    name = names.get(case.deployment.engine, case.deployment.engine)
    release = case.plan.engine_version if case.plan is not None else (case.release or "")
    if case.unknown_release not in (None, release):
        line = release.removesuffix(".0") if release.count(".") > 1 else release
        return f"{name} (as of {line}, {case.unknown_release} is not known)"
    return f"{name} {release}".rstrip()


def _finding(finding: Finding) -> Iterator[str]:
    place = f"{finding.file}:{finding.place.line}:{finding.place.column}"
    sure = "" if finding.confidence == "high" else f" ({finding.confidence} confidence)"
    yield f"{place}: {finding.severity.word}: {finding.message} [{finding.rule} {finding.name}]{sure}"
    if finding.fix:
        yield f"  fix: {finding.fix}"
