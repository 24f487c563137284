"""Hooks: tables of around, before, after and error functions, composed into one per method.

Order, from the outside in: around hooks (those for every method first), then error, before and
after hooks around the method itself; the whole of the application's around the whole of the
service's. Error hooks see what before hooks, after hooks and the method raise, and everything of
the service's where they are the application's; a cancelled call is no error to them. A hook that
returns an awaitable is waited for.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Final, Self, TypeAlias, TypeVar

from alula._compose import Layer, Next, compose, enter
from alula._context import HookContext, Params
from alula._user_code import describe_frames, name_of
from alula.errors import MethodNotAllowed
from alula.hook_notes import call_to_write, maker, notes_on
from alula.types import UNSET

__all__ = ["HOOK_TYPES", "HookTable", "Hookable", "check_hook", "disallow"]

Hook: TypeAlias = Callable[..., Any]
HookMap: TypeAlias = Mapping[str, Any]
Call: TypeAlias = Callable[[HookContext], Coroutine[Any, Any, None]]
H = TypeVar("H", bound=Callable[[HookContext], Any])
Around = TypeVar("Around", bound=Callable[[HookContext, Next], Any])

HOOK_TYPES: Final = ("around", "before", "after", "error")
EVERY_METHOD: Final = "all"

_PROVIDERS: Final = ("external", "server", "rest")


class HookTable:
    """The hooks of one level, the application's or those of one service.

    Attributes:
        changes: How often hooks have been registered, for what is made of them.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._hooks: dict[str, dict[str, list[Hook]]] = {kind: {} for kind in HOOK_TYPES}
        self._innermost: dict[str, list[Hook]] = {}
        self._first: Mapping[str, Sequence[Hook]] = {}
        self._last: Mapping[str, Sequence[Hook]] = {}

    def enclose(
        self, first: Mapping[str, Sequence[Hook]], last: Mapping[str, Sequence[Hook]]
    ) -> None:
        """Set before hooks whose place does not depend on the order of registration.

        Args:
            first: By method, those in front of all before hooks. They may depend on who is
                calling, so that ``authenticate`` and what is registered in front of it precede.
            last: By method, those behind all before hooks, directly in front of the method.
        """
        self._first, self._last = first, last

    def add(self, hooks: HookMap, methods: Collection[str], where: str) -> None:
        """Check and register hooks.

        Args:
            hooks: Type to a list (for every method), or to a mapping of method or ``all`` to one.
            methods: The methods that exist.
            where: Whose hooks these are, for messages.

        Raises:
            ValueError: A type or a method does not exist.
            TypeError: Something is no function, or takes the wrong number of arguments.
        """
        found = [
            (kind, method, hook)
            for kind, by_method in hooks.items()
            for method, hook in _flatten(kind, by_method, where)
        ]
        for kind, method, hook in found:
            if method != EVERY_METHOD and method not in methods:
                raise ValueError(
                    f"{kind} hook for `{method}` of {where}: there is no such method; it has"
                    f" {', '.join(methods)} (a custom method is there once `use` has listed it)"
                )
            check_hook(kind, hook, where)
        for kind, method, hook in found:
            self._hooks[kind].setdefault(method, []).append(hook)
        self.changes += 1

    def add_innermost(self, hook: Hook, methods: Collection[str]) -> None:
        """Register an around hook directly around the method itself.

        It runs behind all before hooks and in front of all after hooks, whenever these are
        registered: what must happen with a change does not depend on what else fails.
        """
        for method in methods:
            self._innermost.setdefault(method, []).append(hook)

    def of(self, kind: str, method: str) -> list[Hook]:
        """Return the hooks of a type for a method, those for every method first."""
        by_method = self._hooks[kind]
        hooks = [*by_method.get(EVERY_METHOD, ()), *by_method.get(method, ())]
        if kind == "before":
            # `authenticate` notes its strategies: behind it the caller is known.
            place = max((n for n, hook in enumerate(hooks, 1) if _identifies(hook)), default=0)
            hooks[place:place] = self._first.get(method, ())
            hooks += self._last.get(method, ())
        return hooks

    def wrap(self, method: str, call: Call) -> Call:
        """Return ``call`` with the hooks of this level around it, itself where there are none."""
        if method in self._innermost:
            call = compose(self._innermost[method], call, _HookNext)
        before, after, error = (self.of(kind, method) for kind in HOOK_TYPES[1:])
        wrapped = _with_before_and_after(call, before, after) if before or after else call
        if error:
            wrapped = _with_error(wrapped, error)
        guards = (notes_on(hook).get("around") for hook in after)
        around = [*filter(None, guards), *self.of("around", method)]
        around.sort(key=_is_inside)  # stable
        return compose(around, wrapped, _HookNext) if around else wrapped


