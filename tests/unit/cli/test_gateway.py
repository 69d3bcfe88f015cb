"""The gateway over HTTP, with a client that answers as the test says."""

import asyncio
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from acker_cli.gateway.app import Limits
from acker_cli.gateway.server import GatewayServer
from inspection.errors import ServingError
from inspection.http_server import ServedAt
from spout_sdk.client import MessageOutcome
from spout_sdk.errors import (
    ClientClosedError,
    DeadLetterError,
    NotDeliveredError,
    OutcomePendingError,
    TooManyCallsError,
)
from tests.certificates import Authority
from tests.waiting import eventually

TOKEN = "0123456789abcdefghij"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
ACKED = MessageOutcome("orders", 1, 5, "acked", 1, 1_000, 1_007, answer={"euros": 1.5})
DEAD = MessageOutcome("orders", 1, 6, "dead-letter", 2, 1_000, 1_007, "failed", "price", "no such fruit")


class Outcomes:
    """Stands in for a `Client`: `process` returns or raises what is set, or waits until the calls are to end."""

    max_open = 2
    is_full, failure, open_calls = False, None, 0

    def __init__(self, outcome: MessageOutcome | Exception | None = ACKED) -> None:
        self.outcome = outcome
        self.sent: list[tuple[Any, ...]] = []
        self.refuses: Exception | None = None

    async def __aenter__(self) -> "Outcomes":
        if self.refuses is not None:
            raise self.refuses
        self._loop, self._closed, self._failed = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed.set()

    async def wait_failed(self) -> Exception:
        await self._failed.wait()
        return ClientClosedError("the topic is gone")

    def fail(self) -> None:
        self._loop.call_soon_threadsafe(self._failed.set)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._closed.set)

    async def process(self, value: bytes, *, key: str | None, timeout: float) -> MessageOutcome:
        self.sent.append((value, key, timeout))
        if self.outcome is None:
            self.open_calls += 1
            await self._closed.wait()
            self.open_calls -= 1
            raise ClientClosedError("the client was closed", "orders", 1, 7)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.fixture
def outcomes() -> Outcomes:
    return Outcomes()


@contextmanager
def serving(outcomes: Outcomes, at: ServedAt | None = None, stop_timeout: float = 30.0) -> Iterator[GatewayServer]:
    limits = Limits(max_body_bytes=20, timeout_s=3.0, max_timeout_s=9.0)
    with GatewayServer(outcomes, at or ServedAt(), limits, stop_timeout) as served:  # type: ignore[arg-type]
        yield served


def post(
    port: int, query: str = "", body: Any = b"3 apples", headers: Mapping[str, str] | None = None
) -> tuple[int, Any, http.client.HTTPMessage]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("POST", f"/process{query}", body, dict(headers or {}))
        response = connection.getresponse()
        return response.status, json.loads(response.read()), response.headers


def test_a_message_is_answered_with_its_outcome(outcomes: Outcomes) -> None:
    with serving(outcomes) as served:
        status, body, _ = post(served.port, "?key=order-1&timeout=2.5")
        assert (status, body["outcome"], body["answer"], body["offset"]) == (200, "acked", {"euros": 1.5}, 5)
        post(served.port)
        assert outcomes.sent == [(b"3 apples", "order-1", 2.5), (b"3 apples", None, 3.0)]


def test_half_of_a_surrogate_pair_passes_in_an_answer_and_in_a_failure(outcomes: Outcomes) -> None:
    """JSON may have one, and UTF-8 cannot encode it."""
    for outcome, status in (
        (replace(ACKED, answer="\ud83d"), 200),
        (DeadLetterError(replace(DEAD, failure="\ud83d")), 422),
    ):
        outcomes.outcome = outcome
        with serving(outcomes) as served:
            found, body, _ = post(served.port, "?key=%ED%A0%BD")
        assert (found, "\ud83d" in body.values()) == (status, True)


@pytest.mark.parametrize(
    ("outcome", "status", "expected"),
    [
        (DeadLetterError(DEAD), 422, {"outcome": "dead-letter", "failure": "no such fruit", "component": "price"}),
        (OutcomePendingError("orders", 1, 7, 3), 202, {"outcome": "pending", "partition": 1, "offset": 7}),
        (ClientClosedError("the client has ended", "orders", 1, 7), 202, {"outcome": "pending", "offset": 7}),
        (ClientClosedError("the client has ended"), 503, {"error": "the client has ended"}),
        (TooManyCallsError(2, 3), 429, {}),
        (NotDeliveredError("orders", "too large"), 503, {}),
    ],
)
def test_each_error_has_a_status(outcome: Exception, status: int, expected: dict[str, Any]) -> None:
    with serving(Outcomes(outcome)) as served:
        found, body, headers = post(served.port)
    assert (found, {name: body[name] for name in expected}) == (status, expected)
    assert (headers.get("retry-after") is not None) == (status in (429, 503))


