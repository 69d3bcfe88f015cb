"""Nobody sees a secret, however much Kafka's client is asked to say."""

import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.kafka.security.secured import SecuredKafka


def test_a_password_is_not_in_what_the_client_logs(secured: SecuredKafka, capfd: pytest.CaptureFixture[str]) -> None:
    kafka = secured.with_password(f"debugging-{uuid.uuid4().hex[:8]}")
    AdminClient({**kafka, "debug": "all"}).list_topics(timeout=60)
    said = capfd.readouterr().err
    assert "sasl.password = [redacted]" in said
    assert kafka["sasl.password"] not in said


def test_a_key_is_not_in_what_the_client_logs(secured: SecuredKafka, capfd: pytest.CaptureFixture[str]) -> None:
    kafka = secured.with_certificate(f"debugging-{uuid.uuid4().hex[:8]}")
    key = Path(kafka.pop("ssl.key.location")).read_text()
    AdminClient({**kafka, "ssl.key.pem": key, "debug": "all"}).list_topics(timeout=60)
    said = capfd.readouterr().err
    assert "ssl.key.pem = [redacted]" in said
    assert not any(line in said for line in key.splitlines())
