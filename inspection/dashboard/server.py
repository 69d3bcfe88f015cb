"""A thread that serves the dashboard."""

import asyncio
import logging
import secrets
import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

import uvicorn

from inspection.dashboard.pages import PAGE, Pages
from inspection.dashboard.source import Source
from inspection.errors import DashboardError

_log = logging.getLogger(__name__)

_TOKEN_BYTES: Final = 24
_BACKLOG: Final = 128
_GRACE_S: Final = 3  # for answers that are under way when it ends
_ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - for the printed address
_TOKEN_ALPHABET: Final = frozenset(map(chr, range(0x21, 0x7F)))
SHORTEST_TOKEN: Final = 16


@dataclass(frozen=True, slots=True)
class ServedAt:
    host: str = "127.0.0.1"  # the name or address to listen at
    port: int = 0  # 0 takes a free one
    token: str | None = field(default=None, repr=False)  # which readers need; None draws one
    names: Iterable[str] = ()  # of the machine, beside the host, `localhost` and addresses
    certificate: str | None = None  # PEM file with the certificate of the host and its chain; no TLS without it
    key: str | None = None  # PEM file with its key; None if that is in the file of the certificate


class DashboardServer:
    """Serves the dashboard from `start` to `close`, or inside a `with`; closes the source, too.

    It listens from the beginning: browsers that connect before `start` wait.
    """

    def __init__(self, source: Source, at: ServedAt, chosen: str | None = None) -> None:
        self._source = source
        self._at = at
        self._token = _checked(at.token) or secrets.token_urlsafe(_TOKEN_BYTES)
        pages = Pages(source, chosen)
        config = uvicorn.Config(
            pages.guarded(self._token, [at.host, *at.names]),
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
            ssl_certfile=at.certificate,
            ssl_keyfile=at.key,
        )
        try:
            config.load()
        except OSError as error:
            raise DashboardError(
                f"the TLS certificate {at.certificate} of the dashboard, with key {at.key or 'in it'}, cannot be used: "
                f"{error}. Give files in PEM, the key without a passphrase"
            ) from error
        self._socket = listening_at(at.host, at.port)
        self._server = _Server(config, pages)
        # Not joined: a signal that interrupts a join makes Python 3.11 take the thread for ended.
        self._ended = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._serve, name="dashboard").start()

    def close(self) -> None:
        """To be called once, after `start`."""
        self._server.should_exit = True
        self._ended.wait()
        self._socket.close()
        self._source.close()

    def wait(self) -> None:
        self._ended.wait()
        raise DashboardError("the dashboard has stopped; its log has the error. Start it again")

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    @property
    def address(self) -> str:
        host = _ANYWHERE.get(self._at.host, self._at.host)
        shown = f"[{host}]" if ":" in host else host
        scheme = "http" if self._at.certificate is None else "https"
        return f"{scheme}://{shown}:{self.port}{PAGE}?token={self._token}"

    @property
    def listens_everywhere(self) -> bool:
        """Whether it listens at all addresses of this machine, of which `address` has only the local one."""
        return self._at.host in _ANYWHERE

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self) -> None:
        try:
            asyncio.run(self._server.serve([self._socket]))
        except Exception:  # noqa: BLE001 - `wait` raises
            _log.exception("the dashboard has stopped; the rest of the process continues")
        finally:
            self._ended.set()


class _Server(uvicorn.Server):
    """Also ends the streams, which would go on for as long as browsers are open."""

    def __init__(self, config: uvicorn.Config, pages: Pages) -> None:
        super().__init__(config)
        self._pages = pages

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._pages.close()
        await super().shutdown(sockets)


def _checked(token: str | None) -> str | None:
    if not token:
        return None
    if len(token) < SHORTEST_TOKEN or not set(token) <= _TOKEN_ALPHABET - set("&#+%"):
        raise DashboardError(
            f"the token of the dashboard cannot be used: it must have {SHORTEST_TOKEN} characters or more, no blanks "
            "and none of & # + %; leave it out to have one made"
        )
    return token


def listening_at(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        is_dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(address, family=family, backlog=_BACKLOG, dualstack_ipv6=is_dual)
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while")[0]
        raise DashboardError(
            f"the dashboard cannot be served at {host}, port {port}: {why}. Set another port with --set "
            "dashboard.port=0 (0 takes a free one), acker dashboard --port, ACKER_DASHBOARD__PORT, or port under "
            "[dashboard] in acker.toml, and the address with dashboard.host"
        ) from error
