"""Tests that ship with Alula: `AdapterSuite`, which every adapter passes.

Nothing is loaded before it is asked for, since pytest is needed by tests alone.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alula.testing._adapter_suite import AdapterSuite

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
    if (rules := f"{__name__}.rules") not in sys.modules:
        # So that a failure shows the values, as it does in a project's own tests.
        pytest.register_assert_rewrite(rules)
    return import_module("alula.testing._adapter_suite").AdapterSuite
