"""`api`: an application that has the parts which nearly every application needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from alula._app import App
from alula.express._application import ExpressApplication, express
from alula.express._body_parsing import json
from alula.express._chain import Phase
from alula.express._middleware.error_handler import error_handler
from alula.express._middleware.not_found import not_found
from alula.express._rest import rest
from alula.types import Paths

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["api"]


@overload
def api(app: None = None, existing_app: Starlette | None = None) -> ExpressApplication: ...
@overload
def api(app: App[Paths], existing_app: Starlette | None = None) -> ExpressApplication[Paths]: ...
def api(app: App | None = None, existing_app: Starlette | None = None) -> ExpressApplication:
    """Make an application with JSON bodies, services over REST, 404 and error handling.

    What is registered later runs in its place, in whatever order: body parsers, then middleware
    and routes, then services, then files and handlers of all other paths, then the 404, and at
    last error middleware. Middleware that reads no bodies, such as `cors` and `access_log`, comes
    before the parsers. Within a place, the order of registration counts.

    Register a part of your own to replace a ready one: ``app.use(json(limit="5mb"))``,
    ``app.configure(rest(formatter))``, ``app.use(not_found(verbose=True))``,
    ``app.use(error_handler(html=False))``. Where the order must be another, build the application
    by `express`.

    Examples:
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.express import api
        >>> app = api().use("messages", MemoryService())

    Args:
        app: An `App` of your own. None makes one.
        existing_app: A Starlette or FastAPI application to extend, as in `express`.

    Raises:
        TypeError: As `express`.
        RuntimeError: As `express`.
        ValueError: As `express`.
    """
    web: ExpressApplication = express(App() if app is None else app, existing_app)
    web.steps.has_phases = True
    web.use(json()).configure(rest()).use(not_found(), error_handler())
    web.steps.replaceable |= {
        Phase.CREDENTIALS,
        Phase.SERVICES,
        Phase.NOT_FOUND,
        Phase.ERROR_HANDLER,
    }
    return web
