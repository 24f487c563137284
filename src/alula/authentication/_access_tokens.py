"""Access tokens: JWTs, created and verified with one pinned algorithm.

Rule of this file: the signature is verified first; nothing in a token counts before that. Texts
and data of the errors are those of FeathersJS, which front ends know.
"""

from __future__ import annotations

import hmac
import json
import math
import re
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import jwt

from alula._identity import Application, find_authentication, services_of_host
from alula._service import owning_handle
from alula.authentication._entities import Entities
from alula.errors import NotAuthenticated
from alula.outgoing._text import javascript_date
from alula.types import is_array, is_dict, is_list

__all__ = ["Duration", "Tokens", "check_separation", "milliseconds_of", "seconds_of"]

Duration: TypeAlias = float | str | timedelta
"""Seconds, a `timedelta`, or a text such as ``"15m"``: s, m, h, d or w."""

# Secrets are at least as long as the hash (RFC 7518, section 3.2).
_MIN_SECRET_BYTES: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
_MAX_TOKEN_LENGTH: Final = 8192
_MAX_REMEMBERED: Final = 2048  # tokens whose signatures are not verified again
_MAX_REMEMBERED_BYTES: Final = 2**20  # of all of them together

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?) ?([smhdw])")
_NUMBERS: Final = (int, float)
_SCALARS: Final = (str, int, float, type(None))

_Entry: TypeAlias = tuple[Callable[[], dict[str, Any]], float, float, int]
"""What is remembered of a verified token: a function that returns a copy of its claims, its ``nbf``
and ``exp``, and its length in bytes. A plain tuple, since that is the fastest to read."""


