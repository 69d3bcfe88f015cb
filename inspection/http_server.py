"""An HTTP server in a thread: of the dashboard, the gateway, and metrics."""

import asyncio
import hmac
import secrets
import socket
import threading
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Self

import uvicorn
from starlette.types import ASGIApp

from inspection.errors import ServingError
from kafka_clients.repeated_lines import get_logger

logger = get_logger(__name__)

SHORTEST_TOKEN: Final = 16
_TOKEN_BYTES: Final = 24
_TOKEN_ALPHABET: Final = frozenset(map(chr, range(0x21, 0x7F)))
_BACKLOG: Final = 128
_ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - for the printed address


@dataclass(frozen=True, slots=True)
class ServedAt:
    host: str = "127.0.0.1"  # the name or address to listen at
    port: int = 0  # 0 takes a free one
    token: str | None = field(default=None, repr=False)  # which readers need; None draws one
    names: Iterable[str] = ()  # of the machine, beside the host, `localhost` and addresses
    certificate: str | None = None  # PEM file with the certificate of the host and its chain; no TLS without it
    key: str | None = None  # PEM file with its key; None if that is in the file of the certificate


class HttpServer:
    """Serves an application from `start` to `close`, or inside a `with`.

    It listens from the beginning: clients that connect before `start` wait.

    Args:
        app: the application.
        at: where; its token is not used here.
        name: of what is served, such as `gateway`, for errors; the settings have a section of that name.
        grace_seconds: how long answers that are under way may take when it ends.
        more: further settings of uvicorn.

    Raises:
        ServingError: if the address or the certificate cannot be used.
    """

    def __init__(self, app: ASGIApp, at: ServedAt, name: str, grace_seconds: int, **more: Any) -> None:
        self._at, self._name = at, name
        config = uvicorn.Config(
            app,
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
            timeout_graceful_shutdown=grace_seconds,
            ssl_certfile=at.certificate,
            ssl_keyfile=at.key,
            **more,
        )
        try:
            config.load()
        except OSError as error:
            raise ServingError(
                f"the TLS certificate {at.certificate} of the {name}, with key {at.key or 'in it'}, cannot be used: "
                f"{error}. Give files in PEM, the key without a passphrase"
            ) from error
        self._socket = listening_at(at.host, at.port, name)
        self._server = uvicorn.Server(config)
        # Not joined: a signal that interrupts a join makes Python 3.11 take the thread for ended.
        self._ended = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name=self._name).start()

    def close(self) -> None:
        """Stops the server, and waits for its end; call it once, after `start`."""
        self._stop()
        self._ended.wait()
        self._socket.close()

    def wait(self) -> None:
        """Waits for an end that was not asked for, and raises `ServingError`."""
        self._ended.wait()
        raise ServingError(f"the {self._name} has stopped; its log has the error. Start it again")

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    @property
    def is_stopping(self) -> bool:
        """Whether `close` was called."""
        return self._server.should_exit

    @property
    def origin(self) -> str:
        """Scheme, host and port, as in `http://127.0.0.1:8420`."""
        host = _ANYWHERE.get(self._at.host, self._at.host)
        shown = f"[{host}]" if ":" in host else host
        return f"{'http' if self._at.certificate is None else 'https'}://{shown}:{self.port}"

    @property
    def listens_everywhere(self) -> bool:
        """Whether it listens at all addresses of this machine, where `origin` has only the local one."""
        return self._at.host in _ANYWHERE

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stop(self) -> None:
        """Asks `_serve` to end; from any thread."""
        self._server.should_exit = True

    def _serve(self) -> Coroutine[Any, Any, None]:
        return self._server.serve([self._socket])

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            logger.exception("the %s has stopped; the rest of the process continues", self._name)
        finally:
            self._ended.set()


def new_token() -> str:
    return secrets.token_urlsafe(_TOKEN_BYTES)


def checked_token(token: str | None, name: str) -> str | None:
    """A token that was set, None if none was; raises `ServingError` if it is invalid."""
    if not token:
        return None
    if len(token) < SHORTEST_TOKEN or not set(token) <= _TOKEN_ALPHABET - set("&#+%"):
        raise ServingError(
            f"the token of the {name} cannot be used: it must have {SHORTEST_TOKEN} characters or more, no blanks "
            "and none of & # + %; leave it out to have one made"
        )
    return token


def equal(given: str | None, secret: str) -> bool:
    """Whether a text is a secret, in constant time."""
    return given is not None and hmac.compare_digest(given.encode(), secret.encode())


def bearer_of(authorization: str) -> str | None:
    """The token of an `Authorization` header; None if it has another scheme."""
    scheme, _, bearer = authorization.partition(" ")
    return bearer.strip() if scheme.lower() == "bearer" else None


def listening_at(host: str, port: int, name: str) -> socket.socket:
    """A socket that listens; raises `ServingError` if the address cannot be used."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        is_dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(address, family=family, backlog=_BACKLOG, dualstack_ipv6=is_dual)
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while")[0]
        option = "--metrics-port" if name == "metrics" else f"acker {name} --port"
        raise ServingError(
            f"the {name} cannot be served at {host}, port {port}: {why}. Each command needs a port of its own: set it "
            f"with {option}, --set {name}.port=0 (0 takes a free one), ACKER_{name.upper()}__PORT, or port under "
            f"[{name}] in acker.toml, and the address with {name}.host"
        ) from error
