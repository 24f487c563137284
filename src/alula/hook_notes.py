"""What hooks say about themselves, for those who describe an application.

A hook is a function; what it checks can not be seen from outside. Whoever makes one notes it here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

__all__ = ["call_to_write", "maker", "note", "notes_on"]

Hook = TypeVar("Hook", bound=Callable[..., Any])

_NOTES: WeakKeyDictionary[Any, Mapping[str, Any]] = WeakKeyDictionary()


def note(hook: Hook, **what: Any) -> Hook:
    """Note something about a hook, and return it.

    Args:
        hook: The hook, a function or anything else that weak references can be made to.
        what: ``query``, what checks the query; ``data``, a function from a method to what checks
            its data, or to None; ``strategies``, the names of those by which callers prove who
            they are; ``kinds``, the types of hooks that it can be, where it could be called as
            another one and do nothing; ``around``, of an after hook, an around hook that belongs
            to it: it runs outside all others of its level; ``outermost``, True of an around hook
            that does so itself; ``call``, see `maker`.
    """
    _NOTES[hook] = what
    return hook


def notes_on(hook: Any) -> Mapping[str, Any]:
    """Return what was noted about a hook, nothing for most."""
    try:
        return _NOTES.get(hook, {})
    except TypeError:  # nothing can be noted about it, such as a built-in function
        return {}


def maker(call: str) -> Callable[[Hook], Hook]:
    """Note of a function that it makes hooks or resolvers, and is not one itself.

    Without this, ``before=[hash_password]`` would be called with the context, and hash nothing.

    Args:
        call: How it is called: ``hash_password("password")``.
    """
    return lambda function: note(function, call=call)


def call_to_write(function: Any) -> str | None:
    """Return the call of a function that makes hooks or resolvers, None for what is one itself."""
    return notes_on(function).get("call")
