"""Marks the tests that need a real broker; `tests/conftest.py` has it."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/kafka/" in item.path.as_posix():
            item.add_marker(pytest.mark.kafka)
