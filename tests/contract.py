"""What Alula promises to others, and keeps with every version of the packages that it allows.

The tests below these paths have the mark `contract`, but for slow ones. `make lowest` and
`make newest` run them, so each path is here because a version of another package could break it.
`make release-check` runs all fast tests with both ends of the ranges.

`python -m tests.contract` prints the paths.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SLOW_TOO = TESTS / "packaging"

PATHS = (
    # Recorded exchanges, over REST and socket.io, on each store.
    "conformance/test_recorded.py",
    "conformance/test_recorded_sql.py",
    "conformance/realtime",
    # `AdapterSuite` on each store.
    "adapters/test_memory_suite.py",
    "adapters/mongodb/test_suite.py",
    "adapters/sql/test_suite.py",
    # Clients, with both HTTP libraries, and over websockets.
    "client",
    # What an installed package has: extras, imports, names.
    "packaging/test_extras.py",
    "test_import.py",
    "test_public_names.py",
    # The server and the websockets, which stand on the libraries with the narrowest ranges.
    "express/test_item_streams.py",
    "express/test_on_the_wire.py",
    "express/test_server.py",
    "express/test_websockets.py",
    "realtime/test_socketio.py",
    "realtime/test_websocket.py",
    # Libraries that ask providers, and check what these have signed.
    "accounts/providers",
    # Tools for agents, which stand on the SDK of the protocol.
    "mcp",
    # Models of Pydantic.
    "schema/pydantic_models",
)


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Mark the tests of the contract."""
    for item in items:
        if is_listed(item.path) and (
            item.get_closest_marker("slow") is None or item.path.parent == SLOW_TOO
        ):
            item.add_marker(pytest.mark.contract)


@cache
def is_listed(file: Path) -> bool:
    """Tell whether a file is at or below one of the paths."""
    return any(file.is_relative_to(TESTS / path) for path in PATHS)


if __name__ == "__main__":
    for path in PATHS:
        print(f"tests/{path}")
