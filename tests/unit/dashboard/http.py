"""Requests as they are, with the headers that a test wants and no others."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PATIENCE = 60.0
TOKEN = "0123456789abcdefghij"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def request(port: int, path: str, method: str = "GET", headers: Mapping[str, str] = BEARER) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, headers=dict(headers))
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        connection.close()


class Events:
    """A stream of server-sent events."""

    def __init__(self, port: int, path: str, headers: Mapping[str, str] = BEARER) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self._connection.request("GET", path, headers=dict(headers))
        self.answer = self._connection.getresponse()

    def next(self) -> tuple[str, Any] | None:
        """The next event and its data; None at the end of the stream."""
        event = ""
        while line := self.answer.readline():
            text = line.decode().rstrip("\n")
            if text.startswith("event: "):
                event = text.removeprefix("event: ")
            elif text.startswith("data: "):
                return event, json.loads(text.removeprefix("data: "))
        return None

    def close(self) -> None:
        self.answer.close()
        self._connection.close()
