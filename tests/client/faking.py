"""Clients without a network: a fetch function that notes what it is asked, and answers at will."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

from alula.client import create_client, rest


class FakeFetch:
    """Answers in order what it was given; an exception is raised; at last always the same.

    Attributes:
        calls: Address and options of each call.
    """

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, url: str, **given: Any) -> Any:
        self.calls.append((url, given))
        told = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await asyncio.sleep(0)
        if isinstance(told, BaseException):
            raise told
        status, value, headers = told if isinstance(told, tuple) else (200, told, {})

        async def body():
            return value if isinstance(value, bytes) else json.dumps(value).encode()

        return SimpleNamespace(status=status, headers=headers, bytes=body)

    @property
    def urls(self) -> list[str]:
        return [url for url, _ in self.calls]


def faked(*answers: Any, service_class: Any = None, **options: Any) -> tuple[Any, FakeFetch]:
    """Return a client and the fetch function that it sends with."""
    fetch = FakeFetch(*(answers or ({"ok": True},)))
    connection = rest("http://here/api/").fetch(fetch, service_class, options=options)
    return create_client().configure(connection), fetch
