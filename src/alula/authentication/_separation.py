"""Two authentication services for different users must not take each other's tokens.

A token names its user by id alone, so that of user 1 of the one would be good for user 1 of the
other. It does not name the service: FeathersJS makes none that do, and theirs are good here.
"""

from __future__ import annotations

from typing import Any

from alula._identity import find_authentication
from alula._service import ServiceHandle
from alula.authentication._tokens import Tokens

__all__ = ["check_separation"]


def check_separation(authentication: Any, app: Any, path: str) -> None:
    """See to it that no other authentication service takes tokens of one for its own users.

    Args:
        authentication: The service.
        app: The application that has it.
        path: Where it is registered.

    Raises:
        ValueError: Another one does, or the other way round; the message says what to do.
    """
    for place in app.services:
        other = find_authentication(app, place)
        if isinstance(getattr(other, "tokens", None), Tokens) and _mixed_up(authentication, other):
            raise ValueError(
                f"the authentication services {path!r} and {place!r} have different users, in"
                f" {authentication.entities.path!r} and {other.entities.path!r}, and the token of a"
                " user of one would be good for the user of the same id of the other; give one of"
                f" them a secret or an audience of its own: AuthenticationService(app,"
                f" audience={place!r})"
            )


def _mixed_up(one: Any, other: Any) -> bool:
    if one.entities is None or other.entities is None or _users_of(one) is _users_of(other):
        return False
    first: Tokens = one.tokens
    second: Tokens = other.tokens
    return first.accepts_those_of(second) or second.accepts_those_of(first)


def _users_of(authentication: Any) -> Any:
    service = authentication.entities.handle
    while isinstance(service, ServiceHandle):  # that of another application
        service = service.service
    return service
