"""What goes wrong at the Hub, each kind in its own words and with the exit code of its class in errors.py.

    token      gated without a token, gated with a token that lacks access, a token that is not accepted         3
    reach      offline, time-out, no connection, no trust in the certificate, a dropped connection, 429, 5xx     3
    name       no such repository, no such revision                                                              2
    content    an answer that stops short, is not JSON, is too large, or has no config.json                      2

No message quotes the library or the server: a token may stand in their words, as an illegal header does.
httpx's classes are told by their names: which httpx the library builds on is its own affair and has changed once.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from huggingface_hub import constants, errors, get_token

from kvplan.errors import HubUnreachable, KvplanError, UnknownModel, UnreadableInput, UsageError, near
from kvplan.sources.builtin import known_names
from kvplan.sources.document import reason, shown

_TRANSIENT = {408, 429, 500, 502, 503, 504}
_DROPPED = {"NetworkError", "RemoteProtocolError"}  # NetworkError covers a connection that was never made


def transient(error: BaseException) -> bool:
    """Tell whether the same request may succeed in a moment."""
    names = _class_names(error)
    return status(error) in _TRANSIENT or bool(names & (_DROPPED | {"TimeoutException", "TimeoutError", "ProxyError"}))


def status(error: BaseException) -> int | None:
    """Return the HTTP status that an error carries, if it carries one."""
    return error.response.status_code if isinstance(error, errors.HfHubHTTPError) else None


def cut_off(error: BaseException) -> bool:
    """Tell whether a download broke within its body: a connection that ended, or the library's check of the length."""
    names = _class_names(error)
    return bool(names & {"ReadError", "RemoteProtocolError"}) or str(error).startswith("Consistency check failed")


def left_to_us(error: BaseException) -> bool:
    """Tell whether a download that the library gave up at once may succeed in a moment.

    It retries 429, time-outs, refused connections and answers that end early itself, five times; not 5xx and resets.
    """
    return (status(error) or 0) >= 500 or "ReadError" in _class_names(error)


