"""The requests of the gateway: each sends a message, and is answered when its tree has ended."""

import asyncio
import json
import math
from dataclasses import asdict, dataclass
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from acker_cli.gateway.guard import HEALTH
from spout_sdk.client import Client
from spout_sdk.errors import (
    ClientClosedError,
    DeadLetterError,
    NotDeliveredError,
    OutcomePendingError,
    TooManyCallsError,
)

_BODY_SECONDS: Final = 30.0
_AGAIN: Final = {"retry-after": "1"}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a request.

    Attributes:
        max_body_bytes: of a body.
        timeout_s: how long a request waits unless it says, in seconds.
        max_timeout_s: the longest that it may say.
    """

    max_body_bytes: int = 1_000_000
    timeout_s: float = 30.0
    max_timeout_s: float = 600.0


_PARAMETERS: Final = frozenset({"key", "timeout"})


class Requests:
    """Sends the message of each request with a client that is open."""

    def __init__(self, client: Client, limits: Limits) -> None:
        self._client, self._limits = client, limits

    def app(self) -> Starlette:
        """The application, without access control."""
        routes = [Route("/process", self._process, methods=["POST"]), Route(HEALTH, self._health)]
        return Starlette(routes=routes, exception_handlers={HTTPException: _refused})

    async def _process(self, request: Request) -> Response:
        if unknown := sorted(set(request.query_params) - _PARAMETERS):
            raise HTTPException(400, f"unknown parameter {unknown[0]}: there are {' and '.join(sorted(_PARAMETERS))}")
        timeout = self._timeout(request.query_params.get("timeout"))
        key = request.query_params.get("key")
        value = await self._body(request)
        if self._client.is_full:
            return _error(429, f"{self._client.max_open} messages wait for their outcomes: try again later", _AGAIN)
        try:
            outcome = await self._client.process(value, key=key, timeout=timeout)
        except DeadLetterError as error:
            return _Json(asdict(error.outcome), 422)
        except TooManyCallsError as error:
            return _error(429, str(error), _AGAIN)
        except (OutcomePendingError, ClientClosedError) as error:
            if error.offset is None and isinstance(error, ClientClosedError):
                return _error(503, str(error), _AGAIN)
            return _pending(error)
        except NotDeliveredError as error:
            return _error(503, str(error), _AGAIN)
        return _Json(asdict(outcome))

    async def _health(self, _request: Request) -> Response:
        if (failure := self._client.failure) is not None:
            return _error(503, str(failure))
        return _Json({"open_calls": self._client.open_calls})

    def _timeout(self, text: str | None) -> float:
        limits = self._limits
        try:
            seconds = limits.timeout_s if text is None else float(text)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds <= limits.max_timeout_s:
            raise HTTPException(400, f"timeout={text} is invalid: give seconds, {limits.max_timeout_s:g} at most")
        return seconds

    async def _body(self, request: Request) -> bytes:
        limit, parts, size = self._limits.max_body_bytes, list[bytes](), 0
        too_long = HTTPException(413, f"the body is longer than gateway.max_body_bytes, {limit:,}")
        if (given := request.headers.get("content-length", "")).isdigit() and int(given) > limit:
            raise too_long
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for part in request.stream():
                    size += len(part)
                    if size > limit:
                        raise too_long
                    parts.append(part)
        except TimeoutError:
            raise HTTPException(408, f"the body did not arrive within {_BODY_SECONDS:g} s") from None
        except ClientDisconnect:
            raise HTTPException(400, "the body is incomplete") from None
        if not size:
            raise HTTPException(400, "the body is empty: it is the value of the message")
        return b"".join(parts)


class _Json(JSONResponse):
    """A response in ASCII: an answer may have half of a surrogate pair, which JSON escapes and UTF-8 cannot encode."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def _pending(error: OutcomePendingError | ClientClosedError) -> Response:
    at = {"topic": error.topic, "partition": error.partition, "offset": error.offset}
    return _Json({**at, "outcome": "pending", "error": str(error)}, 202)


def _error(status: int, text: str, headers: Any = None) -> Response:
    return _Json({"error": text}, status, headers)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    return _error(error.status_code, error.detail, error.headers)
