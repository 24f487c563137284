"""The application: services by path, hooks around all of them, settings, start and stop.

It wires and does nothing else, and works without any web server.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, Self

from alula.compose import compose
from alula.events import EventEmitter
from alula.hooks import Hookable
from alula.routes import Match, RouteTable, strip_slashes
from alula.service import ServiceHandle
from alula.types import STANDARD_METHODS

__all__ = ["App"]

_log = logging.getLogger("alula")
_LIFE = ("setup", "teardown")


class App(EventEmitter, Hookable):
    """Named services and what surrounds them.

    Args:
        debug: Whether clients see the messages of unexpected errors. None reads the environment
            variable ``ALULA_DEBUG``.

    Attributes:
        settings: Settings by name.
        services: Handles by path.
    """

    def __init__(self, debug: bool | None = None) -> None:
        EventEmitter.__init__(self)
        Hookable.__init__(self)
        if debug is None:
            debug = os.environ.get("ALULA_DEBUG", "").lower() in {"1", "true", "yes", "on"}
        self.settings: dict[str, Any] = {}
        self.services: dict[str, ServiceHandle] = {}
        self.debug = debug
        self._routes: RouteTable[ServiceHandle] = RouteTable()
        self._life_hooks: dict[str, list[Callable[..., Any]]] = {name: [] for name in _LIFE}
        self._setup: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"the application ({len(self.services)} services)"

    # -- settings ------------------------------------------------------------------------------

    def set(self, name: str, value: Any) -> Self:
        """Set a setting."""
        self.settings[name] = value
        return self

    def get(self, name: str) -> Any:
        """Return a setting, None where it was never set."""
        return self.settings.get(name)

    def configure(self, function: Callable[[Self], Any]) -> Self:
        """Call ``function`` with the application: a plugin registers what it brings.

        Raises:
            TypeError: The function is asynchronous; it could not be waited for here.
        """
        result = function(self)
        if hasattr(result, "__await__"):
            if asyncio.iscoroutine(result):
                result.close()
            raise TypeError(
                f"configure({function!r}): plugins are plain functions; do asynchronous"
                " work in a `setup` hook"
            )
        return self

    # -- services ------------------------------------------------------------------------------

    def use(
        self,
        path: str,
        service: Any,
        *,
        methods: Iterable[str] | None = None,
        events: Iterable[str] | None = None,
    ) -> Self:
        """Register a service, or all services of another application below a path.

        Args:
            path: Its name; a segment ``:name`` is a placeholder, and arrives in ``params.route``.
            service: An object with service methods, or an `App`.
            methods: What is open to the outside, custom methods included. None opens the standard
                methods that the object has; an empty list closes it.
            events: Custom events that it emits.

        Raises:
            TypeError: The object can not be a service.
            ValueError: The path is taken, or a listed method does not exist.
        """
        path = strip_slashes(path)
        if isinstance(service, App):
            for below, handle in service.services.items():
                self.use(f"{path}/{below}", handle, methods=handle.methods)
            return self
        handle = ServiceHandle(
            self, path, service, methods=methods, events=events, app_hooks=self.hook_table
        )
        try:
            self._routes.add(path, handle)
        except ValueError as error:
            raise ValueError(f"can not register a service at {path!r}: {error}") from None
        self.services[path] = handle
        if self._setup is not None and callable(getattr(service, "setup", None)):
            handle.start_late(lambda: self._call_life("setup", handle))
            self._start_now(handle)
        return self

    def service(self, path: str) -> ServiceHandle:
        """Return the handle of the service at a path.

        Raises:
            LookupError: There is none.
        """
        handle = self.services.get(path) or self.services.get(strip_slashes(path))
        if handle is None:
            from difflib import get_close_matches  # noqa: PLC0415  # only a typo pays its import

            near = get_close_matches(path, self.services, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise LookupError(f"there is no service at {path!r}{hint}")
        return handle

    def lookup(self, path: str) -> Match[ServiceHandle] | None:
        """Return the service, id and route values that a request path names, None for nowhere."""
        return self._routes.find(path)

    async def unuse(self, path: str) -> Any:
        """Take a service away, tear it down, and return the object that was registered.

        Raises:
            LookupError: There is no service at the path.
        """
        handle = self.service(path)
        del self.services[handle.path]
        self._routes.remove(handle.path)
        if self._setup is not None:
            await self._call_life("teardown", handle)
        await handle.drain()
        return handle.service

    # -- hooks ---------------------------------------------------------------------------------

    def hooks(self, hooks: Any = None, /, **kinds: Any) -> None:
        """Register hooks around the methods of all services, or around start and stop.

        As `Hookable.hooks`, and beside it ``setup=[...]`` and ``teardown=[...]``: functions of
        ``(context, next)`` whose context has ``app`` and ``server``.
        """
        given = {**hooks, **kinds} if isinstance(hooks, Mapping) else dict(kinds)
        if isinstance(hooks, list | tuple):
            given["around"] = [*hooks, *given.get("around", ())]
        for name in _LIFE:
            life = given.pop(name, [])
            self._life_hooks[name].extend(life if isinstance(life, list | tuple) else [life])
        super().hooks(given)

    def hook_methods(self) -> Collection[str]:
        """Return the standard methods, and the custom ones of the services registered so far."""
        custom = (name for handle in self.services.values() for name in handle.hook_methods())
        return tuple(dict.fromkeys((*STANDARD_METHODS, *custom)))

    def _hooks_changed(self) -> None:
        for handle in self.services.values():
            handle.app_hooks_changed()

    # -- start and stop ------------------------------------------------------------------------

    async def setup(self, server: Any = None) -> Self:
        """Call ``setup(app, path)`` of every service, in the order of their registration.

        A second call waits for the first and does nothing more. Services that are registered
        later are set up then; calls to them wait for that.

        Args:
            server: The server that is running, for `setup` hooks.
        """
        if self._setup is not None:
            await asyncio.shield(self._setup)
            return self
        self._setup = asyncio.get_running_loop().create_future()
        try:
            await self._run_life("setup", list(self.services.values()), server)
        except BaseException as error:
            waiting, self._setup = self._setup, None
            waiting.set_exception(error)
            waiting.exception()  # marked as seen: this very call raises it
            raise
        self._setup.set_result(None)
        return self

    async def teardown(self) -> Self:
        """Call ``teardown(app, path)`` of every service in reverse order; wait for listeners."""
        if self._setup is None:
            return self
        self._setup = None
        await self._run_life("teardown", list(reversed(self.services.values())), None)
        for handle in self.services.values():
            await handle.drain()
        await self.drain()
        return self

    async def _run_life(self, name: str, handles: list[ServiceHandle], server: Any) -> None:
        async def each(_: Any) -> None:
            for handle in handles:
                await self._call_life(name, handle)

        context = SimpleNamespace(app=self, server=server, method=name)
        await compose(self._life_hooks[name], each)(context)

    async def _call_life(self, name: str, handle: ServiceHandle) -> None:
        function: Any = getattr(handle.service, name, None)
        if callable(function) and not isinstance(handle.service, ServiceHandle):
            result: Any = function(self, handle.path)
            if hasattr(result, "__await__"):
                await result

    def _start_now(self, handle: ServiceHandle) -> None:
        """Begin the set-up of a late service at once where a loop is running."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return  # the first call will begin it
        task = asyncio.ensure_future(handle.started())
        self._running.add(task)
        task.add_done_callback(self._report_start)

    def _report_start(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error(
                "a service that was registered late failed to set up", exc_info=task.exception()
            )
