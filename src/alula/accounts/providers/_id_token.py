"""ID tokens of OpenID Connect: whose they are, for whom, and that the provider has signed them."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from authlib.oidc.core import CodeIDToken  # type: ignore[import-untyped]  # it has no types
from joserfc import jws, jwt
from joserfc.errors import ClaimError, JoseError
from joserfc.jwk import Key

from alula.accounts.providers._discovery import Discovery, SigningKey
from alula.accounts.providers._provider import ProviderError

__all__ = ["ALGORITHMS", "Expected", "read_id_token"]

ALGORITHMS: Final = tuple(
    f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)
)
"""The algorithms that can be allowed: signatures that only the provider can make."""

_LEEWAY_SECONDS: Final = 60
_MAX_SUBJECT: Final = 255


@dataclass(frozen=True)
class Expected:
    """What a token has to be.

    Attributes:
        issuer: Returns who has to be the issuer, given the claims and the members of the key.
        client_id: For whom it is.
        algorithms: How it may be signed.
        nonce: What the start of the sign-in has sent.
        access_token: What came with it.
    """

    issuer: Callable[[Mapping[str, Any], Mapping[str, Any]], str]
    client_id: str
    algorithms: Sequence[str]
    nonce: str = field(repr=False)
    access_token: str = field(repr=False)


class _NoKeyError(Exception):
    """No key that the provider publishes fits the token."""


async def read_id_token(
    id_token: object, discovery: Discovery, expected: Expected
) -> dict[str, Any]:
    """Return the claims of an ID token that is genuine, meant for this sign-in, and not expired.

    Raises:
        ProviderError: It is not, or the keys cannot be read.
    """
    if not isinstance(id_token, str) or not id_token.isascii():
        raise ProviderError("invalid", "the provider sent no ID token")
    try:
        try:
            token, members = _verified(id_token, await discovery.keys(), expected.algorithms)
        except _NoKeyError:
            keys = await discovery.keys(renewed=True)
            token, members = _verified(id_token, keys, expected.algorithms)
        claims = token.claims
        _check_types(claims, expected)
        options = {
            "iss": {"value": expected.issuer(claims, members)},
            "aud": {"value": expected.client_id},
        }
        known = {
            "client_id": expected.client_id,
            "nonce": expected.nonce,
            "access_token": expected.access_token,
        }
        checked: Any = CodeIDToken(claims, token.header, options, known)
        checked.validate(leeway=_LEEWAY_SECONDS)
    except ClaimError as error:
        text = f"the claim {error.claim} of the ID token is missing or wrong"
        raise ProviderError("invalid", text) from None
    except _NoKeyError:
        text = "the ID token is not signed by a key of the provider"
        raise ProviderError("invalid", text) from None
    except JoseError as error:
        raise ProviderError("invalid", f"the ID token is not valid: {error.error}") from None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        # Values of other types than the libraries expect.
        raise ProviderError("invalid", "the ID token is not valid") from None
    return claims


def _verified(
    id_token: str, keys: Sequence[SigningKey], algorithms: Sequence[str]
) -> tuple[jwt.Token, Mapping[str, Any]]:
    """Return a token whose signature is right, and the members of the key."""
    chosen: list[SigningKey] = []

    def choose(unverified: Any) -> Key:
        suitable = [key for key in keys if key.suits(unverified.headers())]
        if not suitable or (len(suitable) > 1 and "kid" not in unverified.headers()):
            raise _NoKeyError
        chosen.append(suitable[0])
        return suitable[0].key

    # Headers that this library does not know are no error (RFC 7515, section 4).
    registry = jws.JWSRegistry(algorithms=algorithms, strict_check_header=False)
    return jwt.decode(id_token, choose, registry=registry), chosen[0].members


def _check_types(claims: Mapping[str, Any], expected: Expected) -> None:
    """Check what the library skips: a claim that is there, but empty or of a wrong type."""
    subject = claims.get("sub")
    # Half of a surrogate pair could not be stored; it cannot be printed, either.
    if not (
        isinstance(subject, str) and 0 < len(subject) <= _MAX_SUBJECT and subject.isprintable()
    ):
        raise ProviderError("invalid", "the claim sub of the ID token is missing or wrong")
    nonce, at_hash = claims.get("nonce"), claims.get("at_hash", "-")
    if not isinstance(nonce, str) or not hmac.compare_digest(
        nonce.encode(), expected.nonce.encode()
    ):
        raise ProviderError("invalid", "the claim nonce of the ID token is missing or wrong")
    if not isinstance(at_hash, str) or not at_hash:
        raise ProviderError("invalid", "the claim at_hash of the ID token is wrong")
    if claims.get("azp", expected.client_id) != expected.client_id:
        raise ProviderError("invalid", "the claim azp of the ID token is wrong")
