"""Liveness and readiness probes, for what starts, watches and stops servers.

Liveness says that the process responds, and nothing else. A process that fails it is killed, which
does not help against a database that is down. Readiness says whether to send requests here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from alula._user_code import name_of
from alula.express._chain import NextFunction, Step, never
from alula.express._request import Request
from alula.express._response import Response
from alula.express._web_application import WebApplication

__all__ = ["Check", "Checks", "health"]

Check: TypeAlias = Callable[[], object]
"""A function, plain or asynchronous, that raises or returns False if something is missing."""

HEALTH_NOTES: Final = "health notes"
"""The setting with what else readiness reports, functions by name. If one returns anything but
``"ok"``, the application is degraded: it works, and requests go on being sent to it."""

_UNAVAILABLE: Final = frozenset({"starting", "draining", "failed"})

_log: Final = logging.getLogger("alula.health")


def health(
    *,
    checks: Mapping[str, Check] | None = None,
    live: str | None = "/health/live",
    ready: str | None = "/health/ready",
    timeout: float = 2,
) -> Callable[[WebApplication], None]:
    """Return the plugin that responds to health probes: ``app.configure(health())``.

    Liveness is always a 200. Readiness is a 200, or a 503 during setup, while draining, and if a
    check fails: ``{"status": "ok", "checks": {"mongodb": "ok"}}``. Only the log says why a check
    fails. While the bus of real-time events is away, it is a 200 with the status ``degraded``: all
    else works, and no other process would do better. Configure it first: what is registered before
    it runs for probes too.

    Examples:
        >>> from alula import App
        >>> from alula.express import express, health
        >>> async def ping_database(): ...
        >>> web = express(App()).configure(health(checks={"database": ping_database}))

    Args:
        checks: What the application cannot work without, by name: functions without arguments,
            plain or asynchronous, that raise or return False if it is missing. They run
            concurrently, and probes that arrive meanwhile share one run. A plain one must not
            block.
        live: The path of liveness, None for none.
        ready: The path of readiness, None for none.
        timeout: Seconds that each check may take.

    Raises:
        TypeError: A check is not a function; or, by the plugin, the application is not one of
            `express`.
        ValueError: A path does not start with a slash, or ``timeout`` is not over 0.
    """
    for path in (live, ready):
        if path is not None and not path.startswith("/"):
            raise ValueError(f"health: the path {path!r} starts with no slash: {'/' + path!r}")
    all_checks = Checks(checks or {}, timeout)

    def configure(app: WebApplication) -> None:
        if not isinstance(app, WebApplication):
            raise TypeError(f"health() configures what express() returns, not {app!r}")
        app.early_paths.update(path for path in (live, ready) if path is not None)

        def probe(req: Request, res: Response, next: NextFunction) -> Awaitable[None]:
            if req.path == live and req.method in {"GET", "HEAD"}:
                return send(res, "ok")
            if req.path == ready and req.method in {"GET", "HEAD"}:
                return send_readiness(res)
            return next()

        async def send_readiness(res: Response) -> None:
            if app.readiness != "ready":
                await send(res, app.readiness)
                return
            states = await all_checks.run()
            if any(state != "ok" for state in states.values()):
                await send(res, "failed", states)
                return
            notes = {name: note() for name, note in app.settings.get(HEALTH_NOTES, {}).items()}
            is_ok = all(state == "ok" for state in notes.values())
            await send(res, "ok" if is_ok else "degraded", {**states, **notes})

        async def send(res: Response, status: str, states: Mapping[str, str] | None = None) -> None:
            res.is_probe = True
            res.status(503 if status in _UNAVAILABLE else 200).set("Cache-Control", "no-store")
            res.json({"status": status, **({"checks": states} if states else {})})

        app.add(Step(probe, may_read_body=never))

    return configure


class Checks:
    """Runs checks concurrently, each with a timeout; concurrent probes share one run.

    Args:
        checks: By name.
        timeout: Seconds that each may take.

    Raises:
        TypeError: A check is not a function.
        ValueError: ``timeout`` is not over 0.
    """

    def __init__(self, checks: Mapping[str, Check], timeout: float) -> None:
        for name, check in checks.items():
            if not callable(check):
                raise TypeError(
                    f"health: the check {name!r} is {check!r}; give a function without arguments"
                )
        if not timeout > 0:
            raise ValueError(f"health: the timeout of checks is {timeout!r}; it must be over 0")
        self._checks = dict(checks)
        self._timeout = timeout
        self._run: asyncio.Task[dict[str, str]] | None = None
        self._last_states: dict[str, str] = {}
        self._late: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> dict[str, str]:
        """Return ``"ok"``, ``"failed"`` or ``"timed out"`` by name; changes are logged."""
        if not self._checks:
            return {}

        async def run_all() -> dict[str, str]:
            tasks: dict[str, asyncio.Task[None]] = {}
            for name, check in self._checks.items():
                late = self._late.pop(name, None)
                # A check that still hangs is not started again: probes would pile them up.
                if late is None or late.done():
                    late = asyncio.create_task(_run_check(check), name=f"the health check {name}")
                tasks[name] = late
            await asyncio.wait(tasks.values(), timeout=self._timeout)
            self._last_states = {name: self._state_of(name, task) for name, task in tasks.items()}
            return self._last_states

        if self._run is None or self._run.done():
            self._run = asyncio.create_task(run_all())
        # A probe that is cancelled must not cancel the checks of the others.
        return await asyncio.shield(self._run)

    def _state_of(self, name: str, task: asyncio.Task[None]) -> str:
        if not task.done():
            # Do not wait for it: a check may take its time to end after its cancellation.
            task.cancel()
            self._late[name] = task
            state, error = "timed out", None
        else:
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            state = "failed" if error else "ok"
        # Log only changes: probes come every few seconds.
        if state != self._last_states.get(name, "ok"):
            level = logging.INFO if state == "ok" else logging.WARNING
            _log.log(level, "the health check %s: %s", name, state, exc_info=error)
        return state


async def _run_check(check: Check) -> None:
    result: Any = check()
    if hasattr(result, "__await__"):
        result = await result
    if result is False:
        raise RuntimeError(f"{name_of(check)} returned False")
