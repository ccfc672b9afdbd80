"""What `kvplan simulate` does with its options: replay, compare, answer, write."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from kvplan.cli.replay_options import Words, files, read_ask, read_scenarios, read_source
from kvplan.errors import NO, OK, UsageError
from kvplan.render.simulate import Report, report_object
from kvplan.simulate.answers import Candidate, Fleet, candidates, fleet
from kvplan.simulate.baselines import Chat, Reclaim, Scenario, chat, reclaim
from kvplan.simulate.clock import PS
from kvplan.simulate.deployment import Deployment, deploy
from kvplan.simulate.promise import Promise, parse_promise
from kvplan.simulate.run import RequestBatch, Result, StepBatch, simulate
from kvplan.simulate.series import StepRow
from kvplan.simulate.sinks import Kept, RequestLines, StepLines, written
from kvplan.simulate.sources import Made, Source, open_source, read_at_hand
from kvplan.simulate.step_model import swap_cost
from kvplan.simulate.tasks import Task, merged, replicas, run_tasks
from kvplan.simulate.trace.problems import Problems
from kvplan.simulate.trials import Advice, Trial, advise
from kvplan.sources.apart import check_apart
from kvplan.sources.document import shown

_INTERRUPTED = 130


@dataclass(slots=True)
class _Answers:
    """What was asked beside the replay itself; not `whole` after Ctrl-C."""

    compared: Sequence[Result] = ()
    candidates: Sequence[Candidate] = ()
    fleet: Fleet | None = None
    advice: Sequence[Advice] = ()
    whole: bool = True


def replay(words: Words) -> int:
    """Run the command; `words` are its options by name. Returns the exit code."""
    check_apart(files(words))
    promise = None if words["promise"] is None else parse_promise(words["promise"])
    if words["plot"] is not None:
        from kvplan.render.simulate_plot import check_plot

        check_plot(words["plot"])
    ask, selection = read_ask(words)
    deployment = deploy(ask)
    scenarios = read_scenarios(words["compare"] or (), ask, deployment)
    source = read_source(words, selection)
    if words["ray"] or (words["trace"] == "-" and (scenarios or promise or words["replicas"] > 1)):
        source = read_at_hand(source, Problems(words["strict"]))
    kept = Kept() if words["output"] == "json" else None
    result = _main(words, deployment, source, kept)
    answers = _Answers(whole=False)
    if result.outcome != "interrupted":
        answers = _answer(
            words, Trial(ask, deployment, result, source, _run(words), words["replicas"]), scenarios, promise
        )
    report = Report(
        trace="synthetic" if words["trace"] is None else shown(words["trace"]),
        deployment=deployment,
        result=result,
        replicas=words["replicas"],
        compared=answers.compared,
        advice=answers.advice,
        promise=promise,
        candidates=answers.candidates,
        fleet=answers.fleet,
        chat=_chat(source),
        reclaim=_reclaim(deployment, result),
    )
    _write(words, report, kept)
    if not answers.whole:
        return _INTERRUPTED
    kept_promise = answers.fleet is None or answers.fleet.count is not None
    served = result.outcome == "complete" and result.summary.finished > 0
    return OK if served and kept_promise else NO


def _run(words: Words) -> Callable[[Sequence[Task]], list[Result]]:
    return lambda tasks: run_tasks(tasks, workers=words["workers"], ray=words["ray"])


def _answer(words: Words, trial: Trial, scenarios: Sequence[Scenario], promise: Promise | None) -> _Answers:
    """Replay what is compared, what might keep the promise, and what might be better."""
    answers = _Answers()
    asked = [Task(one, trial.source) for one in scenarios]
    answers.compared = [one for one in trial.run(asked) if one.outcome != "interrupted"]
    answers.whole = len(answers.compared) == len(scenarios)
    try:
        if promise is not None and answers.whole:
            answers.candidates = candidates(trial.ask, trial.deployment, promise, trial.source, trial.run)
            answers.fleet = fleet(answers.candidates[0], promise, trial.source, trial.run)
        if words["output"] != "csv" and answers.whole:
            answers.advice = advise(trial)
    except KeyboardInterrupt:
        answers.whole = False
    if not answers.whole:
        sys.stderr.write("interrupted: not everything that was asked for is below\n")
    return answers


def _main(words: Words, deployment: Deployment, source: Source, kept: Kept | None) -> Result:
    """Replay the deployment itself, with its rows where they are asked for; several engines have none together."""
    scenario = Scenario("", deployment.settings)
    count = words["replicas"]
    if count > 1 or words["ray"]:
        if words["steps"] or words["requests"] or words["output"] == "csv":
            raise UsageError("the series are of one engine, here", "leave --replicas and --ray out")
        results = run_tasks(
            replicas(scenario, source, count, strict=words["strict"]), workers=words["workers"], ray=words["ray"]
        )
        together = merged(results, "")
        # after Ctrl-C those that ended are there, and may all be complete
        return _not_empty(together if len(results) == count else replace(together, outcome="interrupted"))
    problems = Problems(words["strict"])
    with ExitStack() as stack:
        on_steps: list[StepBatch] = []
        on_requests: list[RequestBatch] = []
        steps = stack.enter_context(written(words["steps"], "--steps"))
        requests = stack.enter_context(written(words["requests"], "--requests"))
        if steps is not None:
            on_steps.append(StepLines(steps))
        if words["output"] == "csv":
            on_steps.append(StepLines(sys.stdout))
        if kept is not None:
            on_steps.append(kept.steps)
            on_requests.append(kept.requests)
        if requests is not None:
            lines = RequestLines(requests)
            stack.callback(lines.close)
            on_requests.append(lines)
        on_steps.append(stack.enter_context(_progress()))
        requests_in = open_source(source, problems)
        # inside: a series of nothing takes no file's place
        return _not_empty(
            simulate(requests_in, deployment.settings, problems, on_steps=on_steps, on_requests=on_requests)
        )


def _not_empty(result: Result) -> Result:
    if result.outcome == "complete" and not result.summary.longest_request:
        raise UsageError("there is no request to replay", "--rows FIRST:COUNT may lie beyond the trace's end")
    return result


@contextmanager
def _progress() -> Iterator[StepBatch]:
    """Count finished requests on a terminal, on stderr; a short run shows nothing."""
    if not sys.stderr.isatty():
        yield lambda rows: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} requests, {task.fields[now]:,.0f} s on their clock"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=None, now=0.0)

        def count(rows: Sequence[StepRow]) -> None:
            progress.update(bar, advance=sum(row.finished for row in rows), now=rows[-1].t_ns / 10**9)

        yield count


def _write(words: Words, report: Report, kept: Kept | None) -> None:
    from kvplan.cli.output import write_json, write_lines
    from kvplan.render.simulate_text import report_text

    if words["plot"] is not None:
        from kvplan.render.simulate_plot import write_plot

        write_plot(report, words["plot"])
    if kept is not None:
        series = kept.object() if words["replicas"] == 1 and not words["ray"] else None
        write_json(report_object(report, series))
    elif words["output"] == "text":
        write_lines(report_text(report))


def _chat(source: Source) -> Chat | None:
    """Return the figures of a chat, where the load is one of fixed lengths."""
    if not isinstance(source, Made) or source.load.turns == 1:
        return None
    load = source.load
    draws = (load.prompt, load.question, load.output)
    if any(draw.kind != "constant" for draw in draws) or load.prefix_tokens:
        return None
    first, question, answer = (round(draw.values[0]) for draw in draws)
    return chat(first, question, answer, load.turns)


def _reclaim(deployment: Deployment, result: Result) -> Reclaim | None:
    """Return what a preempted request costs on average, computed again or moved, where a card's link is known."""
    summary = result.summary
    if not summary.preemptions or deployment.plan is None:
        return None
    cost = swap_cost(deployment.plan)
    if cost is None:
        return None
    tokens = summary.resumed_queried_tokens // summary.preemptions
    again = (summary.resumed_queried_tokens - summary.resumed_hit_tokens) // summary.preemptions
    return reclaim(tokens, again, deployment.settings.clock.token_ps / PS, cost)
