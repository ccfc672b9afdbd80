"""The headers of a repository's files, by ranges of the Hub's answers: never more of a file than its header.

A server that does not know ranges sends the whole file; the connection is closed when the header is in.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import Any

from kvplan.sources.document import LIMIT, check_size
from kvplan.sources.headers import Headers, gather
from kvplan.sources.patience import Patience, quiet
from kvplan.sources.stored import INDEX, SINGLE, missing, parse_index, read_header

_AT_ONCE = 8
_UNTOLD = 2**62  # a size that holds any offset: some servers tell none
_SECONDS = 60.0  # 191 shards at 8 a time; a repository whose headers take longer is given up


def stored_on_hub(repo: str, revision: str | None, *, seconds: float = _SECONDS) -> Headers | None:
    """Return the tensors of a repository, None where it has no safetensors; wait no longer than `seconds`.

    Raises UnreadableInput for headers that lie and HubUnreachable where the Hub does not answer.
    """
    from kvplan.sources.refusals import explain  # noqa: PLC0415  # the library behind it costs 0.2 s

    patience = Patience(seconds)
    try:
        return patience.bound(lambda: _stored(repo, revision, patience))
    except Exception as error:  # noqa: BLE001  # whatever the library met is put into our words
        raise explain(error, repo, revision) from None


def _stored(repo: str, revision: str | None, patience: Patience) -> Headers | None:
    from huggingface_hub import constants  # noqa: PLC0415
    from huggingface_hub.errors import OfflineModeIsEnabled, RemoteEntryNotFoundError  # noqa: PLC0415

    if constants.is_offline_mode():
        raise OfflineModeIsEnabled
    with quiet():
        try:
            index, _ = _read(repo, revision, patience, INDEX, 0, LIMIT + 1)
        except RemoteEntryNotFoundError:
            files = [SINGLE]
        else:
            check_size(len(index), f"{INDEX} of {repo}")
            files = sorted(parse_index(index, f"{INDEX} of {repo}"))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            try:
                return gather(list(pool.map(partial(_header, repo, revision, patience), files)), repo)
            except RemoteEntryNotFoundError:
                return None  # no index and no single file
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


def _header(repo: str, revision: str | None, patience: Patience, file: str) -> dict[str, Any]:
    from huggingface_hub.errors import RemoteEntryNotFoundError  # noqa: PLC0415

    try:
        return read_header(partial(_read, repo, revision, patience, file), f"{file} of {repo}")
    except RemoteEntryNotFoundError:
        if file == SINGLE:
            raise
        raise missing([file], repo) from None


def _read(repo: str, revision: str | None, patience: Patience, file: str, start: int, count: int) -> tuple[bytes, int]:
    """Return so many bytes of a file from `start` on, and the file's size."""
    from huggingface_hub import constants, get_session, hf_hub_url, hf_raise_for_status  # noqa: PLC0415
    from huggingface_hub.utils._headers import build_hf_headers  # noqa: PLC0415

    from kvplan.sources.refusals import transient  # noqa: PLC0415

    url = hf_hub_url(repo, file, revision=revision)
    wanted = {"Range": f"bytes={start}-{start + count - 1}", "Accept-Encoding": "identity"}
    headers = build_hf_headers(library_name="kvplan") | wanted

    def once() -> tuple[bytes, int]:
        timeout = constants.HF_HUB_DOWNLOAD_TIMEOUT
        with get_session().stream("GET", url, headers=headers, timeout=timeout, follow_redirects=True) as answer:
            hf_raise_for_status(answer)
            skip = start if answer.status_code != 206 else 0
            data = bytearray()
            for chunk in answer.iter_raw():
                data += chunk
                if len(data) >= skip + count:
                    break
                if monotonic() > patience.start + patience.seconds:  # the visit is over, and nobody waits any more
                    raise TimeoutError
            return bytes(data[skip : skip + count]), _size(answer)

    return patience.attempt(once, transient)


def _size(answer: Any) -> int:
    """Return the size of the whole file: what follows the slash of a range, or the length of a whole answer."""
    whole = answer.headers.get("Content-Range", "").rpartition("/")[2] or answer.headers.get("Content-Length", "")
    return int(whole) if whole.isascii() and whole.isdigit() and len(whole) < 20 else _UNTOLD
