"""Tests that ship with Alula: `AdapterSuite`, which every adapter passes.

The suite is imported on first access, because only tests need pytest.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alula.testing._rules import AdapterSuite

__all__ = ["AdapterSuite"]


def __getattr__(name: str) -> Any:
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
