"""What an OpenID provider publishes about itself: its endpoints, and the keys of its signatures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from alula.accounts.providers._exchange import Exchange, is_secure_url
from alula.accounts.providers._provider import ProviderError, missing_library
from alula.types import is_dict, is_list

try:
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry, Key
except ImportError as error:
    raise missing_library(error) from error

__all__ = ["Discovery", "Metadata", "SigningKey"]

KEPT_SECONDS: Final = 3600
# A signature by an unknown key reads the keys again, but not more often than this.
RENEWED_SECONDS: Final = 60
# After a failure people get the same error at once, so that they do not wait one after the other.
FAILED_SECONDS: Final = 5

_PATH: Final = "/.well-known/openid-configuration"
_KEY_TYPES: Final = ("RSA", "EC")
# The members that a check needs. A private key, which nobody should publish, is not read.
_PUBLIC: Final = frozenset({"kty", "n", "e", "crv", "x", "y", "kid", "use", "alg", "key_ops"})
_MAX_KEYS: Final = 100
_LEAST_RSA_LETTERS: Final = 342  # of the modulus: 2048 bits in base64

T = TypeVar("T")


@dataclass(frozen=True)
class Metadata:
    """The part of a discovery document that a sign-in needs."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    takes_secret_in_body: bool
    sends_issuer: bool


@dataclass(frozen=True)
class SigningKey:
    """A public key of the provider, with its members that say what it is for."""

    key: Key
    members: Mapping[str, Any]

    def suits(self, header: Mapping[str, Any]) -> bool:
        """Tell whether a signature with this header may be by this key."""
        algorithm = header["alg"]
        kind = "EC" if algorithm.startswith("ES") else "RSA"
        return bool(
            self.members["kty"] == kind
            and self.members.get("use", "sig") == "sig"
            and self.members.get("alg", algorithm) == algorithm
            and header.get("kid", self.members.get("kid")) == self.members.get("kid")
        )


class Discovery:
    """Reads what a provider publishes, and keeps it for an hour.

    Args:
        issuer: The issuer that the document has to name, character by character.
        url: Where the provider is, None for the issuer.
    """

    def __init__(self, exchange: Exchange, issuer: str, url: str | None = None) -> None:
        self._exchange = exchange
        self._issuer = issuer
        self._url = (url or issuer).removesuffix("/") + _PATH
        self.forget()

    def forget(self) -> None:
        """Read everything again when it is needed."""
        self._metadata = _Cached(self._read_metadata)
        self._keys = _Cached(self._read_keys)

    async def metadata(self) -> Metadata:
        """Return the endpoints.

        Raises:
            ProviderError: They cannot be read, or belong to another issuer.
        """
        return await self._metadata.value(KEPT_SECONDS)

    async def keys(self, *, renewed: bool = False) -> tuple[SigningKey, ...]:
        """Return the keys.

        Args:
            renewed: Whether to read them again, unless that has happened within a minute.

        Raises:
            ProviderError: They cannot be read.
        """
        return await self._keys.value(RENEWED_SECONDS if renewed else KEPT_SECONDS)

    async def _read_metadata(self) -> Metadata:
        document = await self._exchange.get(self._url)
        if not is_dict(document) or document.get("issuer") != self._issuer:
            raise ProviderError(
                "invalid",
                f"the document at {self._url} names another issuer than {self._issuer}; issuer="
                " has to be the same, character by character",
            )
        methods = document.get("token_endpoint_auth_methods_supported")
        has_userinfo = document.get("userinfo_endpoint") is not None
        return Metadata(
            self._endpoint(document, "authorization_endpoint"),
            self._endpoint(document, "token_endpoint"),
            self._endpoint(document, "jwks_uri"),
            self._endpoint(document, "userinfo_endpoint") if has_userinfo else None,
            is_list(methods) and "client_secret_post" in methods,
            document.get("authorization_response_iss_parameter_supported") is True,
        )

    def _endpoint(self, document: Mapping[str, Any], name: str) -> str:
        endpoint = document.get(name)
        if isinstance(endpoint, str) and is_secure_url(endpoint):
            return endpoint
        text = f"the {name} in the document at {self._url} is not an https URL"
        raise ProviderError("invalid", text)

    async def _read_keys(self) -> tuple[SigningKey, ...]:
        metadata = await self.metadata()
        document = await self._exchange.get(metadata.jwks_uri)
        members = document.get("keys") if is_dict(document) else None
        if not is_list(members):
            raise ProviderError("invalid", f"there are no keys at {metadata.jwks_uri}")
        return tuple(_signing_keys(members[:_MAX_KEYS]))


class _Cached(Generic[T]):
    """Something that is read by one caller at a time, and kept."""

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._lock = asyncio.Lock()
        self._value: T | None = None
        self._read_at = 0.0
        self._failure: ProviderError | None = None
        self._failed_at = 0.0

    async def value(self, seconds: float) -> T:
        """Return what was read within the last seconds, or read it.

        Raises:
            ProviderError: It cannot be read, or could not a moment ago.
        """
        async with self._lock:
            now = time.monotonic()
            if self._value is not None and now - self._read_at < seconds:
                return self._value
            if self._failure is not None and now - self._failed_at < FAILED_SECONDS:
                raise ProviderError(self._failure.code, str(self._failure))
            try:
                self._value = await self._read()
            except ProviderError as error:
                self._failure, self._failed_at = error, time.monotonic()
                raise
            self._read_at = time.monotonic()
            return self._value


def _signing_keys(keys: Iterable[object]) -> Iterable[SigningKey]:
    """Yield the keys that can check a signature; others are no error (RFC 7517, section 5)."""
    for members in keys:
        if not is_dict(members) or members.get("kty") not in _KEY_TYPES:
            continue
        if members["kty"] == "RSA" and len(str(members.get("n"))) < _LEAST_RSA_LETTERS:
            continue
        try:
            key = JWKRegistry.import_key({k: v for k, v in members.items() if k in _PUBLIC})
        except (JoseError, ValueError, TypeError, LookupError):  # a key that is not one
            continue
        yield SigningKey(key, members)
