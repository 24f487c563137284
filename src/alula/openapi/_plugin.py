"""`openapi`: a plugin that serves the descriptions, and a page that shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from alula._service_facts import state_of
from alula.outgoing._text import escape_html

if TYPE_CHECKING:
    from alula.express import ExpressApplication, Request, Response

__all__ = ["SETTING", "openapi"]

Handler: TypeAlias = "Callable[[Request, Response], None]"

SETTING: Final = "openapi"
"""The setting of the application that holds the arguments of the plugin."""

SERVER_SETTING: Final = "openapi server"
"""The setting that holds the URL of the application."""

ERROR_SETTING: Final = "openapi error"
"""The setting that holds the type of the bodies of errors."""

DOCS_SETTING: Final = "openapi docs"
"""The setting that holds the path of the page."""

# The page loads nothing from other hosts, and no text of a description can run as a script.
_POLICY: Final = "default-src 'self'; img-src data:; frame-ancestors 'self'"
_FOLDER: Final = Path(__file__).parent / "page"
_FILES: Final = {
    "page.js": "text/javascript",
    "calls.js": "text/javascript",
    "schemas.js": "text/javascript",
    "page.css": "text/css",
}


def openapi(
    *,
    title: str = "API",
    version: str = "1.0.0",
    description: str | None = None,
    path: str = "/openapi.json",
    docs: str | None = "/docs",
    events: str | None = "/asyncapi.json",
    server: str | None = None,
    error: object = None,
) -> Callable[[ExpressApplication], None]:
    """Return the plugin that describes an application: ``app.configure(openapi(title="Chat"))``.

    The description is made at the first request, and again after services, methods or hooks have
    changed: it is never out of date. Configure it before a middleware that ends every request, such
    as ``not_found()``.

    Where a transport of `alula.realtime` is configured, the events of the services are described
    in AsyncAPI 3.0, at a path of its own.

    Examples:
        >>> from alula import App
        >>> from alula.express import express
        >>> app = express(App())
        >>> _ = app.configure(openapi(title="Chat", docs=None))

    Args:
        title: The name of the API.
        version: The version of the API.
        description: What it is about, in Markdown.
        path: The path of the description.
        docs: The path of the page that shows it, None for no page. In debug mode, `client.ts` and
            `client.d.ts` below it are the `typescript` client and its types.
        events: The path of the description of events, None for no such description.
        server: The URL of the application for clients, such as ``"https://example.com/api"``. None
            takes the folder of the description: below the prefix of a proxy, clients that read the
            description from its URL call the right address.
        error: The type of the bodies of errors, such as a Pydantic model, where a middleware of
            the application writes them. None describes the errors of Alula.

    Raises:
        TypeError: ``error`` is not a type that Pydantic knows. By the plugin: ``express(App())``
            did not make the application.
    """
    if error is not None:
        from alula.openapi._declared_schemas import error_schema  # noqa: PLC0415  # in openapi()

        error_schema(error)  # a wrong type is an error now, not at the first request
    arguments: dict[str, Any] = {"title": title, "version": version, "description": description}

    def configure(app: ExpressApplication) -> None:
        # Not above: descriptions can be made where no web server is installed.
        from alula.express import ExpressApplication  # noqa: PLC0415  # loaded where it is needed

        if not isinstance(app, ExpressApplication):
            raise TypeError(f"openapi() configures what express(App()) returns, not {app!r}")
        app.set(SETTING, arguments)
        app.set(SERVER_SETTING, server)
        app.set(ERROR_SETTING, error)

        def describe_all() -> dict[str, Any]:
            from alula.openapi._document import describe  # noqa: PLC0415  # at the first request

            # Relative to the URL of the description, as the standard has it.
            root = "/".join([".."] * (path.count("/") - 1)) or "."
            description = describe(app, **arguments, server=server or root, error=error)
            if events is not None and app.channel_registry.servers:
                # Relative, as the link on the page: a proxy may serve the application elsewhere.
                link = "../" * (path.count("/") - 1) + events.lstrip("/")
                about = {"description": "The events, in AsyncAPI", "url": link}
                description["externalDocs"] = about
            return description

        app.get(path, _Description(app, describe_all).send)
        if events is not None:
            _serve_events(app, events, arguments)
        if docs is not None:
            docs_path = "/" + docs.strip("/")
            _serve_page(app, docs_path, path, title)
            app.get(f"{docs_path}/client.ts", _typescript_handler(app, title, declarations=False))
            app.get(f"{docs_path}/client.d.ts", _typescript_handler(app, title, declarations=True))

    return configure


def _serve_events(app: ExpressApplication, path: str, arguments: Mapping[str, Any]) -> None:
    """Serve the description of events, where the application has any."""

    def describe_all() -> dict[str, Any]:
        from alula.openapi._asyncapi import describe_events  # noqa: PLC0415  # slow to load

        return describe_events(app, **arguments)

    described = _Description(app, describe_all)

    def send(req: Request, res: Response, next: Callable[[], Any]) -> Any:
        return described.send(req, res) if app.channel_registry.servers else next()

    app.get(path, send)


def _typescript_handler(
    app: ExpressApplication, title: str, *, declarations: bool
) -> Callable[[Request, Response, Callable[[], Any]], Any]:
    """Return the handler that sends the client for TypeScript to developers."""

    def describe_client() -> str:
        from alula.openapi._typescript import typescript  # noqa: PLC0415  # as in openapi()

        return typescript(app, title=title, declarations=declarations)

    described = _Description(app, describe_client)

    def send(req: Request, res: Response, next: Callable[[], Any]) -> Any:
        if not app.debug:
            return next()
        # Its own type, `application/typescript`, would make browsers download it.
        return described.send(req, res.set("X-Content-Type-Options", "nosniff"), "text/plain")

    return send


class _Description:
    """A description, ready to be sent. It is slow to make, so it is kept until something changes.

    Args:
        app: The application.
        describe: Makes it: an object for JSON, or text.
    """

    def __init__(
        self, app: ExpressApplication, describe: Callable[[], dict[str, Any] | str]
    ) -> None:
        self._app, self._describe = app, describe
        self._state: object = None
        self._body, self._tag = b"", ""

    def send(self, req: Request, res: Response, content_type: str = "application/json") -> None:
        """Respond with it, or with a 304 to a client that has it."""
        handles = self._app.services.values()
        state = [*self._app.channel_registry.servers, *map(state_of, handles)]
        if state != self._state:
            from alula._json_encoding import dumps  # noqa: PLC0415  # as in openapi()

            made = self._describe()
            self._body = made.encode() if isinstance(made, str) else dumps(made)
            self._tag = f'"{sha256(self._body).hexdigest()[:32]}"'
            self._state = state
        # Browsers keep it, but ask each time whether a deployment has changed it.
        res.set("ETag", self._tag).set("Cache-Control", "no-cache")
        # A proxy that compresses makes the tag a weak one.
        if self._tag in (req.get("if-none-match") or "").replace("W/", "").split(", "):
            res.status(304).end()
        else:
            res.type(content_type).send(self._body)


def _serve_page(app: ExpressApplication, docs: str, description: str, title: str) -> None:
    """Serve the page with its scripts and style, which are read when the plugin is configured."""
    app.set(DOCS_SETTING, docs)
    page = (_FOLDER / "page.html").read_text(encoding="utf-8")
    values = {
        "title": title,
        "docs": docs,
        "folder": docs.rpartition("/")[2],
        "description": description,
        # Relative: a proxy may serve the application below a prefix.
        "link": "../" * (docs.count("/") - 1) + description.lstrip("/"),
    }
    for name, value in values.items():
        page = page.replace(f"{{{name}}}", escape_html(value))

    def sends(content_type: str, content: str) -> Handler:
        def send(_req: Request, res: Response) -> None:
            res.set("Content-Security-Policy", _POLICY).set("X-Content-Type-Options", "nosniff")
            res.type(content_type).send(content)

        return send

    app.get(docs, sends("text/html", page))
    for name, content_type in _FILES.items():
        content = (_FOLDER / name).read_text(encoding="utf-8")
        app.get(f"{docs}/{name}", sends(content_type, content))
