"""Access tokens: made, and checked, by one pinned algorithm.

What holds in this file: the signature comes first, and nothing of a token counts before it. Texts
and data of the errors are those that FeathersJS front ends know.
"""

from __future__ import annotations

import hmac
import json
import re
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, TypeAlias

import jwt

from alula._identity import find_authentication
from alula._service import owning_handle
from alula.errors import NotAuthenticated
from alula.outgoing import javascript_date

__all__ = ["Duration", "Tokens", "check_separation", "milliseconds_of", "seconds_of"]

Duration: TypeAlias = float | str | timedelta
"""Seconds, a `timedelta`, or a text such as ``"15m"``: s, m, h, d or w."""

# Secrets are as long as the hash, as RFC 7518 asks for.
_LEAST_SECRET: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
_LONGEST_TOKEN: Final = 8192
_KEPT: Final = 2048  # checked signatures that are remembered

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?) ?([smhdw])")
_NUMBERS: Final = (int, float)
_SCALARS: Final = (str, int, float, type(None))


class Tokens:
    """Makes access tokens and checks them.

    Args:
        secret: The key of the signatures.
        algorithm: ``"HS256"``, ``"HS384"`` or ``"HS512"``; no token chooses another.
        audience: Whom tokens are for; of a list, a token needs one. None sets none and takes any.
        issuer: Who makes them; None sets none and takes any.
        expires_in: How long they are valid.
        needs_subject: Whether a token has to name its user.
        types: What the header ``typ`` of a token may be; the first is that of new ones.

    Raises:
        ValueError: One of these is not in order; the text says what.
    """

    def __init__(
        self,
        secret: str | bytes,
        *,
        algorithm: str = "HS256",
        audience: str | Iterable[str] | None = "https://yourdomain.com",
        issuer: str | None = None,
        expires_in: Duration = "1d",
        needs_subject: bool = True,
        types: Iterable[str] = ("access",),
    ) -> None:
        self._secret = secret.encode() if isinstance(secret, str) else secret
        self._algorithm = algorithm
        self._audience: tuple[str, ...] | None = None
        if audience is not None:
            self._audience = (audience,) if isinstance(audience, str) else tuple(audience)
        self._types: tuple[str, ...] = () if isinstance(types, str) else tuple(types)
        if not self._types:
            raise ValueError(
                f"token_types is {types!r}; give a list of the types that tokens may have, such as"
                " ['access', 'JWT']"
            )
        self._issuer = issuer
        self._seconds = seconds_of(expires_in)
        self._needs_subject = needs_subject
        least = _LEAST_SECRET.get(algorithm)
        if least is None:
            raise ValueError(f"algorithm is {algorithm!r}; use one of {', '.join(_LEAST_SECRET)}")
        if len(self._secret) < least:
            raise ValueError(
                f"the secret has {len(self._secret)} bytes; {algorithm} needs {least}. Make one"
                " with: python -c 'import secrets; print(secrets.token_urlsafe(48))'"
            )
        self._jws = jwt.PyJWS(algorithms=[algorithm])
        try:
            self._jws.get_algorithm_by_name(algorithm).prepare_key(self._secret)
        except jwt.InvalidKeyError:
            raise ValueError(
                f"the secret is a public key or a certificate, which others know; {algorithm}"
                " needs random bytes that nobody knows"
            ) from None
        # A token is sent with every request; its signature never changes, its time does.
        self._signed = lru_cache(_KEPT)(self._check_signed)

    def create(self, claims: Mapping[str, Any], subject: str | None = None) -> str:
        """Return a new token.

        Args:
            claims: What the payload has besides the usual; an ``exp`` replaces the usual one.
            subject: The id of the user.
        """
        now = int(time.time())
        payload: dict[str, Any] = {"exp": now + self._seconds, **claims, "iat": now}
        if self._audience is not None:
            only = len(self._audience) == 1
            payload["aud"] = self._audience[0] if only else list(self._audience)
        if self._issuer is not None:
            payload["iss"] = self._issuer
        if subject is not None:
            payload["sub"] = subject
        payload.setdefault("jti", str(uuid.uuid4()))
        return jwt.encode(payload, self._secret, self._algorithm, headers={"typ": self._types[0]})

    def verify(self, token: object) -> dict[str, Any]:
        """Return the payload of a token.

        Raises:
            NotAuthenticated: It is not in order, not for this audience, or not valid now.
        """
        if not isinstance(token, str):
            raise _refused("jwt must be a string")
        payload, flat = self._signed(token)
        now = time.time()
        not_before, expires = payload.get("nbf"), payload["exp"]
        if not_before is not None and not_before > now:
            raise _refused("jwt not active", "NotBeforeError", date=_shown(not_before))
        if not expires > now:
            raise _refused("jwt expired", "TokenExpiredError", expiredAt=_shown(expires))
        # Hooks may change what they get, and must not change what is remembered.
        return dict(payload) if flat else deepcopy(payload)

    def accepts_those_of(self, other: Tokens) -> bool:
        """Tell whether a token that another one makes is good here."""
        return (
            (self._secret, self._algorithm) == (other._secret, other._algorithm)
            and self._takes_audience(other._audience)
            and self._issuer in {None, other._issuer}
            and other._types[0] in self._types
        )

    def _takes_audience(self, audience: Any) -> bool:
        if self._audience is None:
            return True
        targets = audience if isinstance(audience, list | tuple) else [audience]
        return any(target in self._audience for target in targets)

    def derived_key(self, purpose: bytes) -> bytes:
        """Return a key for another purpose, from which nobody gets back to the secret."""
        return hmac.digest(self._secret, b"alula:" + purpose, "sha256")

    def _check_signed(self, token: str) -> tuple[dict[str, Any], bool]:
        """Check all of a token that does not depend on the time."""
        header, payload = self._read(token)
        self._check_claims(header, payload)
        return payload, all(isinstance(value, _SCALARS) for value in payload.values())

    def _read(self, token: str) -> tuple[dict[str, Any], dict[str, Any]]:
        parts = token.split(".")
        if len(parts) != 3 or len(token) > _LONGEST_TOKEN:
            raise _refused("jwt malformed")
        if not parts[2]:
            raise _refused("jwt signature is required")
        try:
            found = self._jws.decode_complete(token, self._secret, algorithms=[self._algorithm])
            payload = json.loads(found["payload"])
            if _encoded(found["signature"]) != parts[2]:  # Base64 has many texts for one value
                raise _refused("invalid signature")
        except jwt.InvalidSignatureError:
            raise _refused("invalid signature") from None
        except jwt.InvalidAlgorithmError:
            raise _refused("invalid algorithm") from None
        except (jwt.InvalidTokenError, ValueError, RecursionError):
            raise _refused("invalid token") from None
        if not isinstance(payload, dict):
            raise _refused("invalid token")
        return found["header"], payload

    def _check_claims(self, header: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        if header.get("typ") not in self._types:
            raise _refused(f"jwt type invalid. expected: {' or '.join(self._types)}")
        if type(payload.get("exp")) not in _NUMBERS:
            raise _refused("invalid exp value")
        if "nbf" in payload and type(payload["nbf"]) not in _NUMBERS:
            raise _refused("invalid nbf value")
        if not self._takes_audience(payload.get("aud")):
            expected = " or ".join(self._audience or ())
            raise _refused(f"jwt audience invalid. expected: {expected}")
        if self._issuer is not None and payload.get("iss") != self._issuer:
            raise _refused(f"jwt issuer invalid. expected: {self._issuer}")
        subject = payload.get("sub")
        if (self._needs_subject or "sub" in payload) and not (isinstance(subject, str) and subject):
            raise _refused("jwt subject invalid")


def check_separation(authentication: Any, app: Any, path: str) -> None:
    """Check that no two authentication services accept each other's tokens for different users.

    A token names its user by id alone, so the token of user 1 of one service would be good for
    user 1 of the other. The token does not name the service: FeathersJS makes none that do, and
    their tokens are accepted here.

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
    return owning_handle(authentication.entities.handle).service


def seconds_of(duration: Duration) -> int:
    """Return a duration in seconds.

    Raises:
        ValueError: It is none, or not longer than nothing.
    """
    seconds: float = 0
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, str):
        found = _DURATION.fullmatch(duration)
        seconds = float(found[1]) * _SECONDS[found[2]] if found else 0
    elif isinstance(duration, int | float):
        seconds = duration
    if seconds < 1:
        raise ValueError(f"{duration!r} is no duration; write '15m', '1d', seconds or a timedelta")
    return int(seconds)


def milliseconds_of(duration: Duration, option: str) -> int:
    """Return a duration as the times in such a service count.

    Raises:
        ValueError: It is none; the message names the option.
    """
    try:
        return seconds_of(duration) * 1000
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None


def _encoded(signature: bytes) -> str:
    return urlsafe_b64encode(signature).rstrip(b"=").decode()


def _shown(seconds: float) -> str | None:
    """Return a time as JavaScript shows it."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return javascript_date(moment)


def _refused(message: str, name: str = "JsonWebTokenError", **data: Any) -> NotAuthenticated:
    return NotAuthenticated(message, {"name": name, **data})
