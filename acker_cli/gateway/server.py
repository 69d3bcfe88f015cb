"""The thread of the gateway: the client and the HTTP server on one event loop."""

import asyncio
import threading
from contextlib import AsyncExitStack, suppress
from typing import Any, Final

from acker_cli.gateway.app import Limits, Requests
from acker_cli.gateway.guard import Guard, is_loopback
from inspection.http_server import HttpServer, ServedAt, checked_token, new_token
from spout_sdk.client import Client

_GRACE_SECONDS: Final = 3  # for responses, when the client is closed
_IDLE_CONNECTIONS: Final = 100


class GatewayServer(HttpServer):
    """Serves messages over HTTP from `start` to `close`, or inside a `with`.

    `close` refuses further connections, waits for open requests, and then closes the client: requests that are open
    after `stop_timeout_s` are answered with the positions of their messages. If the client fails, the server stops.

    Args:
        client: it is opened by `start`.
        at: where to listen; without a token none is needed at a loopback address, and one is drawn for others.
        limits: of requests.
        stop_timeout_s: for how many seconds a stop waits for open requests.
    """

    def __init__(self, client: Client, at: ServedAt, limits: Limits, stop_timeout_s: float) -> None:
        self._client, self._stop_timeout_s = client, stop_timeout_s
        self.token = checked_token(at.token, "gateway") or (None if is_loopback(at.host) else new_token())
        app = Guard(Requests(client, limits).app(), self.token)
        grace = round(stop_timeout_s) + _GRACE_SECONDS
        super().__init__(app, at, "gateway", grace, limit_concurrency=client.max_open + _IDLE_CONNECTIONS)
        self._opened = threading.Event()
        self._refused: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Opens the client, and begins to serve; raises the errors of the client."""
        super().start()
        self._opened.wait()
        if self._refused is not None:
            self._ended.wait()
            self._socket.close()
            raise self._refused

    @property
    def address(self) -> str:
        """The address for messages."""
        return f"{self.origin}/process"

    def _stop(self) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._stopping.set)

    async def _serve(self) -> Any:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._client)
            except Exception as error:  # noqa: BLE001 - raised by `start`
                self._refused = error
                return
            finally:
                self._opened.set()
            serving = asyncio.create_task(self._server.serve([self._socket]))
            stopping = asyncio.create_task(self._stopping.wait())
            failing = asyncio.create_task(self._client.wait_failed())
            await asyncio.wait({serving, stopping, failing}, return_when=asyncio.FIRST_COMPLETED)
            self._server.should_exit = True
            await asyncio.wait({serving}, timeout=self._stop_timeout_s)
            await stack.aclose()
            await serving
            for waiting in (stopping, failing):
                waiting.cancel()
            if failing.done() and not failing.cancelled():
                raise failing.result()
