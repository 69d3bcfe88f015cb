"""The pages: JSON, server-sent events, and static files; `docs/inspection.md` lists the paths."""

import asyncio
import contextlib
import json
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar

from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from inspection.dashboard.access import Guard
from inspection.dashboard.recent import Shown
from inspection.dashboard.source import Source
from inspection.errors import RootNotFoundError, SearchLimitError, TraceError
from inspection.notation import parse_root
from kafka_clients.errors import ClusterError, UnknownTopologyError

STATIC: Final = Path(__file__).with_name("static")
PAGE: Final = "/"

T = TypeVar("T")

_AT_ONCE: Final = 32  # calls of the source
_LOOK_S: Final = 0.5  # between two checks for a new snapshot
_QUIET_S: Final = 15.0  # after so long without an event a comment is sent, so that proxies keep the connection
_RETRY_MS: Final = 2_000  # after how long a browser that lost the connection asks again

_MS: Final = re.compile(r"[0-9]{1,15}")
_PARTITION: Final = re.compile(r"[0-9]{1,9}")
_STATUS: Final = ((UnknownTopologyError, 404), (RootNotFoundError, 404), (SearchLimitError, 503), (TraceError, 400))
"""HTTP status of a kind of error; 503 if it is not here."""


class ClosingError(Exception):
    """The server is about to end, so the answer is not awaited."""


class Pages:
    """The pages over a source; of one topology if it is `chosen`."""

    def __init__(self, source: Source, chosen: str | None = None) -> None:
        self._source = source
        self._chosen = chosen
        self._closing = asyncio.Event()
        self._room = asyncio.Semaphore(_AT_ONCE)

    def guarded(self, token: str, names: Iterable[str]) -> ASGIApp:
        source, answer = self._source, self._answering
        app = Starlette(
            routes=[
                Route(PAGE, _file("index.html")),
                Route("/api/topologies", self._topologies),
                Route("/api/snapshot", answer(lambda name, _: source.snapshot(name))),
                Route("/api/history", answer(lambda name, query: source.history(name, query.get("component")))),
                Route("/api/findings", answer(lambda name, _: source.findings(name))),
                Route("/api/failures", answer(lambda name, _: {"failures": list(source.failures(name))})),
                Route("/api/dead-letters", answer(lambda name, _: {"dead_letters": list(source.dead_letters(name))})),
                Route("/api/trace", answer(self._trace)),
                Route("/api/events", self._events),
                Route("/trace/{root}", _file("trace.html")),
                Mount("/static", StaticFiles(directory=STATIC)),
            ],
            exception_handlers={
                **dict.fromkeys((ClusterError, TraceError, ClosingError), _problem),
                HTTPException: _refused,
            },
        )
        return Guard(app, token, names, PAGE)

    def close(self) -> None:
        """Ends the streams of events, and does not await answers of the source; called in the loop that serves them."""
        self._closing.set()

    def _trace(self, name: str, query: QueryParams) -> Shown:
        oldest = query.get("oldest")
        if oldest is not None:
            if not _PARTITION.fullmatch(oldest):
                raise HTTPException(400, f"oldest={oldest} is no partition of the ack log: give its number")
            return self._source.oldest(name, int(oldest))
        root, at = parse_root(query.get("root", "")), query.get("at")
        if at is not None and not _MS.fullmatch(at):
            raise HTTPException(400, f"at={at} is no time: give milliseconds since 1970, as /api/failures does")
        return self._source.trace(name, root, None if at is None else int(at))

    async def _topologies(self, _request: Request) -> Response:
        return JSONResponse({"topologies": list(await self._names()), "chosen": self._chosen})

    def _answering(self, ask: Callable[[str, QueryParams], Any]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            name = await self._name(request)
            return JSONResponse(await self._ask(lambda: ask(name, request.query_params)))

        return answer

    async def _events(self, request: Request) -> Response:
        name = await self._name(request)
        # Before anything is sent, so that an unknown topology is an answer with a status.
        await self._ask(lambda: self._source.snapshot(name))
        return StreamingResponse(
            self._stream(name), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )

    async def _stream(self, name: str) -> AsyncIterator[str]:
        yield f"retry: {_RETRY_MS}\n\n"
        last, quiet = "", 0.0
        while not self._closing.is_set():
            try:
                event = await self._ask(lambda: self._event(name))
            except ClosingError:
                return
            if event != last:
                last, quiet = event, 0.0
                yield event
            elif quiet >= _QUIET_S:
                quiet = 0.0
                yield ": still here\n\n"
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), _LOOK_S)
            quiet += _LOOK_S

    def _event(self, name: str) -> str:
        try:
            return f"event: snapshot\ndata: {_text(self._source.snapshot(name))}\n\n"
        except ClusterError as error:
            return f"event: problem\ndata: {_text({'error': str(error)})}\n\n"

    async def _name(self, request: Request) -> str:
        named = request.query_params.get("topology") or self._chosen
        if named is not None:
            if self._chosen not in (None, named):
                raise HTTPException(
                    404, f"this dashboard shows {self._chosen} only, not {named}: leave out topology=, or start another"
                )
            return named
        names = await self._names()
        if len(names) == 1:
            return names[0]
        there = f"there are {', '.join(names)}" if names else "none is published yet"
        raise HTTPException(400, f"name the topology, as in {request.url.path}?topology=NAME: {there}")

    async def _names(self) -> Sequence[str]:
        return await self._ask(self._source.topologies)

    async def _ask(self, question: Callable[[], T]) -> T:
        """Calls this in a thread; raises what it raises, or `ClosingError` if closed before there is an answer.

        Not in the loop's own threads: its end, and that of the process, would wait for a broker that does not answer.
        """
        async with self._room:
            future: Future[T] = Future()
            # From now on it cannot be cancelled, only abandoned.
            future.set_running_or_notify_cancel()
            threading.Thread(target=_answer, args=(question, future), name="dashboard question", daemon=True).start()
            answer, closing = asyncio.wrap_future(future), asyncio.create_task(self._closing.wait())
            try:
                awaited: set[asyncio.Future[Any]] = {answer, closing}
                await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                if answer.done():
                    return answer.result()
                raise ClosingError("the dashboard is stopping; start it again")
            finally:
                answer.cancel()
                closing.cancel()


def _answer(question: Callable[[], T], future: "Future[T]") -> None:
    try:
        future.set_result(question())
    except BaseException as error:  # noqa: BLE001 - it is raised where it was asked
        future.set_exception(error)


def _file(name: str) -> Callable[[Request], Awaitable[Response]]:
    async def page(_request: Request) -> Response:
        return FileResponse(STATIC / name)

    return page


async def _problem(_request: Request, error: Exception) -> Response:
    return JSONResponse(
        {"error": str(error)}, next((status for kind, status in _STATUS if isinstance(error, kind)), 503)
    )


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker
    # Starlette's own message does not name the path.
    is_path = error.detail == HTTPStatus.NOT_FOUND.phrase
    message = f"there is no page {request.url.path}" if is_path else error.detail
    return JSONResponse({"error": message}, error.status_code)


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
