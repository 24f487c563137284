"""The headers of requests: of a connection, of a call, of a kind of call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from alula._context import Params

__all__ = ["VERBS", "StandingHeaders", "merge_headers"]

VERBS: Final = {
    "find": "GET",
    "get": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "remove": "DELETE",
}
_JSON: Final = "application/json"
_NOT_IN_HEADERS: Final = re.compile(r"[\r\n\0]|[^\x00-\xff]")


class StandingHeaders:
    """The headers that calls have anyway, merged once and not for each call.

    Args:
        given: Those of a connection.

    Raises:
        ValueError: A header can not be sent.
        TypeError: A value is no string.
    """

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._reading = merge_headers({"Accept": _JSON}, given)
        self._writing = merge_headers({"Accept": _JSON, "Content-Type": _JSON}, given)

    def of(self, method: str, params: Params) -> dict[str, str]:
        """Return the headers of a call, for the caller to keep.

        Raises:
            ValueError: A header of the call can not be sent.
            TypeError: A value is no string.
        """
        standing = self._reading if VERBS.get(method) in {"GET", "DELETE"} else self._writing
        more, connection = params.get("headers"), params.get("connection")
        if method in VERBS and not more and not connection:
            return standing.copy()
        custom = None if method in VERBS else {"X-Service-Method": method}
        return merge_headers(custom, standing, more, (connection or {}).get("headers"))


def merge_headers(*levels: Mapping[str, str] | None) -> dict[str, str]:
    """Return headers of several origins in one; later ones win, whatever the case of their names.

    Raises:
        ValueError: A name or a value has a line break, or characters beyond Latin-1.
        TypeError: A value is no string.
    """
    merged: dict[str, tuple[str, str]] = {}
    for level in levels:
        for name, value in (level or {}).items():
            if not isinstance(value, str):
                raise TypeError(f"the header {name} is {value!r}; give a string")
            if _NOT_IN_HEADERS.search(name) or _NOT_IN_HEADERS.search(value):
                raise ValueError(
                    f"the header {name!r} has a line break or a character that no header can have"
                )
            merged[name.lower()] = (name, value)
    return dict(merged.values())
