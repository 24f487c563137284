"""What people type as a query or as data."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from alula._cli.terminal import UsageError
from alula.errors import BadRequest
from alula.query import parse

__all__ = ["read_data", "read_query"]


def read_query(text: str) -> dict[str, Any]:
    """Return a query that is written as in a URL, or as JSON.

    Raises:
        UsageError: It is neither.
    """
    if text.lstrip().startswith("{"):
        found: dict[str, Any] = _loads(text, "the query")
        return found
    try:
        return parse(text.removeprefix("?"))
    except BadRequest as error:
        raise UsageError(f"the query {text!r} can not be read: {error}") from None


def read_data(text: str | None) -> Any:
    """Return data that is written as JSON, in a file (``@name``), or comes from the input (``-``).

    Raises:
        UsageError: It is no JSON, or there is no such file.
    """
    if text is None:
        return None
    if text == "-":
        return _loads(sys.stdin.read(), "what came from the input")
    if not text.startswith("@"):
        return _loads(text, "the data")
    try:
        content = Path(text[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise UsageError(f"the file {text[1:]!r} can not be read: {error}") from None
    return _loads(content, f"the file {text[1:]!r}")


def _loads(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{what} is no JSON: {error}") from None
