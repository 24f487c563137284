"""Source code as trees, for the tests that read it."""

from __future__ import annotations

import ast
import gc


def parse(source: str) -> ast.Module:
    """Parse Python source code, without a garbage collection in between.

    CPython 3.11 counts how deep `ast.parse` is in a number that all code of the thread shares. A
    collection may run a finalizer in the middle, and if that raises, the number is wrong:
    ``SystemError: AST constructor recursion depth mismatch``.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if was_enabled:
            gc.enable()
