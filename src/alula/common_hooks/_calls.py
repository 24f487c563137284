"""Hooks for the course of a call: what it carries, checks, and leaves in the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from alula._context import WELL_KNOWN_NAMES, HookContext
from alula._user_code import name_of, unfit_signature
from alula.common_hooks._call import change_data, stored_record
from alula.errors import BadRequest, shown_name
from alula.hooks import Hook, Next, annotate_hook, hook_factory
from alula.types import is_list, is_mapping

__all__ = ["debug", "params_from_client", "stash_before", "validate"]

Errors: TypeAlias = Mapping[str, Any] | None
"""What is wrong by property, None or empty for nothing."""

_CHANGES: Final = ("update", "patch", "remove")
_STASHED: Final = "stashed by common_hooks"  # in the attributes of a context
_OF_THE_SERVER: Final = WELL_KNOWN_NAMES | {
    "authenticated",
    "authenticated_by",
    "keeps_session",
    "renews_password",
    "with_deleted",
}
_log: Final = logging.getLogger("alula")


@hook_factory("stash_before()")
def stash_before(name: str = "before") -> Hook:
    """Return a before hook that keeps the record as it is before a call changes it.

    It is read by an internal `get` for `update`, `patch` and `remove` with an id, directly before
    the method: behind all before hooks, with the conditions that they have added to the query. So
    a client learns nothing about records that the method does not let it reach. After hooks, error
    hooks and listeners find it at ``context.params[name]``. Without an id, or if the method finds
    no record, that is None.

    Args:
        name: The name of the param.

    Raises:
        ValueError: The name is that of a param with a meaning of its own.

    Examples:
        >>> import asyncio
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> app = App().use("notes", MemoryService([{"id": 1, "text": "Hello"}]))
        >>> notes = app.service("notes").hooks(before=[stash_before()])
        >>> @notes.after("patch")
        ... def tell(context):
        ...     print(context.params.before["text"], "->", context.result["text"])
        >>> _ = asyncio.run(notes.patch(1, {"text": "Bye"}))
        Hello -> Bye
    """
    _check_param("stash_before", name)

    def stash(context: HookContext) -> None:
        setattr(context, _STASHED, {*getattr(context, _STASHED, ()), name})

    async def read(context: HookContext, next: Next) -> None:
        # It runs in each call of the method, also if `stash` has a condition that does not hold.
        if name in getattr(context, _STASHED, ()):
            record = None if context.id is None else await stored_record(context)
            context.params[name] = record
        await next()

    return annotate_hook(
        stash, kinds=("before",), ignores=("find", "get"), completes=dict.fromkeys(_CHANGES, read)
    )


@hook_factory('params_from_client("locale")')
def params_from_client(*names: str) -> Hook:
    """Return a hook that sets params from what clients send as ``$client`` in their query.

    A client sends ``{"$client": {"locale": "de"}}``; hooks and services read ``params.locale``.
    ``$client`` leaves the query. Register it as an around hook: schemas check queries behind these.
    The values are what a client wrote, of any type: check them.

    Args:
        names: The names that clients may set. A param that the server has set stays.

    Raises:
        TypeError: There are no names, or one is not a string.
        ValueError: A name is that of a param with a meaning of its own, such as ``user``.
        BadRequest: By the hook: ``$client`` is not an object, or has another name.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> app = App().use("notes", MemoryService())
        >>> notes = app.service("notes").hooks(around=[params_from_client("locale")])
    """
    if not names:
        raise TypeError("params_from_client takes names: params_from_client('locale')")
    for name in names:
        _check_param("params_from_client", name)

    def take(context: HookContext, next: Next | None = None) -> object:
        params = context.params
        if params.provider is not None and "$client" in params.query:
            given = params.query.pop("$client")
            if not is_mapping(given):
                raise BadRequest("Invalid value for $client: expected an object")
            for name, value in given.items():
                if name not in names:
                    allowed = ", ".join(names)
                    raise BadRequest(
                        f"Invalid value for $client: {shown_name(name)} is not one of {allowed}"
                    )
                if name not in params:
                    params[name] = value
        return None if next is None else next()

    return annotate_hook(take, kinds=("before", "around"))


def _check_param(hook: str, name: object) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError(f"{hook} takes names of params, not {name!r}")
    if name in _OF_THE_SERVER:
        raise ValueError(f"{hook}: params.{name} has a meaning of its own; choose another name")


@hook_factory("validate(check)")
def validate(check: Callable[..., Errors | Awaitable[Errors]]) -> Hook:
    """Return a before hook that checks the data of a call by a function, each record of a list.

    For types and formats, use a schema (`alula.schema.with_schema`).

    Args:
        check: A function of ``(data)`` or ``(data, context)``, plain or asynchronous. It returns
            what is wrong by property, ``{"text": "is too long"}``, or nothing. A `ValueError` that
            it raises is a `BadRequest`, too.

    Raises:
        TypeError: It is not such a function.
        BadRequest: By the hook: the data is not valid; ``errors`` has what the function returned.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> def check_text(data):
        ...     return {} if data.get("text") else {"text": "is missing"}
        >>> app = App().use("notes", MemoryService())
        >>> notes = app.service("notes").hooks(before={"create": [validate(check_text)]})
    """
    if not callable(check):
        raise TypeError(f"validate takes a function of (data, context), not {check!r}")
    takes_context = unfit_signature(check, "data", "context") is None
    if not takes_context and unfit_signature(check, "data") is not None:
        raise TypeError(f"validate: {name_of(check)} is not a function of (data, context)")

    async def validate_data(context: HookContext) -> None:
        change_data(context, lambda data: data)
        data = context.data
        for record in data if is_list(data) else (data,):
            try:
                errors = check(record, context) if takes_context else check(record)
                if isinstance(errors, Awaitable):
                    errors = await errors
            except ValueError as error:
                raise BadRequest(str(error)) from error
            if errors is not None and not isinstance(errors, Mapping):
                raise TypeError(
                    f"validate: {name_of(check)} returned {errors!r}; return what is wrong by"
                    " property, or None"
                )
            if errors:
                raise BadRequest("The data is not valid", errors=dict(errors))

    return annotate_hook(validate_data, kinds=("before",))


@hook_factory("debug()")
def debug(logger: logging.Logger | None = None, *, level: int = logging.DEBUG) -> Hook:
    """Return an around hook that logs path, method, outcome and duration of each call.

    It logs no ids, no data, no query and no headers, which may hold secrets.

    Args:
        logger: The logger; None for ``alula``.
        level: The level of the lines. Without that level, the hook does nothing.

    Examples:
        >>> from alula import App
        >>> app = App().hooks(around=[debug()])
    """
    log = _log if logger is None else logger

    async def log_call(context: HookContext, next: Next) -> None:
        start, outcome = time.perf_counter(), "ok"
        try:
            await next()
        except BaseException as error:
            outcome = type(error).__name__
            raise
        finally:
            milliseconds = (time.perf_counter() - start) * 1000
            origin = context.params.provider or "server"
            log.log(
                level,
                "%s %s (%s): %s in %.1f ms",
                context.path,
                context.method,
                origin,
                outcome,
                milliseconds,
            )

    return annotate_hook(log_call, kinds=("around",), is_idle=lambda _: not log.isEnabledFor(level))
