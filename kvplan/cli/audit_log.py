"""What `kvplan audit LOG` runs: a start-up log beside its plan, and the local observations."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvplan.errors import NO, OK, USAGE, KvplanError, UnreadableInput

if TYPE_CHECKING:
    from kvplan.observations import Observation


def audit_log(source: str, *, as_json: bool, save: bool, flags: dict[str, Any]) -> int:
    """Write the audit of a log; 1 where pool, tokens or requests are not as predicted, 2 where none is printed."""
    from kvplan.audit.compare import audit
    from kvplan.audit.engines import read_start
    from kvplan.cli.output import write_json, write_lines
    from kvplan.render.audit import audit_object, audit_text

    found = audit(read_start(_text(source)), **flags)
    if as_json:
        write_json(audit_object(found))
    else:
        write_lines(audit_text(found))
    if save:
        from kvplan.audit.observe import observe
        from kvplan.observations import save_observation

        kept = save_observation(observe(found))
        sys.stderr.write(f"saved: {kept.id}, used by later plans of {kept.model} on {kept.gpu}\n")
    return USAGE if found.agrees is None else OK if found.agrees else NO


def _text(source: str) -> str:
    """Return the text of a file or of stdin (`-`), bounded; raises UnreadableInput."""
    from kvplan.audit.lines import MAX_BYTES

    if source == "-":
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    else:
        path = Path(source)
        try:
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise UnreadableInput(f"cannot read {source[:200]}: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise UnreadableInput(f"the log is larger than {MAX_BYTES // 2**20} MiB", "the start-up is in its first part")
    return data.decode("utf-8", errors="replace")


def list_observations(*, as_json: bool) -> int:
    """Write the local observations, oldest first."""
    from kvplan.cli.output import write_json, write_lines
    from kvplan.observations import observations, observations_object
    from kvplan.render.table import table

    found = observations()
    if as_json:
        write_json(observations_object(found))
        return OK
    rows = [
        (one.id, one.saved, one.model, one.gpu, f"{one.engine} {one.release}", f"tp {one.tp}", _left_out(one))
        for one in found
    ]
    write_lines(table(("id", "saved", "model", "card", "engine", "", ""), rows) if rows else ["no local observations"])
    return OK


def _left_out(one: Observation) -> str:
    """Say why no plan uses an observation."""
    from kvplan.hardware import parse_gpu

    try:
        fault = one.fault(parse_gpu(one.gpu)[0].memory_high)
    except KvplanError:
        fault = "no such card"
    return f"left out: {fault}" if fault else ""


def forget_observation(name: str) -> int:
    """Delete one observation by its id, or all."""
    from kvplan.observations import forget

    count = forget(name)
    sys.stderr.write(f"forgotten: {count}\n")
    return OK
