"""What a sign-in takes and answers, as far as the strategies of its service tell."""

from __future__ import annotations

import sys
from typing import Any, Final

__all__ = ["answer_of_sign_in", "is_sign_in", "proofs_of_sign_in"]

_TEXT: Final = {"type": "string"}


def is_sign_in(service: Any) -> bool:
    """Tell whether this is a service of sign-ins."""
    # Nothing is one where nobody has imported the class, whose packages may not be installed.
    if "alula.authentication" not in sys.modules:
        return False
    # Only where it is there: it belongs to another extra.
    from alula.authentication import AuthenticationService  # noqa: PLC0415

    return isinstance(service, AuthenticationService)


def proofs_of_sign_in(service: Any) -> dict[str, Any]:
    """Return the JSON Schema of what can be sent to sign in.

    A name with a password comes first: examples are made of the first, and those who try one out
    have no token yet.
    """
    names = sorted(service.strategies, key=lambda name: not _is_local(service, name))
    proofs = [_proof_of(service, name) for name in names]
    return proofs[0] if len(proofs) == 1 else {"type": "object", "anyOf": proofs}


def answer_of_sign_in(service: Any) -> dict[str, Any]:
    """Return the JSON Schema of what comes back."""
    tokens = ["accessToken"] if service.sessions is None else ["accessToken", "refreshToken"]
    proof = {"type": "object", "properties": {"strategy": _TEXT, "payload": {"type": "object"}}}
    properties = {**dict.fromkeys(tokens, _TEXT), "authentication": proof}
    if service.entity is not None:
        properties[service.entity] = {"type": "object"}
    return {"type": "object", "properties": properties}


def _proof_of(service: Any, name: str) -> dict[str, Any]:
    fields = _fields_of(service, name)
    properties = {"strategy": {"type": "string", "const": name}, **dict.fromkeys(fields, _TEXT)}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _is_local(service: Any, name: str) -> bool:
    from alula.authentication import LocalStrategy  # noqa: PLC0415  # as above

    try:
        return isinstance(service.strategy(name), LocalStrategy)
    except LookupError:
        return False


def _fields_of(service: Any, name: str) -> tuple[str, ...]:
    """Return the fields of a proof, none where its strategy is not one of ours or not there yet."""
    from alula.authentication import JWTStrategy, LocalStrategy  # noqa: PLC0415  # as above
    from alula.authentication._refresh_tokens import RefreshStrategy  # noqa: PLC0415

    try:
        strategy = service.strategy(name)
    except LookupError:
        return ()
    if isinstance(strategy, LocalStrategy):
        return strategy.username_field, strategy.password_field
    if isinstance(strategy, JWTStrategy):
        return ("accessToken",)
    return ("refreshToken",) if isinstance(strategy, RefreshStrategy) else ()