class _HookNext(Next):
    """The ``next`` of an around hook; each further call of it is a new attempt (a retry)."""

    __slots__ = ("_result",)

    def __call__(self) -> Coroutine[Any, Any, None]:
        context: HookContext = self._args[0]
        if self.pending is None:
            self._result = context.result
        else:  # a result that is left from the attempt before would take the method's place
            context.result, context.dispatch, context.error = self._result, UNSET, None
        self.pending = self._inner(context)
        return self.pending

    def returned(self, layer: Layer, value: Any) -> None:
        _check_returned("around", layer, value, self._args[0])

    def unused(self, layer: Layer) -> None:
        context: HookContext = self._args[0]
        if context.result is UNSET:
            raise RuntimeError(
                f"around hook {name_of(layer)} neither awaited next() nor set context.result,"
                f" in `{context.method}` of {context.service!r}"
            )


class Hookable:
    """Registers hooks by call and by decorator; the application and every service handle are one.

    Subclasses say in ``hook_methods`` which methods exist, and recompose in ``_hooks_changed``.
    """

    def __init__(self) -> None:
        self.hook_table = HookTable()

    def hook_methods(self) -> Collection[str]:
        """Return the names of the methods that hooks may be registered for."""
        raise NotImplementedError

    def _hooks_changed(self) -> None:
        raise NotImplementedError

    def hooks(self, hooks: Any = None, /, **kinds: Any) -> Self:
        """Register hooks: ``hooks(before={"create": [check]}, around=[log])``.

        Args:
            hooks: The same as one mapping, or a list of around hooks for every method.
            kinds: ``around``, ``before``, ``after``, ``error``; each a list (for every method) or
                a mapping of method or ``all`` to a list. On the application also ``setup`` and
                ``teardown``, lists of functions of ``(context, next)`` around start and stop;
                their context has ``app`` and ``server``.

        Raises:
            ValueError: A type or a method does not exist.
            TypeError: Something is no function, or takes the wrong number of arguments.
        """
        self._add_hooks(_by_kind(hooks, kinds))
        return self

    def _add_hooks(self, hooks: dict[str, Any]) -> None:
        self.hook_table.add(hooks, self.hook_methods(), repr(self))
        self._hooks_changed()

    def around(self, *methods: str) -> Callable[[Around], Around]:
        """Register an around hook ``(context, next)``, for every method where none is named."""
        return self._decorator("around", methods)

    def before(self, *methods: str) -> Callable[[H], H]:
        """Register a before hook ``(context)``, for every method where none is named."""
        return self._decorator("before", methods)

    def after(self, *methods: str) -> Callable[[H], H]:
        """Register an after hook ``(context)``, for every method where none is named."""
        return self._decorator("after", methods)

    def error(self, *methods: str) -> Callable[[H], H]:
        """Register an error hook ``(context)``, for every method where none is named."""
        return self._decorator("error", methods)

    def _decorator(self, kind: str, methods: tuple[str, ...]) -> Callable[[Any], Any]:
        if methods and callable(methods[0]):
            raise TypeError(f'write @service.{kind}() or @service.{kind}("create"), with brackets')
        for method in methods:
            if not isinstance(method, str):
                raise TypeError(
                    f"{kind}({method!r}): name the methods one by one, not in a list or mapping:"
                    f' @service.{kind}("create", "patch")'
                )

        def register(hook: Hook) -> Hook:
            self.hooks({kind: {method: [hook] for method in methods or (EVERY_METHOD,)}})
            return hook

        return register


