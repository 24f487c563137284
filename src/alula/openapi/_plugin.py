"""The plugin: two addresses, one for programs and one for people."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from alula._service import ServiceHandle
from alula.openapi._document import describe

if TYPE_CHECKING:
    from alula.express import ExpressApplication

__all__ = ["SETTING", "openapi"]

SETTING: Final = "openapi"
"""The setting of the application that keeps what the plugin was told."""

DOCS_SETTING: Final = "openapi docs"
"""The setting that keeps the path of the page, for whoever says where it is."""

# Nothing of the page comes from elsewhere, and nothing that a description says can run.
_POLICY: Final = "default-src 'self'; img-src data:; frame-ancestors 'self'"
_FOLDER: Final = Path(__file__).parent / "page"


def openapi(
    *,
    title: str = "API",
    version: str = "1.0.0",
    description: str | None = None,
    path: str = "/openapi.json",
    docs: str | None = "/docs",
) -> Callable[[ExpressApplication], None]:
    """Return the plugin that describes an application: ``app.configure(openapi(title="Chat"))``.

    The description is made when it is asked for, and again once services, methods or hooks have
    changed, so that services which are registered later are in it. Configure it before a
    middleware that ends every request, such as ``not_found()``.

    Args:
        title: What the API is called.
        version: The version of the API.
        description: What it is about, in Markdown.
        path: Where the description is.
        docs: Where the page is that shows it, None for no page.

    Raises:
        TypeError: By the plugin: the application is not made by ``express(App())``.
    """
    about: dict[str, Any] = {"title": title, "version": version, "description": description}

    def configure(app: ExpressApplication) -> None:
        # Not above: descriptions can be made where no web server is installed.
        from alula.express import ExpressApplication  # noqa: PLC0415  # loaded where it is needed

        if not isinstance(app, ExpressApplication):
            raise TypeError(f"openapi() configures what express(App()) returns, not {app!r}")
        app.set(SETTING, about)

        made = _Description(app, about)

        def answer(req: Any, res: Any) -> None:
            body, tag = made.current()
            res.set("ETag", tag).set("Cache-Control", "no-cache")
            if tag in (req.get("if-none-match") or "").replace("W/", "").split(", "):
                res.status(304).end()
            else:
                res.type("application/json").send(body)

        app.get(path, answer)
        if docs is not None:
            _serve_page(app, docs, path, title)

    return configure


class _Description:
    """The description as it is sent, which takes long to make and is made once.

    Args:
        app: The application.
        about: Its title and the like.
    """

    def __init__(self, app: Any, about: dict[str, Any]) -> None:
        self._app, self._about = app, about
        self._made_of: Any = None
        self._made = b"", ""

    def current(self) -> tuple[bytes, str]:
        """Return the description in JSON, and its entity tag."""
        made_of = [_state_of(handle) for handle in self._app.services.values()]
        if made_of != self._made_of:
            from alula.express._json_encoding import dumps  # noqa: PLC0415  # as in openapi()

            body = dumps(describe(self._app, **self._about))
            self._made = body, f'"{sha256(body).hexdigest()[:32]}"'
            self._made_of = made_of
        return self._made


def _state_of(handle: ServiceHandle) -> tuple[Any, ...]:
    """Return what is different once there is something else to say about a service."""
    service = handle.service
    inner: Any = ()
    if isinstance(service, ServiceHandle):
        inner = _state_of(service)
    elif hasattr(service, "strategies"):
        inner = tuple(service.strategies)
    changes = handle.app.hook_table.changes, handle.hook_table.changes
    return handle, handle.methods, changes, inner


def _serve_page(app: ExpressApplication, docs: str, description: str, title: str) -> None:
    """Serve the page and what belongs to it, which are read when the plugin is configured."""
    page, script, style = (
        (_FOLDER / name).read_text(encoding="utf-8")
        for name in ("page.html", "page.js", "page.css")
    )
    docs = "/" + docs.strip("/")
    app.set(DOCS_SETTING, docs)
    steps = docs.count("/") - 1
    values = {
        "title": title,
        "docs": docs,
        "folder": docs.rpartition("/")[2],
        "description": description,
        "link": "../" * steps + description.lstrip("/"),
    }
    for name, value in values.items():
        page = page.replace(f"{{{name}}}", escape(value))

    def serve(kind: str, content: str) -> Callable[[Any, Any], None]:
        def answer(_: Any, res: Any) -> None:
            res.set("Content-Security-Policy", _POLICY).set("X-Content-Type-Options", "nosniff")
            res.type(kind).send(content)

        return answer

    app.get(docs, serve("text/html", page))
    app.get(f"{docs}/page.js", serve("text/javascript", script))
    app.get(f"{docs}/page.css", serve("text/css", style))
