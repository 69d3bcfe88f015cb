"""One broker with TLS, SASL and ACLs for all tests in this folder; the broker of other tests has no users."""

from collections.abc import Iterator

import pytest

from tests.kafka.security.secured import SecuredKafka


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("certificates")) as kafka:
        yield kafka
