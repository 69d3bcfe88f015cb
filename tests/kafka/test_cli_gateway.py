"""`acker gateway` on a real broker."""

import json
import signal
import threading
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.chaos.components import DIRECTORY
from tests.kafka.sdk_rig import Use
from tests.unit.cli.running import running_acker
from tests.waiting import eventually


def test_a_message_over_http_is_answered_also_while_the_gateway_stops(
    use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DIRECTORY, str(tmp_path))
    orders, answers = use("answered", 2), list[Any]()
    with orders.processes():
        orders.feed(["before"])
        eventually(lambda: orders.outcomes, "a committed offset, which has the topic")
        given = ("--port", "0", "--bootstrap-servers", orders.servers)
        with running_acker("gateway", orders.name, *given, cwd=tmp_path) as gateway:
            gateway.wait_for(f"messages go to topic {orders.source}")
            address = gateway.out[0].strip()

            def send(text: str) -> None:
                with urlopen(f"{address}?key=1&timeout=60", text.encode(), timeout=90) as answered:
                    answers.append(json.loads(answered.read())["answer"][0])

            send("first")
            waiting = threading.Thread(target=send, args=("held",))
            waiting.start()
            eventually(lambda: list(tmp_path.glob("held-*")), "the execute")
            gateway.process.send_signal(signal.SIGTERM)
            gateway.wait_for("stopping")
            assert gateway.process.poll() is None
            (tmp_path / "release-held").touch()
            waiting.join(60)
            assert (answers, gateway.ended()) == (["FIRST", "HELD"], 0)