def test_requests_are_limited(outcomes: Outcomes) -> None:
    with serving(outcomes) as served:
        for timeout in ("soon", "10", "0", "nan"):
            assert post(served.port, f"?timeout={timeout}", b"a")[0] == 400, timeout
        parts = iter([b"twelve bytes", b"twelve bytes"])
        for body, status in ((b"", 400), (b"more than twenty bytes", 413), (parts, 413)):
            assert post(served.port, "", body)[0] == status, body
        outcomes.is_full = True
        assert post(served.port)[0] == 429
        assert not outcomes.sent


def test_without_a_token_only_programs_on_this_machine_are_served(outcomes: Outcomes) -> None:
    with serving(outcomes) as served:
        for headers in ({"Host": "evil.example"}, {"Origin": "http://127.0.0.1"}, {"Host": "10.0.0.1"}, {"Host": ""}):
            assert post(served.port, headers=headers)[0] == 403, headers
        for host in ("localhost:8421", "127.0.0.1", "[::1]:1"):
            assert post(served.port, headers={"Host": host})[0] == 200, host


def test_a_token_is_needed_where_one_is_set_and_where_others_reach_the_gateway(outcomes: Outcomes) -> None:
    with serving(outcomes, ServedAt(token=TOKEN)) as served:
        for headers in ({}, {"Authorization": f"Basic {TOKEN}"}, {"Authorization": "Bearer wrong"}):
            status, _, answered = post(served.port, headers=headers)
            assert (status, answered["www-authenticate"]) == (401, "Bearer")
        assert not outcomes.sent
        assert post(served.port, headers={**BEARER, "Host": "gateway.example"})[0] == 200
        with urlopen(f"{served.origin}/health", timeout=60) as healthy:
            assert json.loads(healthy.read()) == {"open_calls": 0}
    with serving(outcomes, ServedAt("0.0.0.0")) as served:
        assert post(served.port)[0] == 401
        assert post(served.port, headers={"Authorization": f"Bearer {served.token}"})[0] == 200
    with pytest.raises(ServingError, match="token of the gateway"):
        GatewayServer(outcomes, ServedAt(token="short"), Limits(), 1)  # type: ignore[arg-type]


def test_the_gateway_speaks_https(outcomes: Outcomes, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    identity = authority.issue("gateway")
    at = ServedAt(token=TOKEN, certificate=str(identity.certificate), key=str(identity.key))
    with serving(outcomes, at) as served:
        trusted = ssl.create_default_context(cafile=str(authority.path))
        with urlopen(Request(served.address, b"3 apples", BEARER), timeout=60, context=trusted) as answered:
            assert json.loads(answered.read())["outcome"] == "acked"


@pytest.mark.parametrize("stop_timeout", [30.0, 0.0])
def test_a_stop_waits_for_open_requests_until_its_deadline(stop_timeout: float) -> None:
    outcomes, answers = Outcomes(None), list[tuple[int, Any]]()
    served = GatewayServer(outcomes, ServedAt(), Limits(), stop_timeout)  # type: ignore[arg-type]
    served.start()
    waiting = threading.Thread(target=lambda: answers.append(post(served.port)[:2]))
    waiting.start()
    eventually(lambda: outcomes.open_calls, "the request")
    port, closing = served.port, threading.Thread(target=served.close)
    closing.start()
    if stop_timeout:
        eventually(lambda: not _connects(port), "no more connections")
        assert not answers
        outcomes.end()
    closing.join(60)
    waiting.join(60)
    ((status, body),) = answers
    assert (status, body["offset"]) == (202, 7)


def _connects(port: int) -> bool:
    with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=60):
        return True
    return False


def test_a_client_that_cannot_be_opened_or_fails_ends_the_gateway(
    outcomes: Outcomes, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(outcomes) as served:
        outcomes.fail()
        with pytest.raises(ServingError, match="the gateway has stopped; its log has the error"):
            served.wait()
        assert "the topic is gone" in caplog.text
    outcomes.refuses = NotDeliveredError("orders", "no broker")
    with pytest.raises(NotDeliveredError), serving(outcomes):
        pass
