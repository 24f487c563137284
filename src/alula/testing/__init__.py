"""For tests: `AdapterSuite`, which every adapter passes, `RealtimeClient` and `FakeProvider`.

All are imported on first access: the first needs pytest, the others the packages of a server.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alula.testing._fake_provider import FakeProvider
    from alula.testing._realtime_client import RealtimeClient, ReceivedEvent
    from alula.testing._rules import AdapterSuite

__all__ = ["AdapterSuite", "FakeProvider", "RealtimeClient", "ReceivedEvent"]


def __getattr__(name: str) -> Any:
    if name in {"RealtimeClient", "ReceivedEvent"}:
        return getattr(import_module(f"{__name__}._realtime_client"), name)
    if name == "FakeProvider":
        return import_module(f"{__name__}._fake_provider").FakeProvider
    if name != "AdapterSuite":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        pytest = import_module("pytest")
    except ModuleNotFoundError as error:
        raise ImportError(
            "alula.testing.AdapterSuite needs pytest and a plugin that runs coroutines:"
            " pip install pytest anyio"
        ) from error
    if (rules := f"{__name__}._rules") not in sys.modules:
        # Before the import: a failure then shows the values, as in a project's own tests.
        pytest.register_assert_rewrite(rules)
    return import_module(rules).AdapterSuite
