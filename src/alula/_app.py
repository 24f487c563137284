"""The application: services by path, hooks around all of them, settings, start and stop.

It wires and does nothing else, and works without any web server.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

from alula._events import EventEmitter
from alula._routes import Match, RouteTable, strip_slashes
from alula._service import ServiceHandle
from alula._user_code import name_of
from alula.hooks import Hookable, check_hook, compose
from alula.types import EVENT_OF_METHOD, STANDARD_METHODS, UNSET

__all__ = ["App"]

_log = logging.getLogger("alula")
_LIFE = ("setup", "teardown")
_OF_THE_WEB = frozenset({"run", "listen", "serve", "post", "put", "patch", "delete", "all"})
_HINT = (
    "middleware and routes belong to a web application: app = express(App()), with"
    " `from alula.express import express`"
)


class App(EventEmitter, Hookable):
    """Named services and what surrounds them.

    Args:
        debug: Whether clients see the messages of unexpected errors. None reads the environment
            variable ``ALULA_DEBUG``.

    Attributes:
        settings: Settings by name.
        services: Handles by path.
        routes: The same with their placeholders, as requests find them.
        front: What services and hooks get as the application: itself, or what `express` made of it.
        is_ready: Whether `setup` has finished, and `teardown` not begun since.

    Raises:
        TypeError: ``debug`` is not True, False or None.
    """

    def __init__(self, debug: bool | None = None) -> None:
        EventEmitter.__init__(self)
        Hookable.__init__(self)
        if debug is None:
            debug = os.environ.get("ALULA_DEBUG", "").lower() in {"1", "true", "yes", "on"}
        elif not isinstance(debug, bool):  # App(__name__) would show clients what failed
            raise TypeError(f"App(debug) is True, False or None, not {debug!r}; write App()")
        self.settings: dict[str, Any] = {}
        self.front: Any = self
        self.services: dict[str, ServiceHandle] = {}
        self.debug = debug
        self.routes: RouteTable[ServiceHandle] = RouteTable()
        self._life_hooks: dict[str, list[Callable[..., Any]]] = {name: [] for name in _LIFE}
        self._is_set_up = False
        self.is_ready = False
        self._up: dict[ServiceHandle, None] = {}  # in the order of their set-up
        self._life = asyncio.Lock()  # for one setup or teardown at a time
        self._life_task: asyncio.Task[Any] | None = None

    def __repr__(self) -> str:
        return f"the application ({len(self.services)} services)"

    if not TYPE_CHECKING:  # for checkers, app.run(3030) is a mistake

        def __getattr__(self, name: str) -> Any:
            hint = ""
            if name in _OF_THE_WEB:
                hint = (
                    "; it serves no HTTP by itself. Make a web application of it:"
                    " app = express(App()), with `from alula.express import express`"
                )
            elif name in self.__dict__.get("services", {}):
                hint = f"; the service is at app.service({name!r})"
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r}{hint}", name=name
            )

    def present_as(self, front: Any) -> None:
        """Let services and hooks get ``front`` as the application; `express` calls this."""
        self.front = front
        for handle in self.services.values():
            handle.app = front

    # -- settings ------------------------------------------------------------------------------

    def set(self, name: str, value: Any) -> Self:
        """Set a setting."""
        self.settings[name] = value
        return self

    def get(self, name: str, *handlers: Any) -> Any:
        """Return a setting, None where it was never set.

        Raises:
            TypeError: This is a route, which belongs to a web application.
        """
        if handlers or not isinstance(name, str) or name.startswith("/"):
            raise TypeError(f"get({name!r}, ...) is a route; {_HINT}")
        return self.settings.get(name)

    def configure(self, function: Callable[[Self], Any]) -> Self:
        """Call ``function`` with the application: a plugin registers what it brings.

        Raises:
            TypeError: It is no function, or asynchronous; that could not be waited for here.
        """
        if not callable(function):
            raise TypeError(
                f"configure({function!r}): a plugin is a function that takes the application, and"
                " that is called here, not before"
            )
        try:
            inspect.signature(function).bind("app")
        except ValueError:  # built-in functions may have no signature to look at
            pass
        except TypeError:
            raise TypeError(
                f"configure({name_of(function)}): a plugin is a function of (app); middleware is"
                " registered by app.use(middleware)"
            ) from None
        result = function(self)
        if hasattr(result, "__await__"):
            if asyncio.iscoroutine(result):
                result.close()
            raise TypeError(
                f"configure({name_of(function)}): plugins are plain functions; do asynchronous"
                " work in a `setup` hook"
            )
        return self

    # -- services ------------------------------------------------------------------------------

    def use(
        self,
        path: str,
        service: Any = UNSET,
        *,
        methods: Iterable[str] | None = None,
        events: Iterable[str] | None = None,
    ) -> Self:
        """Register a service, or all services of another application below a path.

        The hooks of both applications run around a service of another application, this one's
        outside; the other is set up and torn down by a call of its own.

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
        if not isinstance(path, str):
            raise TypeError(f"use(path, service) takes a path first, not {path!r}; {_HINT}")
        if service is UNSET:
            raise TypeError(f"use({path!r}) has no service: use({path!r}, service)")
        path = strip_slashes(path)
        if isinstance(service, App):
            if methods is not None or events is not None:
                raise TypeError(
                    f"the services of the application at {path!r} have methods and events of their"
                    " own; give these where the services are registered"
                )
            below = list(service.services.items())
            handles = [self._handle(f"{path}/{name}", handle) for name, handle in below]
        else:
            handles = [self._handle(path, service, methods, events)]
        self._register(handles)
        return self

    def _handle(self, path: str, service: Any, methods: Any = None, events: Any = None) -> Any:
        path = strip_slashes(path)
        return ServiceHandle(
            self.front, path, service, methods=methods, events=events, app_hooks=self.hook_table
        )

    def _register(self, handles: list[ServiceHandle]) -> None:
        """Register handles, all of them or none."""
        for at, handle in enumerate(handles):
            try:
                self.routes.add(handle.path, handle)
            except ValueError as error:
                for added in handles[:at]:
                    self.routes.remove(added.path)
                raise ValueError(f"cannot register a service at {handle.path!r}: {error}") from None
        for handle in handles:
            self.services[handle.path] = handle
            if isinstance(handle.service, ServiceHandle):
                handle.service.attach(handle)
            if self._is_set_up and callable(getattr(handle.service, "setup", None)):
                handle.defer_setup(partial(self._set_up, handle))
            elif self._is_set_up:
                self._up[handle] = None

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
        found = self.routes.find(path)
        return None if found is None else Match(*found)

    async def unuse(self, path: str) -> Any:
        """Take a service away, tear it down, and return the object that was registered.

        Raises:
            LookupError: There is no service at the path.
        """
        handle = self.service(path)
        del self.services[handle.path]
        self.routes.remove(handle.path)
        if isinstance(handle.service, ServiceHandle):
            handle.service.detach(handle)
        await handle.drain()
        if handle in self._up:
            del self._up[handle]
            await _call_life("teardown", self, handle)
            await handle.drain()
        return handle.service

    def _check_event(self, event: str) -> None:
        if event in EVENT_OF_METHOD.values():
            raise ValueError(
                f"an application emits no {event!r}, its services do; listen to one of them:"
                f" app.service(path).on({event!r}, listener)"
            )

    # -- hooks ---------------------------------------------------------------------------------

    def _add_hooks(self, hooks: dict[str, Any]) -> None:
        """Register hooks; ``setup`` and ``teardown`` are functions of ``(context, next)``."""
        life = {name: hooks.pop(name) for name in _LIFE if name in hooks}
        life = {k: list(v) if isinstance(v, list | tuple) else [v] for k, v in life.items()}
        for name, functions in life.items():
            for function in functions:
                check_hook(name, function, repr(self))
        super()._add_hooks(hooks)
        for name, functions in life.items():
            self._life_hooks[name].extend(functions)

    def hook_methods(self) -> Collection[str]:
        """Return the standard methods, and the custom ones of the services registered so far."""
        custom = (name for handle in self.services.values() for name in handle.hook_methods())
        return tuple(dict.fromkeys((*STANDARD_METHODS, *custom)))

    def compose_hooks(self) -> None:
        for handle in self.services.values():
            handle.compose_hooks()

    # -- start and stop ------------------------------------------------------------------------

    async def setup(self, server: Any = None) -> Self:
        """Call ``setup(app, path)`` of every service, in the order of their registration.

        A second call waits for the first and does nothing more. Services that are registered
        later are set up then; calls to them wait for that. Where a set-up fails, those that
        succeeded are torn down again, so that nothing stays open; ``setup`` can be called again.

        Args:
            server: The server that is running, for `setup` hooks.

        Raises:
            Exception: Whatever a service or a `setup` hook raises.
            RuntimeError: A `setup` hook did not await ``next()``, or this is called from within.
        """
        async with self._one_at_a_time():
            if not self._is_set_up:
                self._is_set_up = True  # what is registered from here on is late
                try:
                    await self._run_life("setup", self._set_up_all, server)
                    self.is_ready = True
                except BaseException:
                    await self._abandon()
                    raise
        return self

    async def teardown(self) -> Self:
        """Wait for listeners, then call ``teardown(app, path)`` of services in reverse order.

        A service that fails does not keep the others from being torn down.

        Raises:
            Exception: Whatever a service or a `teardown` hook raises, in an `ExceptionGroup` where
                several fail.
            RuntimeError: A `teardown` hook did not await ``next()``, or this is called from within.
        """
        async with self._one_at_a_time():
            self.is_ready = False
            was_up, self._is_set_up = self._is_set_up or bool(self._up), False
            await self._drain_all()
            if was_up:
                await self._run_life("teardown", self._tear_down_all, None)
                await self._drain_all()
        return self

    @asynccontextmanager
    async def _one_at_a_time(self) -> AsyncIterator[None]:
        task = asyncio.current_task()
        if self._life_task is task:
            raise RuntimeError("setup() and teardown() of an application can not call each other")
        async with self._life:
            self._life_task = task
            try:
                yield
            finally:
                self._life_task = None

    async def _run_life(self, name: str, core: Callable[[], Any], server: Any) -> None:
        reached = False

        async def last(_: Any) -> None:
            nonlocal reached
            reached = True
            await core()

        context = SimpleNamespace(app=self.front, server=server, method=name)
        await compose(self._life_hooks[name], last)(context)
        if not reached:
            raise RuntimeError(f"a {name} hook of {self!r} did not await next()")

    async def _set_up_all(self) -> None:
        for path, handle in list(self.services.items()):
            if handle not in self._up and self.services.get(path) is handle:
                await self._set_up(handle)
        for handle in list(self.services.values()):
            await handle.wait_for_setup()  # those that the set-up of others registered

    async def _set_up(self, handle: ServiceHandle) -> None:
        await _call_life("setup", self, handle)
        self._up[handle] = None

    async def _tear_down_all(self) -> None:
        failed: list[Exception] = []
        while self._up:
            handle = next(reversed(self._up))
            try:
                await _call_life("teardown", self, handle)
            except Exception as error:  # noqa: BLE001  # raised below, after the others
                failed.append(error)
            self._up.pop(handle, None)
        if len(failed) == 1:
            raise failed[0]
        if failed:
            raise ExceptionGroup("several services failed to tear down", failed)

    async def _abandon(self) -> None:
        """Take back a set-up that failed half-way; its error is the one to raise."""
        self._is_set_up = False
        await self._drain_all()
        try:
            await self._tear_down_all()
        except Exception:  # noqa: BLE001  # it is in the log, and must not hide the first
            _log.exception("teardown failed too, after setup had failed")

    async def _drain_all(self) -> None:
        for handle in list(self.services.values()):
            await handle.drain()
            handle.forget_setup()
        await self.drain()


async def _call_life(name: str, app: App, handle: ServiceHandle) -> None:
    function: Any = getattr(handle.service, name, None)
    result: Any = function(app.front, handle.path) if callable(function) else None
    if hasattr(result, "__await__"):
        await result
