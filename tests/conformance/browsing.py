"""Plays the recorded sign-ins with others: browsers that keep cookies and follow redirects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

from tests.conformance.comparison import compare, differences
from tests.conformance.replay import substitute, values_of
from tests.conformance.wire import Reply, body_of, send

MOST_REDIRECTS = 12


@dataclass
class Journey:
    """The state of a case while it is played.

    Args:
        places: The addresses of the servers by name.
        providers: Those of the providers.
    """

    places: Mapping[str, str]
    providers: frozenset[str]
    jars: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    last: str = ""

    def play(self, steps: list[dict[str, Any]], expected: Mapping[int, Any]) -> list[str]:
        """Return how the answers differ from what is expected; steps behind it are not sent."""
        for server in ("base", "oidc", "github"):
            send(
                self.places[server], "POST", "/__reset", {"Content-Type": "application/json"}, b"{}"
            )
        saved: dict[str, Any] = dict(self.places)
        for number, step in enumerate(steps[: max(expected) + 1]):
            reply = self.perform(substitute(step["request"], saved))
            found = differ(substitute(expected.get(number) or {}, saved), reply, self.last)
            if found:
                return [f"step {number + 1}", *found]
            url = reply.headers.get("location")
            more = {"url": url, "location": location_of(reply, self.last)}
            saved.update(values_of(step.get("save", {}), reply, **more))
        return []

    def perform(self, request: Mapping[str, Any]) -> Reply:
        """Send a request, and with ``until`` follow redirects to the providers."""
        origin, target = self.places[request.get("at", "base")], request.get("path", "")
        if "follow" in request:
            origin, target = split(urljoin(self.last, request["follow"]))
        headers, body = dict(request.get("headers", {})), body_of(request)
        if "form" in request:
            body = urlencode(request["form"]).encode()
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        elif body is not None:
            headers.setdefault("Content-Type", "application/json")
        jar = self.jars.setdefault(request["browser"], {}) if "browser" in request else None
        reply = self.send(origin, request["method"], target, headers, body, jar)
        for _ in range(MOST_REDIRECTS if request.get("until") else 0):
            origin, target = split(urljoin(self.last, reply.headers.get("location", self.last)))
            if origin not in self.providers:
                break
            reply = self.send(origin, "GET", target, {}, None, jar)
        return reply

    def send(
        self,
        origin: str,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes | None,
        jar: dict[str, dict[str, str]] | None,
    ) -> Reply:
        self.last = origin
        if jar is not None and (cookies := jar.setdefault(origin, {})):
            pairs = [f"{name}={value}" for name, value in cookies.items()]
            headers = {**headers, "Cookie": "; ".join(pairs)}
        reply = send(origin, method, target, headers, body)
        if jar is not None:
            for name, cookie in SimpleCookie(reply.headers.get("set-cookie")).items():
                jar[origin].pop(name, None)
                if cookie["max-age"] != "0":
                    jar[origin][name] = cookie.value
        return reply


def differ(expected: Mapping[str, Any], reply: Reply, origin: str) -> list[str]:
    """Return how an answer differs."""
    status = expected.get("status", reply.status)
    if isinstance(status, list) and reply.status in status:
        status = reply.status
    given = {name: value for name, value in expected.items() if name in {"body", "text"}}
    found = compare({**given, "status": status}, reply)
    if "location" in expected:
        found += differences(expected["location"], location_of(reply, origin), "location")
    sent = reply.text + str(reply.headers)
    return found + [f"must not have {text}" for text in expected.get("not", ()) if text in sent]


def location_of(reply: Reply, origin: str) -> dict[str, Any] | None:
    """Return the parts of the header Location, None without one."""
    text = reply.headers.get("location")
    if text is None:
        return None
    parts = urlsplit(urljoin(origin, text))
    return {
        "origin": "self" if text.startswith("/") else f"{parts.scheme}://{parts.netloc}",
        "path": parts.path or "/",
        "query": dict(parse_qsl(parts.query)),
        "fragment": dict(parse_qsl(parts.fragment)),
    }


def split(url: str) -> tuple[str, str]:
    """Return the origin of a URL, and the rest of it."""
    parts = urlsplit(url)
    target = parts.path or "/"
    return f"{parts.scheme}://{parts.netloc}", f"{target}?{parts.query}" if parts.query else target
