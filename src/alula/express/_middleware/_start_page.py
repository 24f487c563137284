"""The page of debug mode at ``/``: the services, and the first calls for a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from alula._identity import find_authentication
from alula._service import ServiceHandle
from alula.express._middleware._debug_page import DebugPage
from alula.express._request import Request
from alula.hooks import hook_metadata
from alula.outgoing._text import escape_html

__all__ = ["open_services", "other_pages", "start_page"]

_DOCS_SETTING: Final = "openapi docs"
"""The setting with the path of the API documentation, which `alula.openapi` sets."""

_OPENAPI_SETTING: Final = "openapi"
"""The setting with the OpenAPI information, such as the title, which `alula.openapi` sets."""


def open_services(app: Any) -> list[ServiceHandle]:
    """Return the handles of the services that clients can call."""
    return [handle for handle in getattr(app, "services", {}).values() if handle.methods]


def other_pages(app: Any) -> list[str]:
    """Return the paths that are no services: of the documentation, and of health checks."""
    docs = app.settings.get(_DOCS_SETTING)
    return [*([docs] if docs else []), *sorted(app.early_paths)]


def start_page(req: Request) -> DebugPage:
    """Return the page, as it is for the application of a request."""
    settings = req.app.settings
    info: dict[str, Any] | None = settings.get(_OPENAPI_SETTING)
    docs = settings.get(_DOCS_SETTING)
    services = open_services(req.app)
    link = f'<a class="button" href="{escape_html(docs or "")}">Open the documentation</a>'
    return DebugPage(
        title=str(info["title"] if isinstance(info, dict) else "Alula"),
        body="\n".join(_sections(req, services)) if services else _NO_SERVICES,
        aside=link if docs else "",
        footer="Only debug mode shows this page, and only if nothing else responds to"
        " <code>GET /</code>.\nOtherwise it is a 404.",
    )


def _sections(req: Request, services: Sequence[ServiceHandle]) -> Iterator[str]:
    yield "<h2>Services</h2>"
    yield '<ul class="services">'
    for handle in services:
        path = f"/{escape_html(handle.path)}"
        name = f"<code>{path}</code>"
        if _has_list(handle):
            watch = escape_html(quote(handle.path))
            name = f'<a href="{path}">{name}</a> <a class="watch" href="/?live={watch}">watch</a>'
        methods = escape_html(", ".join(handle.methods))
        yield f'<li><span>{name}</span><span class="soft">{methods}</span></li>'
    yield "</ul>"
    if servers := req.app.channel_registry.servers:
        yield '<h2>Real time</h2>\n<ul class="services">'
        for server in servers:
            title = f'<span class="soft">{escape_html(server.title)}</span>'
            yield f"<li><span><code>{escape_html(server.path)}</code></span>{title}</li>"
        yield "</ul>"
    base = f"{req.protocol}://{req.headers.get('host') or 'localhost:3030'}"
    yield "<h2>From a terminal</h2>"
    yield f"<pre>{escape_html(chr(10).join(_commands(req.app, base, services)))}</pre>"
    if pages := other_pages(req.app):
        yield '<h2>Also here</h2>\n<ul class="pages">'
        yield from (
            f'<li><a href="{escape_html(page)}">{escape_html(page)}</a></li>' for page in pages
        )
        yield "</ul>"


def _has_list(handle: ServiceHandle) -> bool:
    return "find" in handle.methods and ":" not in handle.path


def _commands(app: Any, base: str, services: Sequence[ServiceHandle]) -> Iterator[str]:
    """Yield commands of which the last one finds records, also if one has to sign in for that."""
    lists = [handle for handle in services if _has_list(handle)]
    free = [handle for handle in lists if not _needs_sign_in(handle)]
    authentication = None if free or not lists else find_authentication(app)
    entities = None if authentication is None else authentication.entities
    if authentication is None or entities is None or "local" not in authentication.strategies:
        example = (free or lists or services)[0]
        yield f"curl {base}/{quote(example.path)}"
        return
    strategy = authentication.strategy("local")
    user = {strategy.username_field: "ada@example.com"}
    user[strategy.password_field] = "correct horse battery"
    if "create" in app.service(entities.path).methods:
        yield _post(f"{base}/{quote(entities.path)}", user)
    path = quote(app.settings.get("authentication") or "authentication")
    sign_in = _post(f"{base}/{path}", {"strategy": "local", **user})
    yield f'TOKEN=$({sign_in} |\n  grep -o \'"accessToken":"[^"]*\' | cut -d \'"\' -f 4)'
    # The last one is most often what the application is about.
    yield f'curl -sS {base}/{quote(lists[-1].path)} -H "Authorization: Bearer $TOKEN"'


def _needs_sign_in(handle: ServiceHandle) -> bool:
    hooks = [
        hook_metadata(hook)
        for table in (handle.app.hook_table, handle.hook_table)
        for kind in ("around", "before")
        for hook in table.of(kind, "find")
    ]
    return any("strategies" in each and not each.get("is_optional") for each in hooks)


def _post(url: str, data: Mapping[str, str]) -> str:
    lines = (f"curl -sS {url}", "-H 'Content-Type: application/json'", f"-d '{json.dumps(data)}'")
    return " \\\n  ".join(lines)


_NO_SERVICES: Final = """<p>It runs. There are no services yet; this line adds the first:</p>
<pre>app.use("messages", MemoryService())</pre>"""
