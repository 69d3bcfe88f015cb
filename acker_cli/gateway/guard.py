"""Access control of the gateway: a token, or requests of programs on this machine."""

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from inspection.http_server import bearer_of, equal

HEALTH: Final = "/health"
_LOCAL_NAME: Final = "localhost"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    try:
        return host == _LOCAL_NAME or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Lets requests with the token pass; without a token, those of programs on this machine.

    A page in a browser of this machine can send requests to any address. They have an `Origin` header, or the name of
    the page in `Host` if that resolves to this machine (DNS rebinding), and are rejected.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        await (self._refused(Request(scope)) or self._app)(scope, receive, send)

    def _refused(self, request: Request) -> Response | None:
        if request.url.path == HEALTH:
            return None
        if self._token is not None:
            if equal(bearer_of(request.headers.get("authorization", "")), self._token):
                return None
            message = "the gateway needs its token: send it as Authorization: Bearer TOKEN"
            return JSONResponse({"error": message}, 401, {"www-authenticate": "Bearer"})
        if "origin" not in request.headers and is_loopback(_host(request)):
            return None
        message = "without a token the gateway takes requests of programs on this machine only: set gateway.token"
        return JSONResponse({"error": message}, 403)


def _host(request: Request) -> str:
    try:
        return (urlsplit(f"//{request.headers.get('host', '')}").hostname or "").rstrip(".")
    except ValueError:
        return ""
