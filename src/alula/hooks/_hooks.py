"""A hook: what it says about itself, and what is checked when it is registered and when it runs."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypedDict, TypeVar, Unpack
from weakref import ref

from alula._context import HookContext, Params
from alula._user_code import name_of, unfit_signature, wrong_twin
from alula.errors import MethodNotAllowed

__all__ = [
    "Hook",
    "HookMetadata",
    "annotate_hook",
    "check_hook",
    "check_order",
    "check_returned",
    "disallow",
    "factory_call",
    "hook_factory",
    "hook_metadata",
]

Hook: TypeAlias = Callable[..., Any]
AnyHook = TypeVar("AnyHook", bound=Hook)

_PROVIDERS: Final = ("external", "server", "rest")
_TRANSPORTS: Final = frozenset({"rest", "socketio", "sse", "mcp"})
_PLACES: Final = frozenset({"innermost", "outermost"})
"""Metadata of hooks that do not run where they are registered."""


class HookMetadata(TypedDict, total=False):
    """What a hook says about itself, for descriptions of the API and for checks of its use."""

    query: Any
    """The validator or schema that it checks queries with."""
    data: Callable[[str], Any]
    """Returns, for a method, the validator of its data, or None."""
    strategies: tuple[str, ...]
    """The names of the authentication strategies that it accepts."""
    authentication: str | None
    """The path of the service that has these strategies, None for the default one."""
    is_optional: bool
    """Whether calls without credentials pass, too."""
    scope: str | None
    """The scope that an API key needs, None for that of the service and the method."""
    protects: Collection[str]
    """The names of properties that it hides from clients."""
    kinds: Collection[str]
    """The types of hook that it works as; registering it as another one is an error."""
    around: Hook
    """For an after hook: an around hook that runs outside all others of its level."""
    outermost: bool
    """For an around hook: whether it runs outside all others of its level."""
    innermost: Hook | Mapping[str, Hook] | bool
    """An around hook that runs directly around the method, inside all other hooks; or such hooks by
    method. True for an around hook that runs only there itself."""
    completes: Mapping[str, Hook]
    """By method, an around hook that runs directly around it, once for all hooks that name it. It
    acts in calls that such a hook has prepared, so these may have a condition."""
    follows_changes: bool
    """For an around hook: whether it also runs around all methods but `find` and `get`, outside the
    innermost hooks, whichever methods it is registered for."""
    ignores: Collection[str]
    """Names of methods that it does nothing for. Registered for all methods, it is left out of
    these; to register it for one of them is an error."""
    is_idle: Callable[[HookContext], bool]
    """For an around hook: tells whether it has nothing to do in a call. It is left out of that call
    then, which saves two coroutines."""
    needs_user: str
    """Its name, if it needs the user of a call; empty if not. Then it cannot run before
    `authenticate`."""
    sets: Collection[str]
    """Names of properties of the data that it sets, so clients need not send them."""
    needs_whole: Collection[str]
    """Names of methods that cannot stream while it is registered for them, since it needs the whole
    result; ``all`` for every method."""
    hooks: Sequence[Hook]
    """Hooks that it runs under a condition. They are checked as hooks of its own type; what they
    say about themselves does not count for it."""
    call: str
    """Set by `hook_factory`."""


class _Mark(NamedTuple):
    # An attribute of the hook. A table of hooks would keep what the metadata knows, and so the
    # application of each hook, for ever.
    hook: ref[Any]
    metadata: HookMetadata


_MARK: Final = "__alula_hook__"


def annotate_hook(hook: AnyHook, **metadata: Unpack[HookMetadata]) -> AnyHook:
    """Attach metadata to a hook, and return the hook.

    Args:
        hook: The hook: a function, or another object that takes attributes and weak references. A
            bound method takes none; put it into a function.
        metadata: See `HookMetadata`.

    Raises:
        TypeError: The hook takes no attributes.

    Examples:
        >>> def check_search(context): ...
        >>> hook = annotate_hook(check_search, query={"type": "object"}, kinds=("before",))
        >>> hook_metadata(hook)["kinds"]
        ('before',)
    """
    try:
        # Not by `setattr`: a frozen dataclass may be a hook, too.
        object.__setattr__(hook, _MARK, _Mark(ref(hook), metadata))
    except (AttributeError, TypeError):
        raise TypeError(
            f"annotate_hook: {name_of(hook)} takes no attributes; put it into a function"
        ) from None
    return hook


def hook_metadata(hook: object) -> HookMetadata:
    """Return the metadata of a hook, empty for most."""
    mark = getattr(hook, _MARK, None)
    # `functools.wraps` copies the mark to a hook that wraps this one, which has to run itself.
    if not isinstance(mark, _Mark) or mark.hook() is not hook:
        return {}
    return mark.metadata


def hook_factory(call: str) -> Callable[[AnyHook], AnyHook]:
    """Mark a function that returns hooks or resolvers and is not one itself.

    Without the mark, ``before=[hash_password]`` would call it with the context and hash nothing.

    Args:
        call: An example call for error messages: ``hash_password("password")``.
    """
    return lambda function: annotate_hook(function, call=call)


def factory_call(function: object) -> str | None:
    """Return the example call of a function marked by `hook_factory`, None for others."""
    return hook_metadata(function).get("call")


@hook_factory('disallow("external")')
def disallow(*providers: str) -> Callable[[HookContext], None]:
    """Return a before hook that refuses calls by their origin.

    ``messages.hooks(before={"remove": [disallow("external")]})`` keeps clients from removing.

    Args:
        providers: ``"external"`` for all calls of clients, ``"server"`` for internal calls, or the
            name of a provider such as ``"rest"``. Without any, every call is refused.

    Raises:
        ValueError: A name is a misspelled one of these, or the names are transports but not all of
            them, which would let calls pass.
        MethodNotAllowed: By the hook, for a call that it refuses.
    """
    _check_providers(providers)
    refused = frozenset(providers)

    def refuse(context: HookContext) -> None:
        provider = context.params.provider
        origin = "server" if provider is None else "external"
        if not providers or origin in refused or provider in refused:
            raise MethodNotAllowed(
                f"Provider '{provider or 'server'}' can not call '{context.method}'"
            )

    return refuse


def _check_providers(names: Collection[str]) -> None:
    """Raise what `disallow` raises for names of providers."""
    from difflib import get_close_matches  # noqa: PLC0415  # slow to import, and not per call

    for name in names:
        near = isinstance(name, str) and get_close_matches(name, _PROVIDERS, 1, 0.75)
        if near and name not in _PROVIDERS:
            raise ValueError(f"disallow({name!r}): did you mean {near[0]!r}?")
    missing = _TRANSPORTS.difference(names)
    if "external" not in names and 0 < len(missing) < len(_TRANSPORTS) - 1:
        raise ValueError(
            f"disallow: calls over {', '.join(sorted(missing))} would still pass; write"
            ' disallow("external") to refuse all calls of clients'
        )


def check_hook(kind: str, hook: object, where: str) -> None:
    """Check that an object can be a hook of a type.

    Raises:
        TypeError: It is not a function, takes the wrong number of arguments, or its metadata
            excludes this type.
    """
    arguments = ("context",) if kind in {"before", "after", "error"} else ("context", "next")
    shape = f"a function of ({', '.join(arguments)})"
    if not callable(hook):
        raise TypeError(f"{kind} hook of {where}: {hook!r} is not a function; expected {shape}")
    if isinstance(hook, type):
        raise TypeError(
            f"{kind} hook of {where}: {hook.__name__} is a class; register an instance,"
            f" {hook.__name__}(...), that can be called as {shape}"
        )
    if (call := factory_call(hook)) is not None:
        raise TypeError(
            f"{kind} hook of {where}: {name_of(hook)} makes a hook and is not one itself;"
            f" write {call}"
        )
    kinds = hook_metadata(hook).get("kinds")
    if kinds is not None and kind not in kinds:
        raise TypeError(
            f"{kind} hook {name_of(hook)} of {where} would have no effect; register it as"
            f" {' or '.join(kinds)} hook"
        )
    if (signature := unfit_signature(hook, *arguments)) is not None:
        if (twin := wrong_twin(hook)) is not None:
            raise TypeError(f"{kind} hook of {where}: {twin}")
        raise TypeError(
            f"{kind} hook {name_of(hook)} of {where} takes {signature}; expected {shape}"
        )
    for inner in hook_metadata(hook).get("hooks", ()):
        if hook_metadata(inner).keys() & _PLACES:
            raise TypeError(
                f"{kind} hook {name_of(inner)} of {where} runs at a place of its own, so it cannot"
                " have a condition; register the hook itself"
            )
        check_hook(kind, inner, where)


def check_order(hooks: Iterable[Hook], method: str, where: str) -> None:
    """Check that no hook that needs the user runs before `authenticate` sets it.

    If no hook has strategies, one of the application may set the user.

    Args:
        hooks: The around hooks and then the before hooks of a method, in their order.
        method: The method.
        where: Whose hooks these are, for the message.

    Raises:
        TypeError: One does.
    """
    waiting = ""
    for hook in hooks:
        metadata = hook_metadata(hook)
        if "strategies" not in metadata:
            waiting = waiting or metadata.get("needs_user", "")
            continue
        if waiting:
            raise TypeError(
                f"{waiting} of {where} would run before `authenticate` for `{method}`, so without a"
                " user; register it behind authenticate(...). Around hooks run before all before"
                " hooks, and hooks for all methods before those for one"
            )
        return


_ADVICE: Final = {
    "before": "set what it changes: context.data = ..., context.params.query = ...,"
    " context.result = ... to skip the method",
    "after": "set what it changes: context.result = ...",
    "error": "set what it changes: context.error = ..., or context.result = ... to recover",
    "around": "set what it changes, such as context.data before `await next()` and context.result"
    " after it",
}

# Types of values that a hook returns by mistake, in the belief that they have an effect. Others,
# such as the result of a lambda that calls a function, are ignored. Not `Final`: type checkers
# would narrow values to types whose arguments they do not know.
_MISTAKEN: tuple[type, ...] = (
    Mapping,
    list,
    tuple,
    BaseException,
    HookContext,
    Params,
    types.FunctionType,
)


def check_returned(kind: str, hook: Hook, value: object, context: HookContext) -> None:
    """Refuse a returned value that would be lost, such as new data or an error.

    Raises:
        TypeError: The message says what to write instead.
    """
    if value is context or not (value is False or isinstance(value, _MISTAKEN)):
        return
    advice = _ADVICE[kind]
    if inspect.isfunction(value):
        advice = f"if it makes hooks, call it where it is registered: {name_of(hook)}(...)"
    elif isinstance(value, BaseException):
        advice = f"to refuse the call, raise it: raise {type(value).__name__}(...)"
    elif value is False:
        advice = 'to refuse the call, raise an error: raise Forbidden("...")'
    type_name = type(value).__name__
    article = "an" if type_name[0].lower() in "aeiou" else "a"
    raise TypeError(
        f"{kind} hook {name_of(hook)} returned {article} {type_name}, which is not used;"
        f" {advice} (`{context.method}` of {context.service!r})"
    )
