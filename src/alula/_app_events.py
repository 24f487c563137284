"""Events of the application itself: their names, and what their listeners get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from alula._events import Listener
from alula._user_code import did_you_mean, name_of, unfit_signature
from alula.types import EVENT_OF_METHOD

__all__ = ["check_app_event", "check_app_listener"]

_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "connection": ("connection",),
    "disconnect": ("connection",),
    "login": ("result", "params", "context"),
    "logout": ("result", "params", "context"),
    "user_changed": ("connection", "before"),
}
_OTHER_WORDS: Final = {
    **dict.fromkeys(["connect", "connected", "connecting", "join", "open"], "connection"),
    **dict.fromkeys(["disconnected", "disconnection", "disconnecting", "close"], "disconnect"),
    **dict.fromkeys(["signin", "sign_in", "sign-in", "logged_in", "authenticated"], "login"),
    **dict.fromkeys(["signout", "sign_out", "sign-out", "logged_out"], "logout"),
}
"""What others call these events. An application emits any events of its own, of other names."""

_TYPING_ERROR: Final = 0.85
"""How alike the names of events are where one is meant for the other."""


def check_app_event(event: str) -> None:
    """Refuse to listen at the application to an event that it does not emit.

    Raises:
        ValueError: Its services emit the event, or another name is meant.
    """
    if event in EVENT_OF_METHOD.values():
        raise ValueError(
            f"an application emits no {event!r}, its services do; listen to one of them:"
            f" app.service(path).on({event!r}, listener)"
        )
    if event in _ARGUMENTS:
        return
    hint = did_you_mean(event, _ARGUMENTS, _TYPING_ERROR)
    if event in _OTHER_WORDS:
        hint = f"; did you mean {_OTHER_WORDS[event]!r}?"
    if hint:
        raise ValueError(
            f"an application emits no {event!r}{hint} It emits {', '.join(_ARGUMENTS)}; events of"
            " your own need a name that is not like these"
        )


def check_app_listener(event: str, listener: Listener) -> None:
    """Refuse a listener that does not take what an event of the application gives.

    Raises:
        TypeError: It takes other arguments.
    """
    arguments = _ARGUMENTS.get(event, ())
    signature = unfit_signature(listener, *arguments) if arguments else None
    if signature is not None:
        raise TypeError(
            f"the listener {name_of(listener)} for {event!r} of the application takes {signature};"
            f" listeners are called with ({', '.join(arguments)})"
        )
