from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from alula.adapters.sql import Database


@pytest.fixture
async def database(sql_url: str) -> AsyncIterator[Database]:
    """Open an empty database of each dialect."""
    database = Database(sql_url)
    await database.open()
    yield database
    await database.close()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[[Database], list[str]]:
    """Return a function that lists the texts of all statements that a database runs from now on."""

    def watch(database: Database) -> list[str]:
        texts: list[str] = []
        run = database.run

        def noting(statement, *given, **options):
            texts.append(statement.text)
            return run(statement, *given, **options)

        monkeypatch.setattr(database, "run", noting)
        return texts

    return watch