class Tokens:
    """Creates and verifies access tokens.

    Args:
        secret: The key of the signatures.
        algorithm: ``"HS256"``, ``"HS384"`` or ``"HS512"``; no token chooses another.
        audience: The claim ``aud``; of a list, a token needs one. None sets none and accepts any.
        issuer: The claim ``iss``; None sets none and accepts any.
        expires_in: How long they are valid.
        needs_subject: Whether a token must name its user.
        types: The accepted values of the header ``typ``; the first is that of new tokens.

    Raises:
        ValueError: One of these is not valid; the message says which, and what to do.

    Attributes:
        lifetime: For how many seconds new tokens are valid.
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
        self.lifetime = seconds_of(expires_in)
        self._needs_subject = needs_subject
        min_bytes = _MIN_SECRET_BYTES.get(algorithm)
        if min_bytes is None:
            raise ValueError(
                f"algorithm is {algorithm!r}; use one of {', '.join(_MIN_SECRET_BYTES)}"
            )
        if len(self._secret) < min_bytes:
            raise ValueError(
                f"the secret has {len(self._secret)} bytes; {algorithm} needs {min_bytes}. Make one"
                " with: python -c 'import secrets; print(secrets.token_urlsafe(48))'"
            )
        self._jws = jwt.PyJWS(algorithms=[algorithm])
        try:
            self._jws.get_algorithm_by_name(algorithm).prepare_key(self._secret)
        except jwt.InvalidKeyError:
            raise ValueError(
                f"the secret is a public key or a certificate, which others may know; {algorithm}"
                " needs secret random bytes"
            ) from None
        # Verified tokens by their hashes. The key and the options of an instance never change.
        # Refused tokens are never remembered, so strangers cannot fill the memory.
        self._verified: dict[bytes, _Entry] = {}
        self._verified_bytes = 0

    def create(self, claims: Mapping[str, Any], subject: str | None = None) -> str:
        """Return a new token.

        Args:
            claims: Additional claims; an ``exp`` replaces the configured expiry.
            subject: The id of the user.
        """
        now = int(time.time())
        payload: dict[str, Any] = {"exp": now + self.lifetime, **claims, "iat": now}
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
            NotAuthenticated: It is not valid, not valid now, or for another audience.
        """
        if not isinstance(token, str):
            raise _refused("jwt must be a string")
        if len(token) > _MAX_TOKEN_LENGTH:  # before anything is read: clients choose the length
            raise _refused("jwt malformed")
        # A token is sent with every request. Its signature stays valid, so it is verified once,
        # and its times are checked each time (an authenticated get: -75 % instructions).
        key = blake2b(token.encode("utf-8", "surrogatepass")).digest()
        entry = self._verified.get(key)
        if entry is None:
            entry = self._check_signed(token)
            if entry[1] <= time.time() < entry[2]:  # one that has expired pushes no other out
                self._remember(key, entry)
        copy_of_claims, not_before, expires, _ = entry
        if not not_before <= time.time() < expires:
            if not not_before <= time.time():
                date = _javascript_date(not_before)
                raise _refused("jwt not active", "NotBeforeError", date=date)
            self.forget(token)
            raise _refused("jwt expired", "TokenExpiredError", expiredAt=_javascript_date(expires))
        # Hooks may change the payload that they get, but must not change the cached one.
        return copy_of_claims()

    def forget(self, token: object) -> None:
        """Forget a verified token, so that its signature is verified again the next time.

        Args:
            token: Any value; one that is not remembered changes nothing.
        """
        if not isinstance(token, str):
            return
        key = blake2b(token.encode("utf-8", "surrogatepass")).digest()
        if (forgotten := self._verified.pop(key, None)) is not None:
            self._verified_bytes -= forgotten[3]

    def _remember(self, key: bytes, entry: _Entry) -> None:
        """Remember a verified token, and forget the oldest ones if there are too many."""
        self._verified[key] = entry
        self._verified_bytes += entry[3]
        while len(self._verified) > _MAX_REMEMBERED or self._verified_bytes > _MAX_REMEMBERED_BYTES:
            # A dict keeps the order of insertion, and one token is far below the limit of bytes.
            self._verified_bytes -= self._verified.pop(next(iter(self._verified)))[3]

    def accepts_tokens_of(self, other: Tokens) -> bool:
        """Return whether tokens that another service creates are accepted here."""
        return (
            (self._secret, self._algorithm) == (other._secret, other._algorithm)
            and self._accepts_audience(other._audience)
            and self._issuer in {None, other._issuer}
            and other._types[0] in self._types
        )

    def _accepts_audience(self, audience: object) -> bool:
        if self._audience is None:
            return True
        targets = audience if is_array(audience) else [audience]
        return any(target in self._audience for target in targets)

    def derived_key(self, purpose: bytes) -> bytes:
        """Return a key for another purpose; the secret cannot be computed from it."""
        return hmac.digest(self._secret, b"alula:" + purpose, "sha256")

    def _check_signed(self, token: str) -> _Entry:
        """Return the entry of a valid token.

        Everything is checked that does not depend on the time.
        """
        header, payload = self._read(token)
        if header.get("typ") not in self._types:
            raise _refused(f"jwt type invalid. expected: {' or '.join(self._types)}")
        if type(payload.get("exp")) not in _NUMBERS:
            raise _refused("invalid exp value")
        if "nbf" in payload and type(payload["nbf"]) not in _NUMBERS:
            raise _refused("invalid nbf value")
        if not self._accepts_audience(payload.get("aud")):
            expected = " or ".join(self._audience or ())
            raise _refused(f"jwt audience invalid. expected: {expected}")
        if self._issuer is not None and payload.get("iss") != self._issuer:
            raise _refused(f"jwt issuer invalid. expected: {self._issuer}")
        subject = payload.get("sub")
        if (self._needs_subject or "sub" in payload) and not (isinstance(subject, str) and subject):
            raise _refused("jwt subject invalid")
        # Every request with the token gets a copy, and deepcopy is slow for a list such as `amr`.
        is_plain = all(
            isinstance(value, _SCALARS)
            or (is_list(value) and all(isinstance(item, _SCALARS) for item in value))
            for value in payload.values()
        )
        copy_of_claims = partial(_plain_copy if is_plain else deepcopy, payload)
        return copy_of_claims, payload.get("nbf", -math.inf), payload["exp"], len(token)

    def _read(self, token: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return header and payload of a token whose signature is right."""
        parts = token.split(".")
        if len(parts) != 3:
            raise _refused("jwt malformed")
        if not parts[2]:  # the attack of ``"alg": "none"`` (RFC 8725, section 2.1)
            raise _refused("jwt signature is required")
        try:
            decoded = self._jws.decode_complete(token, self._secret, algorithms=[self._algorithm])
            payload = json.loads(decoded["payload"])
            # Base64 has several texts for one value. Without this check, a token that is in a list
            # of revoked tokens could be spelled in another way, and would still be valid.
            if urlsafe_b64encode(decoded["signature"]).rstrip(b"=").decode() != parts[2]:
                raise _refused("invalid signature")
        except jwt.InvalidSignatureError:
            raise _refused("invalid signature") from None
        except jwt.InvalidAlgorithmError:
            raise _refused("invalid algorithm") from None
        except (jwt.InvalidTokenError, ValueError, RecursionError):
            raise _refused("invalid token") from None
        if not is_dict(payload):
            raise _refused("invalid token")
        return decoded["header"], payload


def check_separation(
    tokens: Tokens, entities: Entities | None, app: Application, path: str
) -> None:
    """Check that no two authentication services accept each other's tokens for different users.

    A token names its user by id alone, so the token of user 1 of one service would be valid for
    user 1 of the other. It does not name the service: FeathersJS creates none that do, and its
    tokens are accepted here. Applications that are mounted in one another, or beside one another,
    often have one secret, such as that of the environment.

    Args:
        tokens: The tokens of a service.
        entities: Its users.
        app: The application.
        path: Where the service is registered.

    Raises:
        ValueError: One accepts tokens of the other; the message says what to do.
    """
    if entities is None:
        return
    for other_path, other in services_of_host(app):
        try:
            other_tokens = getattr(other, "tokens", None)
        except ValueError:  # it has no secret, which its own setup reports
            continue
        if not isinstance(other_tokens, Tokens) or other.entities is None:
            continue
        if owning_handle(entities.handle) is owning_handle(other.entities.handle):
            continue
        if tokens.accepts_tokens_of(other_tokens) or other_tokens.accepts_tokens_of(tokens):
            is_own = find_authentication(app, other_path) is other
            where = "" if is_own else " of another application"
            raise ValueError(
                f"the authentication services {path!r} and {other_path!r}{where} have different"
                " users, in"
                f" {entities.path!r} and {other.entities.path!r}, and the token of a user of one"
                " would be valid for the user of the same id of the other; give one of them a"
                f" different secret or audience: AuthenticationService(app,"
                f" audience={other_path!r})"
            )


def seconds_of(duration: Duration) -> int:
    """Return a duration in seconds.

    Raises:
        ValueError: It is not a duration, or shorter than a second.
    """
    seconds: float = 0
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, str):
        match = _DURATION.fullmatch(duration)
        seconds = float(match[1]) * _SECONDS[match[2]] if match else 0
    elif isinstance(duration, int | float):
        seconds = duration
    if seconds < 1:
        raise ValueError(
            f"{duration!r} is not a duration; write '15m', '1d', seconds or a timedelta"
        )
    return int(seconds)


def milliseconds_of(duration: Duration, option: str) -> int:
    """Return the duration of an option in milliseconds.

    Raises:
        ValueError: It is not a duration; the message names the option.
    """
    try:
        return seconds_of(duration) * 1000
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None


def _javascript_date(seconds: float) -> str | None:
    """Return a time in the format of JavaScript's `Date.toJSON`, None if it is out of range."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return javascript_date(moment)


def _refused(message: str, name: str = "JsonWebTokenError", **data: str | None) -> NotAuthenticated:
    return NotAuthenticated(message, {"name": name, **data})


def _plain_copy(claims: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of claims that are scalars, or lists of scalars."""
    # As JSON has them, so by their type: a call for each claim would take longer than the copy.
    return {name: [*value] if type(value) is list else value for name, value in claims.items()}
