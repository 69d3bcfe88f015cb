"""The pages: JSON, server-sent events, and the files of the one page.

| path | what it answers |
|---|---|
| `/` | the page |
| `/trace/ROOT` | the page of a tree |
| `/trace/oldest` | the same, of that which is open for longest in `partition=N` of the ack log |
| `/api/topologies` | `{"topologies": […], "chosen": name or null}` |
| `/api/snapshot` | as `acker top --once --json` |
| `/api/history` | the last hour of the topology, or of `component=NAME` |
| `/api/findings` | of `acker doctor` |
| `/api/failures`, `/api/dead-letters` | the latest of them |
| `/api/trace` | the tree of `root=ROOT`, as `acker trace --json`; `at=MS` says when its outcome was told |
| `/api/trace?oldest=N` | that which is open for longest in partition N of the ack log |
| `/api/events` | a snapshot whenever there is a new one, as `event: snapshot`; `event: problem` if there is none |

All but the first and `/api/topologies` take `?topology=NAME`; it may be left out where there is one topology, or one
was chosen.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from inspection.dashboard.access import Access, Guard
from inspection.dashboard.questions import ClosingError, Questions
from inspection.dashboard.source import Source
from inspection.errors import RootNotFoundError, SearchLimitError, TraceError
from inspection.trace.roots import parse_root
from kafka_clients.errors import ClusterError, UnknownTopologyError

STATIC: Final = Path(__file__).with_name("static")
PAGE: Final = "/"

_LOOK_S: Final = 0.5
"""How often it is looked whether there is a new snapshot."""
_QUIET_S: Final = 15.0
"""After so long without an event a comment is sent, so that proxies keep the connection."""
_RETRY_MS: Final = 2_000
"""After how long a browser that lost the connection asks again."""

_MS: Final = re.compile(r"[0-9]{1,15}")
_PARTITION: Final = re.compile(r"[0-9]{1,9}")
_STATUS: Final = (
    (UnknownTopologyError, 404),
    (RootNotFoundError, 404),
    (SearchLimitError, 503),
    # A root that is none, and a topology that has no trees.
    (TraceError, 400),
)
"""What a kind of error is to who has asked; 503 if it is not here."""

_Named = Callable[[str], Any]


class Pages:
    def __init__(self, source: Source, chosen: str | None = None) -> None:
        self._source = source
        self._chosen = chosen
        self._questions = Questions()

    def guarded(self, access: Access) -> ASGIApp:
        source = self._source
        app = Starlette(
            routes=[
                Route(PAGE, self._page),
                Route("/api/topologies", self._topologies),
                Route("/api/snapshot", self._answering(source.snapshot)),
                Route("/api/history", self._history),
                Route("/api/findings", self._answering(source.findings)),
                Route("/api/failures", self._answering(lambda name: {"failures": list(source.failures(name))})),
                Route(
                    "/api/dead-letters", self._answering(lambda name: {"dead_letters": list(source.dead_letters(name))})
                ),
                Route("/api/trace", self._trace),
                Route("/api/events", self._events),
                Route("/trace/{root}", self._trace_page),
                Mount("/static", StaticFiles(directory=STATIC)),
            ],
            exception_handlers={
                ClusterError: _problem,
                TraceError: _problem,
                ClosingError: _problem,
                HTTPException: _refused,
            },
        )
        return Guard(app, access, PAGE)

    def close(self) -> None:
        """Ends the streams of events; called in the loop that serves them."""
        self._questions.close()

    async def _page(self, _request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def _trace_page(self, _request: Request) -> Response:
        return FileResponse(STATIC / "trace.html")

    async def _trace(self, request: Request) -> Response:
        name = await self._name(request)
        asked = request.query_params
        oldest = asked.get("oldest")
        if oldest is not None:
            if not _PARTITION.fullmatch(oldest):
                raise HTTPException(400, f"oldest={oldest} is no partition of the ack log: give its number")
            return _json(await self._questions.ask(lambda: self._source.oldest(name, int(oldest))))
        root, at = parse_root(asked.get("root", "")), asked.get("at")
        if at is not None and not _MS.fullmatch(at):
            raise HTTPException(400, f"at={at} is no time: give milliseconds since 1970, as /api/failures does")
        ended_ms = None if at is None else int(at)
        return _json(await self._questions.ask(lambda: self._source.trace(name, root, ended_ms)))

    async def _history(self, request: Request) -> Response:
        name = await self._name(request)
        component = request.query_params.get("component")
        return _json(await self._questions.ask(lambda: self._source.history(name, component)))

    async def _topologies(self, _request: Request) -> Response:
        return _json({"topologies": list(await self._names()), "chosen": self._chosen})

    def _answering(self, ask: _Named) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            name = await self._name(request)
            return _json(await self._questions.ask(lambda: ask(name)))

        return answer

    async def _events(self, request: Request) -> Response:
        name = await self._name(request)
        # Asked before anything is sent, so that an unknown topology is an answer with a status.
        await self._questions.ask(lambda: self._source.snapshot(name))
        return StreamingResponse(
            self._stream(name), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )

    async def _stream(self, name: str) -> AsyncIterator[str]:
        yield f"retry: {_RETRY_MS}\n\n"
        said, quiet = "", 0.0
        while not self._questions.is_closed:
            try:
                event = await self._questions.ask(lambda: self._event(name))
            except ClosingError:
                return
            if event != said:
                said, quiet = event, 0.0
                yield event
            elif quiet >= _QUIET_S:
                quiet = 0.0
                yield ": still here\n\n"
            await self._questions.pause(_LOOK_S)
            quiet += _LOOK_S

    def _event(self, name: str) -> str:
        try:
            return f"event: snapshot\ndata: {_text(self._source.snapshot(name))}\n\n"
        except ClusterError as error:
            return f"event: problem\ndata: {_text({'error': str(error)})}\n\n"

    async def _name(self, request: Request) -> str:
        asked = request.query_params.get("topology") or self._chosen
        if asked is not None:
            if self._chosen not in (None, asked):
                raise HTTPException(
                    404, f"this dashboard shows {self._chosen} only, not {asked}: leave out topology=, or start another"
                )
            return asked
        names = await self._names()
        if len(names) == 1:
            return names[0]
        there = f"there are {', '.join(names)}" if names else "none is published yet"
        raise HTTPException(400, f"say which topology, as in {request.url.path}?topology=NAME: {there}")

    async def _names(self) -> Sequence[str]:
        return await self._questions.ask(self._source.topologies)


async def _problem(_request: Request, error: Exception) -> Response:
    return _json({"error": str(error)}, next((status for kind, status in _STATUS if isinstance(error, kind)), 503))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker
    # Starlette's own word for a path that nothing serves says nothing of the path.
    said = f"there is no page {request.url.path}" if error.detail == HTTPStatus.NOT_FOUND.phrase else error.detail
    return _json({"error": said}, error.status_code)


def _json(value: Any, status: int = 200) -> Response:
    return JSONResponse(value, status)


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
