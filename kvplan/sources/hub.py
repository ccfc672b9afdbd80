"""A checkpoint on the Hub, by its own library: the cache, the token and every HF_ variable are the library's business.

Per file one HEAD (commit, size, every refusal) with our own patience, then the library's download into its cache. The
library's own patience is not used for the HEAD: it sleeps as long as a Retry-After says, and tries for six minutes
where nothing answers. What a commit holds does not change: a file of a known commit that is cached costs no request.
Nothing that a repository brings is executed: config.json's `auto_map` is never followed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kvplan.errors import UnknownModel, UnreadableInput, UsageError
from kvplan.sources.checkpoint import Checkpoint
from kvplan.sources.document import check_size, lacks_config, read_object, shown, tokenizer_limit
from kvplan.sources.guard import guarded
from kvplan.sources.patience import Patience, quiet

_COMMIT = re.compile(r"[0-9a-f]{40}")
_REVISION = re.compile(r"(?!.*\.\.)[\w.+/-]{1,250}", re.ASCII)
_Object = dict[str, Any]


def load_hub(repo: str, *, revision: str | None = None) -> Checkpoint:
    """Read config.json, hf_quant_config.json and tokenizer_config.json of a repository at a branch, tag or commit.

    Offline (HF_HUB_OFFLINE), and where the Hub cannot be reached, what lies in the library's cache answers.
    Raises UnknownModel, UnreadableInput or HubUnreachable; refusals.py lists the kinds.
    """
    if revision is not None and _REVISION.fullmatch(revision) is None:
        raise UnknownModel(f"{shown(revision)} is not a revision", "give a branch, a tag or a full commit sha")
    try:
        from huggingface_hub import constants  # noqa: PLC0415  # 0.2 s that only a Hub id should pay

        from kvplan.sources.refusals import explain  # noqa: PLC0415
    except ValueError as error:  # it reads its time-outs and the endpoint's port as integers when it is imported
        hint = "HF_HUB_ETAG_TIMEOUT and HF_HUB_DOWNLOAD_TIMEOUT are whole seconds, HF_ENDPOINT is an address"
        raise UsageError("an HF_ variable of the environment cannot be read", hint) from error

    # Two full time-outs of either kind, 40 s by default: no chain of slow answers holds a caller longer.
    patience = Patience(max(20.0, 2.0 * (constants.HF_HUB_ETAG_TIMEOUT + constants.HF_HUB_DOWNLOAD_TIMEOUT)))
    try:
        return patience.bound(lambda: _guarded(repo, revision, patience))
    except Exception as error:  # noqa: BLE001  # whatever the library met is put into our words
        # Without a cause: its words may hold a token, and a debug traceback would print them.
        raise explain(error, repo, revision) from None


def _guarded(repo: str, revision: str | None, patience: Patience) -> Checkpoint:
    with guarded():
        return _load(repo, revision, patience)


def _load(repo: str, revision: str | None, patience: Patience) -> Checkpoint:
    from huggingface_hub import constants  # noqa: PLC0415
    from huggingface_hub.errors import OfflineModeIsEnabled  # noqa: PLC0415

    from kvplan.sources.refusals import transient  # noqa: PLC0415

    if constants.is_offline_mode():
        if (found := _from_cache(repo, revision)) is None:
            raise OfflineModeIsEnabled
        return found
    with quiet():
        try:
            config, commit = _object(repo, "config.json", revision, patience)
        except Exception as error:
            found = _from_cache(repo, revision) if transient(error) else None
            if found is None:
                raise
            return found
        if config is None:
            raise lacks_config(repo, _names(repo, revision))
        quant, _ = _object(repo, "hf_quant_config.json", commit, patience)
        tokenizer, _ = _object(repo, "tokenizer_config.json", commit, patience)
    return _checkpoint(repo, commit, config, quant, tokenizer)


def _checkpoint(
    repo: str, commit: str | None, config: _Object, quant: _Object | None, tokenizer: _Object | None
) -> Checkpoint:
    limit = tokenizer_limit(tokenizer) if tokenizer is not None else None
    return Checkpoint(repo, "hub", config, quant_config=quant, tokenizer_max_length=limit, revision=commit)


def _object(repo: str, filename: str, revision: str | None, patience: Patience) -> tuple[_Object | None, str | None]:
    """Return the object in a file, and its commit; a file that the repository does not hold is None."""
    path = _download(repo, filename, revision, patience)
    if path is None:
        return None, None
    name = f"{filename} of {repo}"
    try:
        return read_object(path, name), path.parent.name
    except UnreadableInput:
        # What lies in the cache may be what a proxy once answered: ask again before the repository is blamed for it.
        path = _download(repo, filename, revision, patience, force=True) or path
        return read_object(path, name), path.parent.name


def _download(
    repo: str, filename: str, revision: str | None, patience: Patience, *, force: bool = False
) -> Path | None:
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_download, hf_hub_url  # noqa: PLC0415
    from huggingface_hub.errors import FileMetadataError, RemoteEntryNotFoundError  # noqa: PLC0415

    from kvplan.sources.refusals import cut_off, left_to_us, transient  # noqa: PLC0415

    cached = _cached(repo, filename, revision) if revision and _COMMIT.fullmatch(revision) else None
    if cached is not None and not force:
        return cached
    url, timeout = hf_hub_url(repo, filename, revision=revision), constants.HF_HUB_ETAG_TIMEOUT
    try:
        found = patience.attempt(lambda: get_hf_file_metadata(url, timeout=timeout, library_name="kvplan"), transient)
    except RemoteEntryNotFoundError:
        return None
    if found.commit_hash is None or found.etag is None:
        raise FileMetadataError
    check_size(found.size or 0, f"{filename} of {repo}")
    try:
        path = patience.attempt(
            lambda: hf_hub_download(repo, filename, revision=revision, force_download=force, library_name="kvplan"),
            left_to_us,
        )
    except Exception as error:
        if cut_off(error):
            hint = "try again; a proxy in between may cut answers off"
            raise UnreadableInput(f"{filename} of {repo} stops short: the Hub's answer was cut off", hint) from None
        raise
    return Path(path)


def _cached(repo: str, filename: str, revision: str | None) -> Path | None:
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415

    found = try_to_load_from_cache(repo, filename, revision=revision)
    return Path(found) if isinstance(found, str) else None


def _from_cache(repo: str, revision: str | None) -> Checkpoint | None:
    """Read what an earlier visit left; a file beside config.json that is not there is taken as absent."""
    path = _cached(repo, "config.json", revision)
    if path is None:
        return None
    commit = path.parent.name
    config = read_object(path, f"config.json of {repo}")
    beside: list[_Object | None] = []
    for filename in ("hf_quant_config.json", "tokenizer_config.json"):
        found = _cached(repo, filename, commit)
        beside.append(read_object(found, f"{filename} of {repo}") if found is not None else None)
    return _checkpoint(repo, commit, config, *beside)


def _names(repo: str, revision: str | None) -> list[str]:
    """List the files of a repository, for a message; a Hub that does not list them (a mirror) leaves it empty."""
    from huggingface_hub import constants, model_info  # noqa: PLC0415

    try:
        info = model_info(repo, revision=revision, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except Exception:  # noqa: BLE001  # the answer is already "no config.json"
        return []
    return [sibling.rfilename for sibling in info.siblings or []]
