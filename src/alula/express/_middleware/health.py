"""Liveness and readiness, for whoever starts, watches and stops servers.

Liveness says that the process answers, and nothing else: one that fails gets the process killed,
which helps against no database that is away. Readiness says whether to send requests here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from alula._user_code import name_of
from alula.express._chain import Step, never
from alula.express._request import Request
from alula.express._response import Response
from alula.express._web_application import WebApplication

__all__ = ["Check", "Checks", "health"]

Check: TypeAlias = Callable[[], Any]
"""What tells whether something is there: by raising, or returning False, where it is not."""

_log: Final = logging.getLogger("alula.health")


def health(
    *,
    checks: Mapping[str, Check] | None = None,
    live: str | None = "/health/live",
    ready: str | None = "/health/ready",
    timeout: float = 2,
) -> Callable[[WebApplication], None]:
    """Return the plugin that answers health probes: ``app.configure(health())``.

    Liveness is always a 200. Readiness is a 200, or a 503 while the application is set up, once
    it drains, and where a check fails: ``{"status": "ok", "checks": {"mongodb": "ok"}}``. Why a
    check fails is told to the log alone. Configure it first: what stands before it runs for
    probes too.

    Args:
        checks: What the application can not work without, by name: functions without arguments,
            plain or asynchronous, that raise or return False where it is missing. They run at the
            same time, and once for all probes that come meanwhile. A plain one must not block.
        live: The path of liveness, None for none.
        ready: The path of readiness, None for none.
        timeout: Seconds that each check may take.

    Raises:
        TypeError: A check is no function; or, by the plugin, the application is none of
            `express`.
        ValueError: A path does not start with a slash, or ``timeout`` is no time.
    """
    for path in (live, ready):
        if path is not None and not path.startswith("/"):
            raise ValueError(f"health: the path {path!r} starts with no slash: {'/' + path!r}")
    known = Checks(checks or {}, timeout)

    def configure(app: WebApplication) -> None:
        if not isinstance(app, WebApplication):
            raise TypeError(f"health() configures what express() returns, not {app!r}")
        app.early_paths.update(path for path in (live, ready) if path is not None)

        def probe(req: Request, res: Response) -> Awaitable[None] | None:
            if req.path == live and req.method in {"GET", "HEAD"}:
                return _answer(res, {"status": "ok"})
            if req.path == ready and req.method in {"GET", "HEAD"}:
                return _readiness(app, known, res)
            return None

        app.add(Step(probe, is_endpoint=True, may_read_body=never))

    return configure


async def _readiness(app: WebApplication, checks: Checks, res: Response) -> None:
    if app.readiness != "ready":
        await _answer(res, {"status": app.readiness})
        return
    states = await checks.run()
    status = "ok" if all(state == "ok" for state in states.values()) else "failed"
    await _answer(res, {"status": status, **({"checks": states} if states else {})})


async def _answer(res: Response, told: dict[str, Any]) -> None:
    res.is_probe = True
    res.status(200 if told["status"] == "ok" else 503).set("Cache-Control", "no-store").json(told)


class Checks:
    """Runs checks at the same time, each within a time limit, and once for all who ask meanwhile.

    Args:
        checks: By name.
        timeout: Seconds that each may take.

    Raises:
        TypeError: A check is no function.
        ValueError: ``timeout`` is no time.
    """

    def __init__(self, checks: Mapping[str, Check], timeout: float) -> None:
        for name, check in checks.items():
            if not callable(check):
                raise TypeError(
                    f"health: the check {name!r} is {check!r}; give a function without arguments"
                )
        if not timeout > 0:
            raise ValueError(f"health: the time limit of checks is {timeout!r}; it is over 0")
        self._checks = dict(checks)
        self._timeout = timeout
        self._round: asyncio.Task[dict[str, str]] | None = None
        self._last: dict[str, str] = {}
        self._late: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> dict[str, str]:
        """Return ``"ok"``, ``"failed"`` or ``"timed out"`` by name; the log gets what changed."""
        if not self._checks:
            return {}
        if self._round is None or self._round.done():
            self._round = asyncio.create_task(self._run_all())
        return await asyncio.shield(self._round)

    async def _run_all(self) -> dict[str, str]:
        tasks = {name: self._begun(name, check) for name, check in self._checks.items()}
        await asyncio.wait(tasks.values(), timeout=self._timeout)
        self._last = {name: self._state_of(name, task) for name, task in tasks.items()}
        return self._last

    def _begun(self, name: str, check: Check) -> asyncio.Task[None]:
        """Begin a check, unless it has not ended since it was late: probes must not pile it up."""
        late = self._late.pop(name, None)
        if late is not None and not late.done():
            return late
        return asyncio.create_task(_run(check), name=f"the health check {name}")

    def _state_of(self, name: str, task: asyncio.Task[None]) -> str:
        before = self._last.get(name, "ok")
        if not task.done():
            task.cancel()  # and nobody waits for one that takes its time with that
            self._late[name] = task
            state, error = "timed out", None
        else:
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            state = "failed" if error else "ok"
        if state != before:  # a probe comes every few seconds; each would say the same again
            level = logging.INFO if state == "ok" else logging.WARNING
            _log.log(level, "the health check %s: %s", name, state, exc_info=error)
        return state


async def _run(check: Check) -> None:
    result = check()
    if hasattr(result, "__await__"):
        result = await result
    if result is False:
        raise RuntimeError(f"{name_of(check)} returned False")
