"""The server of the dashboard, and its access control."""

import hashlib
import hmac
import ipaddress
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inspection.dashboard.pages import PAGE, TRACE_PAGES, Pages
from inspection.dashboard.source import Source
from inspection.http_server import HttpServer, ServedAt, bearer_of, checked_token, equal, new_token

_GRACE_SECONDS: Final = 3  # for answers that are under way when it ends
_METHODS: Final = ("GET", "HEAD")
_REFUSED_PAGE: Final = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>acker dashboard</title>'
    '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark"></head>\n'
    "<body><h1>acker</h1><p>{message}</p></body></html>\n"
)
_SECURITY: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    # The address may hold the token.
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}


class DashboardServer(HttpServer):
    """Serves the dashboard from `start` to `close`, or inside a `with`; closes the source, too."""

    def __init__(self, source: Source, at: ServedAt, chosen: str | None = None) -> None:
        self._source = source
        self._token = checked_token(at.token, "dashboard") or new_token()
        pages = Pages(source, chosen, lambda: self.is_stopping)
        super().__init__(Guard(pages.app(), self._token, [at.host, *at.names]), at, "dashboard", _GRACE_SECONDS)

    def close(self) -> None:
        super().close()
        self._source.close()

    @property
    def address(self) -> str:
        return f"{self.origin}{PAGE}?token={self._token}"


class Guard:
    """Access control, and the security headers of every answer; `names` as in `ServedAt`.

    Nothing can be changed through the dashboard, so reading is guarded:

    - **Method.** GET and HEAD.
    - **Name.** A page of another site can have its own name resolve to this machine and then read our answers as if
      they were its own (DNS rebinding). The browser sends that name in `Host`, so unknown names are refused. Addresses
      cannot be rebound.
    - **Token.** As `Authorization: Bearer …`, or once in the address of the page (`/?token=…`), and from then on as a
      cookie, which scripts cannot read and which the browser sends to this site only. Browsers of this machine need it
      too, for it may have several users.
    """

    def __init__(self, app: ASGIApp, token: str, names: Iterable[str]) -> None:
        self._app = app
        self._token = token
        # Not the token itself, which may have characters that cookies cannot, and is valid elsewhere.
        self._cookie = hmac.new(token.encode(), b"acker dashboard cookie", hashlib.sha256).hexdigest()
        self._names = {"localhost", *(name.strip().lower().rstrip(".") for name in names if name.strip())}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        opens = scope["path"] == PAGE and equal(request.query_params.get("token"), self._token)
        refused = self._refused(request, opens=opens)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_SECURITY)
                if opens and refused is None:
                    # Not a redirect: a browser that came from elsewhere would not send a strict cookie on it.
                    cookie = f"{_cookie_name(request)}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"
                    headers.append("set-cookie", f"{cookie}; Secure" if scope.get("scheme") == "https" else cookie)
            await send(message)

        await (refused or self._app)(scope, receive, send_guarded)

    def _refused(self, request: Request, *, opens: bool) -> Response | None:
        host = request.headers.get("host", "")
        if not self._is_ours(host):
            message = f"{host!r} is not a name of the dashboard: use an address, or list the name in dashboard.names"
            return JSONResponse({"error": message}, 421)
        if request.method not in _METHODS:
            message = f"{request.method} is refused: the dashboard is read-only"
            return JSONResponse({"error": message}, 405, {"allow": ", ".join(_METHODS)})
        if opens or self._is_known(request):
            return None
        message = "the dashboard needs its token: open the address that it printed when it was started (/?token=...)"
        challenge, path = {"www-authenticate": "Bearer"}, request.scope["path"]
        if path == PAGE or path.startswith(TRACE_PAGES):
            # A link to a tree may have come by mail; the browser has the cookie afterwards.
            again = "" if path == PAGE else ", and then this link again"
            return HTMLResponse(
                _REFUSED_PAGE.format(message=f"{message[0].upper()}{message[1:]}{again}."), 401, challenge
            )
        return JSONResponse({"error": message}, 401, challenge)

    def _is_ours(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
            return name in self._names or ipaddress.ip_address(name) is not None
        except ValueError:
            return False

    def _is_known(self, request: Request) -> bool:
        if equal(bearer_of(request.headers.get("authorization", "")), self._token):
            return True
        # Not by http.cookies, which reads none if another server on this machine has set an invalid one.
        return equal(request.cookies.get(_cookie_name(request)), self._cookie)


def _cookie_name(request: Request) -> str:
    """Contains the port, because browsers share cookies between the ports of a host."""
    return f"acker-dashboard-{request.scope['server'][1]}"