@maker('disallow("external")')
def disallow(*providers: str) -> Callable[[HookContext], None]:
    """Return a before hook that refuses calls by where they come from.

    Args:
        providers: ``"external"`` for every call from outside, ``"server"`` for internal calls, or
            the name of a provider such as ``"rest"``. None at all refuses every call.

    Raises:
        ValueError: A name is nearly one of these, and so a slip that would let calls pass.
        MethodNotAllowed: By the hook, for a call that it refuses.
    """
    for name in providers:
        _check_provider(name)

    def refuse(context: HookContext) -> None:
        provider = context.params.provider
        origin = "server" if provider is None else "external"
        if not providers or origin in providers or provider in providers:
            raise MethodNotAllowed(
                f"Provider '{provider or 'server'}' can not call '{context.method}'"
            )

    return refuse


def _check_provider(name: str) -> None:
    import difflib  # noqa: PLC0415  # at a registration alone, and slow to load

    near = isinstance(name, str) and difflib.get_close_matches(name, _PROVIDERS, 1, 0.75)
    if near and name not in _PROVIDERS:
        raise ValueError(f"disallow({name!r}): did you mean {near[0]!r}?")


def _is_inside(hook: Hook) -> bool:
    """Tell whether an around hook runs inside those that say that they are the outermost."""
    return notes_on(hook).get("outermost") is not True


def _identifies(hook: Hook) -> bool:
    return "strategies" in notes_on(hook)


def check_hook(kind: str, hook: Any, where: str) -> None:
    """Check that something can be a hook of a type.

    Raises:
        TypeError: It is no function, or takes the wrong number of arguments, or says that it can
            be no hook of this type.
    """
    wanted = ("context",) if kind in {"before", "after", "error"} else ("context", "next")
    shape = f"a function of ({', '.join(wanted)})"
    if not callable(hook):
        raise TypeError(f"{kind} hook of {where}: {hook!r} is no function; expected {shape}")
    if isinstance(hook, type):
        raise TypeError(
            f"{kind} hook of {where}: {hook.__name__} is a class; register an instance,"
            f" {hook.__name__}(...), that can be called as {shape}"
        )
    if (call := call_to_write(hook)) is not None:
        raise TypeError(
            f"{kind} hook of {where}: {name_of(hook)} makes a hook and is not one itself;"
            f" write {call}"
        )
    kinds = notes_on(hook).get("kinds")
    if kinds is not None and kind not in kinds:
        raise TypeError(
            f"{kind} hook {name_of(hook)} of {where} would do nothing there; register it as"
            f" {' or '.join(kinds)} hook"
        )
    try:
        signature = inspect.signature(hook)
    except (ValueError, TypeError):  # built-in functions may have none to look at
        return
    try:
        signature.bind(*wanted)
    except TypeError:
        raise TypeError(
            f"{kind} hook {name_of(hook)} of {where} takes {signature}; expected {shape}"
        ) from None


def _with_before_and_after(call: Call, before: list[Hook], after: list[Hook]) -> Call:
    async def run(context: HookContext) -> None:
        if before:
            await _run_hooks("before", before, context)
        await call(context)
        if after:
            await _run_hooks("after", after, context)

    return run


def _with_error(call: Call, hooks: list[Hook]) -> Call:
    async def run(context: HookContext) -> None:
        try:
            await call(context)
        except Exception as error:  # error hooks see every error, and decide
            context.error, context.result, context.dispatch = error, UNSET, UNSET
            await _run_hooks("error", hooks, context)
            if context.result is UNSET:
                if context.error is error:
                    raise
                if isinstance(context.error, BaseException):
                    raise context.error from error
                if context.error is not None:
                    raise _no_exception(context) from error
                context.result = None
            context.error = None

    return run


