"""The calls of methods that declare what they get and return.

A method gets instances of models; everything around it sees plain data. So data is converted
directly before the method, and its result directly after it. Where hooks run before the method, the
query and the data are checked before these as well, at the place of the checks of `with_schema`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from alula._context import HookContext
from alula._declared import Checks
from alula.errors import BadRequest
from alula.hooks import Call
from alula.types import ID_METHODS, METHODS_WITHOUT_DATA, UNSET

__all__ = ["check_hook", "declared_call", "method_caller"]

_NONE: Final[dict[str, Any]] = {}


def check_hook(checks: Checks) -> Callable[[HookContext], None] | None:
    """Return the before hook that checks the query and the data, None if nothing is declared."""
    read_query, read_data, show = checks.query, checks.data, checks.shown_data
    if read_query is None and read_data is None:
        return None

    def check_declared(context: HookContext) -> None:
        params = context.params
        if read_query is not None:
            params.query = read_query(params.query)[0]
        if read_data is not None and show is not None:
            context.data = show(read_data(context.data, params.provider is not None))

    return check_declared


def declared_call(
    method: Callable[..., Any],
    name: str,
    checks: Checks,
    finish: Callable[[HookContext, Any], None],
    *,
    is_checked: bool,
) -> Call:
    """Return the function that calls a method, unless a hook has set the result before.

    Args:
        method: The method.
        name: Its name.
        checks: What it declares.
        finish: Takes over a result that is not set, or that may be of an upsert.
        is_checked: Whether the hook of `check_hook` has run.
    """
    cut, status = checks.result, checks.status
    invoke = method_caller(method, name, checks, is_checked=is_checked)
    may_upsert = name in {"create", "update", "patch"}

    async def call(context: HookContext) -> None:
        if context.result is not UNSET:
            return
        result = invoke(context)
        if hasattr(result, "__await__"):
            result = await result
        if result is UNSET or may_upsert:
            finish(context, result)
        context.result = result if cut is None else cut(result)
        if status is not None and "status" not in context.http:
            context.http = {**context.http, "status": status}

    return call


def method_caller(
    method: Callable[..., Any], name: str, checks: Checks, *, is_checked: bool
) -> Callable[[HookContext], Any]:
    """Return the function that calls a method with what it declares, and returns its result."""
    has_id, has_data = name in ID_METHODS, name not in METHODS_WITHOUT_DATA
    read_id = checks.id
    read_data = _reader_of_data(checks, is_checked=is_checked)
    read_keywords = _reader_of_keywords(checks, is_checked=is_checked)

    def invoke(context: HookContext) -> Any:
        params = context.params
        keywords = _NONE if read_keywords is None else read_keywords(params)
        if has_id:
            id_ = context.id if read_id is None else read_id(context.id)
            if has_data:
                data = context.data if read_data is None else read_data(context.data, params)
                return method(id_, data, params, **keywords)
            return method(id_, params, **keywords)
        if has_data:
            data = context.data if read_data is None else read_data(context.data, params)
            return method(data, params, **keywords)
        return method(params, **keywords)

    return invoke


def _reader_of_data(checks: Checks, *, is_checked: bool) -> Callable[[Any, Any], Any] | None:
    """Return what makes the data of a method, None if it gets what there is."""
    read = checks.data
    if read is None:
        return None
    if is_checked:
        return lambda data, _params: _read_again(read, data)
    return lambda data, params: read(data, params.provider is not None)


def _reader_of_keywords(checks: Checks, *, is_checked: bool) -> Callable[[Any], Any] | None:
    """Return what makes the keywords of a call from its params, None if there are none."""
    read_query, read_route, known = checks.query, checks.route, checks.known_query
    if read_query is None and read_route is None:
        return None

    def read(params: Any) -> dict[str, Any]:
        keywords = {} if read_route is None else read_route(params.route)
        if read_query is not None and known is not None:
            if is_checked:
                again = partial(_keywords_of, read_query)
                keywords |= _read_again(again, known(params.query))
            else:
                params.query, values = read_query(params.query)
                keywords |= values
        return keywords

    return read


def _keywords_of(
    read: Callable[[Any], tuple[dict[str, Any], dict[str, Any]]], query: Any, _from_client: bool
) -> dict[str, Any]:
    return read(query)[1]


def _read_again(read: Callable[[Any, bool], Any], value: Any) -> Any:
    """Return what a method gets of a value that was checked, and that hooks may have changed."""
    try:
        return read(value, False)
    except BadRequest as error:
        # Not the fault of the client.
        raise RuntimeError(
            f"a hook has changed the query or the data to what the method does not take:"
            f" {error.data or error.message}"
        ) from error
