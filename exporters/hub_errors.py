"""From what the Hub's client raises to a message that says what to do. No message holds a token."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager

from exporters.errors import MISSING, ExportError

AGAIN = "Then run the same command again; what was uploaded is not sent twice."


@contextmanager
def hub_errors(doing: str, repo_id: str) -> Iterator[None]:
    """Turn the client's errors inside into an ExportError that says what `doing` (e.g. "create the repository") needs."""
    from huggingface_hub import errors

    token = _token()
    try:
        yield
    except errors.OfflineModeIsEnabled as error:
        raise _error(f"cannot {doing} '{repo_id}': the Hub's client is switched off here (HF_HUB_OFFLINE).",
                     "Unset HF_HUB_OFFLINE and run the same command again.") from error
    except errors.LocalTokenNotFoundError as error:
        raise not_logged_in() from error
    except errors.HfHubHTTPError as error:
        raise _http(doing, repo_id, error, token) from error
    except RuntimeError as error:  # how the client wraps what went wrong while a large file was sent
        cause = error.__cause__
        if isinstance(cause, errors.HfHubHTTPError):
            raise _http(doing, repo_id, cause, token) from error
        if not isinstance(cause, _transport_errors()):
            raise
        raise _silent(doing, repo_id, cause, token) from error
    except _transport_errors() as error:
        raise _silent(doing, repo_id, error, token) from error


def _silent(doing: str, repo_id: str, error: BaseException, token: str | None) -> ExportError:
    said = _plain(str(error), token) or type(error).__name__
    again = "Then run the same command again." if doing.startswith(("look", "list", "read")) else AGAIN
    return _error(f"cannot {doing} '{repo_id}': the Hub does not answer ({said}).", f"Check the network and HF_ENDPOINT. {again}")


def not_logged_in() -> ExportError:
    """No token anywhere."""
    return _error("publishing needs a login, and there is none.",
                  "Set HF_TOKEN to a token with write access, or log in: hf auth login.")


def _token() -> str | None:
    from huggingface_hub import get_token

    return get_token()


def _http(doing: str, repo_id: str, error: Exception, token: str | None) -> ExportError:
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    said = _plain(str(getattr(error, "server_message", None) or "") or str(error).splitlines()[0], token)
    organization = repo_id.partition("/")[0]
    if status == 401:
        return _error(f"cannot {doing} '{repo_id}': the Hub does not accept this login.",
                      "HF_TOKEN is used before the stored login. Set a valid token with write access, or log in again: hf auth login.")
    if status == 403 and doing.startswith("create the repository"):
        return _error(f"cannot {doing} '{repo_id}': the Hub answers 403. Accounts and organizations need approval before they may create "
                      "kernel repositories.",
                      f"Ask for it in the account's settings of '{organization}' (Request Kernels Creation), or in a discussion with "
                      f"kernels-community; check as well that the token may write to '{organization}'. {AGAIN}")
    if status == 403:
        return _error(f"cannot {doing} '{repo_id}': this login may not write there ({said}).",
                      f"Use a token with write access to '{organization}'. {AGAIN}")
    if status == 404:
        return _error(f"cannot {doing} '{repo_id}': there is no such kernel repository for this login.",
                      "Check the name; a repository of the older model type must be created anew as a kernel.")
    if status in (409, 412):
        return _error(f"cannot {doing} '{repo_id}': it changed on the Hub meanwhile ({said}).", "Run the same command again.")
    if status == 429 or (status or 0) >= 500:
        return _error(f"cannot {doing} '{repo_id}': the Hub answers {status} ({said}).", f"Wait a little. {AGAIN}")
    return _error(f"cannot {doing} '{repo_id}': the Hub answers {status or 'nothing'} ({said}).", AGAIN)


def _plain(text: str, token: str | None) -> str:
    line = " ".join(text.split())[:300]
    return line.replace(token, "(token)") if token else line


def _error(message: str, hint: str) -> ExportError:
    return ExportError(message, hint=hint, exit_code=MISSING)


def _transport_errors() -> tuple[type[BaseException], ...]:
    """The errors of whichever HTTP library this version of the client is built on; it does not wrap them."""
    found: list[type[BaseException]] = [ConnectionError, TimeoutError]
    for module, name in (("httpx2", "TransportError"), ("httpx", "TransportError"), ("requests", "RequestException")):
        try:
            found.append(getattr(importlib.import_module(module), name))
        except (ImportError, AttributeError):
            continue
    return tuple(found)