def _no_exception(context: HookContext) -> TypeError:
    return TypeError(
        f"an error hook for `{context.method}` of {context.service!r} set context.error to"
        f" {context.error!r}; set an exception, or None with a result"
    )


async def _run_hooks(kind: str, hooks: Sequence[Hook], context: HookContext) -> None:
    """Run hooks ``(context)`` one after the other, and wait for what they return."""
    context.type = kind
    try:
        for hook in hooks:
            result = hook(context)
            while result is not None and hasattr(result, "__await__"):
                result = await result
            if result is not None:
                _check_returned(kind, hook, result, context)
    finally:
        context.type = "around"


def _describe_around(names: Mapping[str, Any]) -> str:
    context = names["args"][0]
    service = getattr(context, "service", None)
    what = f"{context.method} hook" if service is None else "around hook"
    return f"{what} {name_of(names['layer'])} of {context.app if service is None else service!r}"


describe_frames(enter, _describe_around)
describe_frames(
    _run_hooks,
    lambda names: f"{names['kind']} hook {name_of(names['hook'])} of {names['context'].service!r}",
)


_ADVICE: Final = {
    "before": "set what it changes: context.data = ..., context.params.query = ...,"
    " context.result = ... to answer in place of the method",
    "after": "set what it changes: context.result = ...",
    "error": "set what it changes: context.error = ..., or context.result = ... to recover",
    "around": "set what it changes, such as context.data before `await next()` and context.result"
    " after it",
}


_MEANT: Final = (Mapping, list, tuple, BaseException, HookContext, Params, types.FunctionType)


def _check_returned(kind: str, hook: Hook, value: Any, context: HookContext) -> None:
    """Refuse what a hook returned where it was meant to do something: it would be lost.

    Raises:
        TypeError: It is of a kind that somebody meant for something, such as new data or an error
            that was to be raised. The message says what to write. Other values, such as those of
            a lambda that calls a function, are let go, and so is the context.
    """
    if value is context or not (value is False or isinstance(value, _MEANT)):
        return
    advice = _ADVICE[kind]
    if inspect.isfunction(value):
        advice = f"if it makes hooks, call it where it is registered: {name_of(hook)}(...)"
    elif isinstance(value, BaseException):
        advice = f"to refuse the call, raise it: raise {type(value).__name__}(...)"
    elif value is False:
        advice = 'to refuse the call, raise an error: raise Forbidden("...")'
    raise TypeError(
        f"{kind} hook {name_of(hook)} returned {_a(type(value).__name__)}, which is not used;"
        f" {advice} (`{context.method}` of {context.service!r})"
    )


def _a(name: str) -> str:
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _by_kind(hooks: Any, kinds: dict[str, Any]) -> dict[str, Any]:
    """Return hooks by type, however they were given."""
    if hooks is None:
        return dict(kinds)
    if kinds:
        raise TypeError("hooks come as one mapping or as keywords, not as both")
    if isinstance(hooks, list | tuple):
        return {"around": hooks}
    if isinstance(hooks, Mapping):
        return dict(hooks)
    raise TypeError(
        f"hooks takes around=, before=, after= and error=, or one mapping of these, not {hooks!r}"
    )


def _flatten(kind: str, by_method: Any, where: str) -> list[tuple[str, Hook]]:
    if kind not in HOOK_TYPES:
        raise ValueError(f"{kind!r} is no type of hook for {where}; use {', '.join(HOOK_TYPES)}")
    if not isinstance(by_method, Mapping):
        by_method = {EVERY_METHOD: by_method}
    return [
        (method, hook)
        for method, hooks in by_method.items()
        for hook in (hooks if isinstance(hooks, list | tuple) else [hooks])
    ]