def explain(error: Exception, repo: str, revision: str | None) -> KvplanError:
    """Put what the library raised about a repository into one of our errors."""
    if isinstance(error, errors.LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # the library wraps what it met in "not in the local cache either"
    match error:
        case KvplanError():
            return error
        case errors.RevisionNotFoundError():
            hint = "give a branch, a tag or a full commit sha of the repository"
            return UnknownModel(f"{repo} has no revision {shown(revision or 'main')}", hint)
        case errors.HfHubHTTPError():
            return _refused(error, repo)
        case errors.OfflineModeIsEnabled() | errors.LocalEntryNotFoundError():
            hint = "unset HF_HUB_OFFLINE, or give a folder with its config.json"
            return HubUnreachable(f"{repo} is not in the local cache, and the Hub is offline by HF_HUB_OFFLINE", hint)
        case errors.FileMetadataError():
            hint = "check HF_ENDPOINT, or the proxy in between"
            return HubUnreachable(f"{_hub()} answers without a commit or an ETag, as no Hub does", hint)
        case errors.HFValidationError():
            return UnknownModel(f"{repo} is not an id that the Hub accepts", "a Hub id is owner/name")
        case UnicodeError():
            return _no_token()
        case OSError() if not isinstance(error, TimeoutError):
            hint = "set HF_HOME to a folder that can be written"
            return UnreadableInput(f"the local cache of the Hub cannot be used: {reason(error)}", hint)
        case _:
            return _unreached(error, repo)


def _unreached(error: Exception, repo: str) -> KvplanError:
    """Tell httpx's errors apart, the narrower class first."""
    for name in (kind.__name__ for kind in type(error).__mro__):
        match name:
            case "TimeoutException" | "TimeoutError":
                hint = "try again, or raise HF_HUB_ETAG_TIMEOUT and HF_HUB_DOWNLOAD_TIMEOUT (seconds)"
                return HubUnreachable(f"{_hub()} did not answer for {repo} in time (time-out)", hint)
            case "LocalProtocolError":
                return _no_token()
            case "ProxyError":
                return HubUnreachable("the proxy does not let the request through", "check HTTPS_PROXY and HTTP_PROXY")
            case "ConnectError":
                return _no_connection(error)
            case "RemoteProtocolError" | "NetworkError":
                return HubUnreachable(f"{_hub()} dropped the connection", "try again later")
            case "TooManyRedirects":
                hint = "check HF_ENDPOINT, or the proxy in between"
                return HubUnreachable(f"{_hub()} redirects {repo} in a circle", hint)
            case "UnsupportedProtocol" | "InvalidURL":
                return UsageError("HF_ENDPOINT is not a web address", "write it as in https://huggingface.co")
            case _:
                continue
    message = f"{repo} could not be read from {_hub()} ({type(error).__name__})"
    return HubUnreachable(message, "check HF_ENDPOINT and the other HF_ variables")


def _no_connection(error: Exception) -> KvplanError:
    if "CERTIFICATE" in str(error).upper():
        hint = "set SSL_CERT_FILE to your company's certificates, or check HF_ENDPOINT"
        return HubUnreachable(f"the certificate of {_hub()} is not trusted", hint)
    return HubUnreachable(f"cannot connect to {_hub()}", "check the network, HTTPS_PROXY and HF_ENDPOINT")


def _no_token() -> KvplanError:
    hint = "set HF_TOKEN to the token alone, or run: hf auth login"
    return HubUnreachable("the token holds characters that cannot be sent, so it is not a token", hint)


def _gated(repo: str) -> KvplanError:
    page = f"{constants.ENDPOINT}/{repo}" if urlsplit(constants.ENDPOINT).username is None else "its page"
    if _has_token():
        hint = f"ask for access at {page} with the account of this token"
        return HubUnreachable(f"{repo} is gated, and this token has no access to it", hint)
    hint = f"accept its licence at {page}, then set HF_TOKEN or run: hf auth login"
    return HubUnreachable(f"{repo} is gated, and no token is given", hint)


def _missing(repo: str) -> KvplanError:
    similar = near(repo, known_names())
    if _has_token():
        message = f"{repo} is not on the Hub, or is private and this token may not see it"
        return UnknownModel(message, similar or "check the spelling of the id")
    hint = similar or "check the spelling of the id; for a private one set HF_TOKEN or run: hf auth login"
    return UnknownModel(
        f"{repo} is not on the Hub, or is private or gated (without a token the Hub does not tell)", hint
    )


def _refused(error: errors.HfHubHTTPError, repo: str) -> KvplanError:
    match error:
        case errors.GatedRepoError():
            return _gated(repo)
        case errors.RepositoryNotFoundError():
            return _missing(repo)
        case errors.DisabledRepoError():
            return HubUnreachable(f"{repo} is disabled on the Hub", "give another copy of it, or a folder")
    match error.response.status_code:
        case 401 if _has_token():
            hint = "set HF_TOKEN to a valid token, or unset it and run: hf auth logout"
            return HubUnreachable(f"{_hub()} does not accept this token", hint)
        case 401:
            return HubUnreachable(f"{_hub()} asks for a token", "set HF_TOKEN or run: hf auth login")
        case 403:
            hint = "give the token read access to the repository, or use another"
            return HubUnreachable(f"{_hub()} forbids access to {repo} (403)", hint)
        case 404:
            hint = near(repo, known_names()) or "check the id, and HF_ENDPOINT"
            return UnknownModel(f"{_hub()} knows no {repo}", hint)
        case 429:
            hint = "wait a few minutes; with a token (HF_TOKEN) the limit is higher"
            return HubUnreachable(f"{_hub()} limits requests (429), and still does after some waiting", hint)
        case code if code in _TRANSIENT:
            return HubUnreachable(f"{_hub()} is failing ({code}), and still does after some waiting", "try again later")
        case code:
            hint = "check HF_ENDPOINT, or the proxy in between"
            return HubUnreachable(f"{_hub()} refuses {repo} (HTTP {code})", hint)


def _has_token() -> bool:
    try:
        return get_token() is not None
    except Exception:  # noqa: BLE001  # an exchange of CI tokens that fails leaves us without one
        return False


def _hub() -> str:
    """Name the endpoint, without a user or password that may stand in it."""
    address = urlsplit(constants.ENDPOINT)
    if address.hostname in (None, "huggingface.co"):
        return "the Hub"
    port = f":{address.port}" if address.port else ""
    return f"the Hub at {address.scheme}://{address.hostname}{port}"


def _class_names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}
