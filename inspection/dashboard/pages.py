"""The pages: JSON, server-sent events, and static files; `docs/reference/json.md` lists the paths."""

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Final, TypeVar

from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from inspection.dashboard.recent import JsonObject
from inspection.dashboard.source import STOPPING, Source
from inspection.errors import (
    MessageNotFoundError,
    RootNotFoundError,
    SearchLimitError,
    StateKeyError,
    StateKeyNotFoundError,
    StatusError,
    TraceError,
)
from inspection.notation import parse_root
from kafka_clients.background import settle
from kafka_clients.errors import BrokerError, UnknownTopologyError

STATIC: Final = Path(__file__).with_name("static")
PAGE: Final = "/"
TRACE_PAGES: Final = "/trace/"

T = TypeVar("T")

_AT_ONCE: Final = 32  # calls of the source
_LOOK_SECONDS: Final = 0.5  # between two checks for a new snapshot, or for the end of the server
_QUIET_SECONDS: Final = 15.0  # without an event for this long a comment is sent, so that proxies keep the connection
_RETRY_MS: Final = 2_000  # after how long a browser that lost the connection asks again

_MS: Final = re.compile(r"[0-9]{1,15}")
_PARTITION: Final = re.compile(r"[0-9]{1,9}")
_STATUS: Final[dict[type[Exception], int]] = {
    UnknownTopologyError: 404,
    RootNotFoundError: 404,
    SearchLimitError: 503,
    TraceError: 400,
    StateKeyNotFoundError: 404,
    StateKeyError: 400,
    MessageNotFoundError: 404,
    StatusError: 400,
    BrokerError: 503,
}


class Pages:
    """The pages over a source; of one topology if it is `chosen`.

    When the server is `stopping`, streams of events end, and no answer of the source is awaited.
    """

    def __init__(self, source: Source, chosen: str | None, stopping: Callable[[], bool]) -> None:
        self._source = source
        self._chosen = chosen
        self._stopping = stopping
        self._room = asyncio.Semaphore(_AT_ONCE)

    def app(self) -> Starlette:
        source, shown = self._source, self._shown
        return Starlette(
            routes=[
                Route(PAGE, _file("index.html")),
                Route("/api/topologies", self._topologies),
                Route("/api/overview", self._overview),
                Route("/api/snapshot", shown(lambda name, _: source.snapshot(name))),
                Route("/api/history", shown(lambda name, query: source.history(name, query.get("component")))),
                Route("/api/findings", shown(lambda name, _: source.findings(name))),
                Route("/api/failures", shown(lambda name, _: {"failures": [*source.failures(name)]})),
                Route("/api/dead-letters", shown(lambda name, _: {"dead_letters": [*source.dead_letters(name)]})),
                Route("/api/trace", shown(self._trace)),
                Route("/api/state", shown(self._state)),
                Route("/api/message", shown(self._message)),
                Route("/api/events", self._events),
                Route(f"{TRACE_PAGES}{{root}}", _file("trace.html")),
                Mount("/static", StaticFiles(directory=STATIC)),
            ],
            exception_handlers=dict.fromkeys((*_STATUS, HTTPException), _problem),
        )

    async def _topologies(self, _request: Request) -> Response:
        names = await self._ask(self._source.topologies)
        return JSONResponse({"topologies": [*names], "chosen": self._chosen, "version": version("kafka-acker")})

    async def _overview(self, _request: Request) -> Response:
        rows = await self._ask(self._source.overview)
        return JSONResponse({"topologies": [row for row in rows if self._chosen in (None, row["topology"])]})

    def _trace(self, name: str, query: QueryParams) -> JsonObject:
        oldest, at = query.get("oldest"), query.get("at")
        if oldest is not None:
            if not _PARTITION.fullmatch(oldest):
                raise HTTPException(400, f"oldest={oldest} is not a partition of the ack log: give its number")
            return self._source.oldest(name, int(oldest))
        root = parse_root(query.get("root", ""))
        if at is not None and not _MS.fullmatch(at):
            raise HTTPException(400, f"at={at} is not a time: give milliseconds since 1970, as /api/failures does")
        return self._source.trace(name, root, None if at is None else int(at))

    def _state(self, name: str, query: QueryParams) -> JsonObject:
        if not (bolt := query.get("bolt")):
            raise HTTPException(400, "name the bolt and the key, as in /api/state?bolt=NAME&key=VALUE")
        return self._source.state(name, bolt, query.getlist("key"))

    def _message(self, name: str, query: QueryParams) -> JsonObject:
        return self._source.message(name, query.get("key"), query.get("offset"))

    def _name(self, request: Request) -> str:
        """The topology of a request; this may block."""
        named = request.query_params.get("topology") or self._chosen
        if named is not None:
            if self._chosen not in (None, named):
                raise HTTPException(
                    404, f"this dashboard shows {self._chosen} only, not {named}: leave out topology=, or start another"
                )
            return named
        names = self._source.topologies()
        if len(names) == 1:
            return names[0]
        there = f"there are {', '.join(names)}" if names else "none is published yet"
        raise HTTPException(400, f"name the topology, as in {request.url.path}?topology=NAME: {there}")

    def _shown(self, ask: Callable[[str, QueryParams], JsonObject]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return JSONResponse(await self._ask(lambda: ask(self._name(request), request.query_params)))

        return answer

    async def _events(self, request: Request) -> Response:
        def first() -> str:
            name = self._name(request)
            self._source.snapshot(name)
            return name

        # Before anything is sent, so that an unknown topology is an answer with a status.
        stream = self._stream(await self._ask(first))
        return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def _stream(self, name: str) -> AsyncIterator[str]:
        yield f"retry: {_RETRY_MS}\n\n"
        last, quiet = "", 0.0
        while not self._stopping():
            try:
                event = await self._ask(lambda: self._event(name))
            except BrokerError:  # It is stopping.
                return
            if event != last:
                last, quiet = event, 0.0
                yield event
            elif quiet >= _QUIET_SECONDS:
                quiet = 0.0
                yield ": still here\n\n"
            await asyncio.sleep(_LOOK_SECONDS)
            quiet += _LOOK_SECONDS

    def _event(self, name: str) -> str:
        try:
            kind, value = "snapshot", self._source.snapshot(name)
        except BrokerError as error:
            kind, value = "problem", {"error": str(error)}
        return f"event: {kind}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n"

    async def _ask(self, question: Callable[[], T]) -> T:
        """Calls this in a thread; raises what it raises, or a `BrokerError` if the server stops before the answer.

        Not in the loop's own threads: its end, and that of the process, would wait for a broker that does not answer.
        """
        async with self._room:
            future: Future[T] = Future()
            # From now on it cannot be cancelled, only abandoned.
            future.set_running_or_notify_cancel()
            threading.Thread(target=settle, args=(future, question), name="dashboard question", daemon=True).start()
            answer = asyncio.wrap_future(future)
            try:
                while not answer.done():
                    if self._stopping():
                        raise BrokerError(STOPPING)
                    await asyncio.wait([answer], timeout=_LOOK_SECONDS)
                return answer.result()
            finally:
                answer.cancel()


def _file(name: str) -> Callable[[Request], Awaitable[Response]]:
    async def page(_request: Request) -> Response:
        return FileResponse(STATIC / name)

    return page


async def _problem(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        status, message = next(status for kind, status in _STATUS.items() if isinstance(error, kind)), str(error)
    else:
        status, message = error.status_code, error.detail
        # Starlette's own message does not name the path.
        if message == HTTPStatus.NOT_FOUND.phrase:
            message = f"there is no page {request.url.path}"
    return JSONResponse({"error": message}, status)
