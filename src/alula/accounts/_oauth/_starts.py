"""What the server remembers between sending a browser to a provider and its return.

What holds in this file:

- It is kept in a cookie of the browser, encrypted, so another browser cannot finish what this one
  began, and nobody reads the verifier and the nonce.
- Each start has its own cookie, whose name is made from the state. So two tabs do not disturb each
  other.
- A state is valid once.
"""

from __future__ import annotations

import hmac
import json
import re
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import asdict, dataclass, field
from secrets import token_bytes, token_urlsafe
from typing import Any, Final

from alula._cookies import SameSite, format_cookie, parse_cookies
from alula.accounts.providers._provider import missing_library
from alula.authentication._sealed import UsedValues

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError as error:
    raise missing_library(error) from error

__all__ = ["Start", "Starts"]

_PREFIX: Final = "__Host-oauth-"
_STATE: Final = re.compile(r"[\w-]{43}", re.ASCII)
_NAME: Final = re.compile(r"__Host-oauth-[\w-]{16}", re.ASCII)
_SECONDS: Final = 600  # in which people sign in at the provider
_MOST: Final = 5  # starts of one browser at the same time
_NONCE_BYTES: Final = 12


def _secret() -> str:
    return token_urlsafe(32)


@dataclass(frozen=True, kw_only=True, repr=False)  # its text would have secrets
class Start:
    """One start.

    Attributes:
        provider: The name of the provider.
        issuer: Its issuer.
        target: Where the browser goes in the end, None where there are no pages.
        user_id: Who gets the identity, None to sign in.
        session_id: The session of that user.
        began_at: When it began, in seconds since 1970.
        state: The text by which the callback finds the start.
        nonce: The text that the provider puts into its ID token.
        verifier: The secret behind the code challenge (PKCE).
    """

    provider: str
    issuer: str
    target: str | None
    user_id: str | None = None
    session_id: str | None = None
    began_at: int = field(default_factory=lambda: int(time.time()))
    state: str = field(default_factory=_secret)
    nonce: str = field(default_factory=_secret)
    verifier: str = field(default_factory=_secret)


class Starts:
    """Writes the cookies of starts, and reads them once."""

    def __init__(self) -> None:
        self._used = UsedValues("oauth start", _SECONDS)
        self._cipher = AESGCM(token_bytes(32))  # until the setup, which knows the secret

    def setup(self, authentication: Any, path: str) -> None:
        """Derive the key, and find out where used states are remembered.

        Args:
            authentication: The authentication service.
            path: A text that distinguishes its starts from those of other services.
        """
        self._cipher = AESGCM(authentication.derived_key(b"accounts: oauth start"))
        self._used.setup(authentication, path)

    def cookies_of(
        self, start: Start, sent: str | None, *, same_site: SameSite = "lax"
    ) -> list[str]:
        """Return the headers ``Set-Cookie`` of a new start.

        Args:
            start: The start.
            sent: The header ``Cookie`` of its request. If it has too many starts, the oldest are
                removed.
            same_site: ``"none"`` if the provider sends its response as a POST from its own page.
        """
        name = _name_of(start.state)
        value = self._encrypted(name, start)
        lines = [format_cookie(name, value, max_age=_SECONDS, same_site=same_site)]
        ages: dict[str, int] = {}
        for other, text in parse_cookies(sent).items():
            if _NAME.fullmatch(other):
                earlier = self._decrypted(other, text)
                ages[other] = 0 if earlier is None else earlier.began_at
        given_up = sorted(ages, key=ages.__getitem__, reverse=True)[_MOST - 1 :]
        return lines + [format_cookie(other, "", max_age=0) for other in given_up]

    def find(self, state: object, sent: str | None) -> Start | None:
        """Return the start of a callback, None if this browser has none that is still valid.

        Args:
            state: What the callback has as its state; any value.
            sent: The header ``Cookie`` of its request.
        """
        if not isinstance(state, str) or not _STATE.fullmatch(state):
            return None
        name = _name_of(state)
        start = self._decrypted(name, parse_cookies(sent, only=name).get(name, ""))
        if start is None or not hmac.compare_digest(start.state, state):
            return None
        return start

    def removal_of(self, start: Start) -> str:
        """Return the header ``Set-Cookie`` that removes the cookie of a start."""
        return format_cookie(_name_of(start.state), "", max_age=0)

    async def use_up(self, start: Start) -> bool:
        """Mark a start as used, and return whether this was its first use."""
        until = (start.began_at + _SECONDS) * 1000
        return await self._used.use_up(self._used.key_of(start.state), until)

    def _encrypted(self, name: str, start: Start) -> str:
        nonce = token_bytes(_NONCE_BYTES)
        text = json.dumps(asdict(start), separators=(",", ":"))
        # With the name: the value of one cookie is not valid in another.
        sealed = nonce + self._cipher.encrypt(nonce, text.encode(), name.encode())
        return urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def _decrypted(self, name: str, value: str) -> Start | None:
        """Return the start in a cookie, None if it is not ours or too old."""
        try:
            sealed = urlsafe_b64decode(value + "=" * (-len(value) % 4))
            text = self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], name.encode())
        except (ValueError, InvalidTag):
            return None
        start = Start(**json.loads(text))
        return start if start.began_at + _SECONDS > time.time() else None


def _name_of(state: str) -> str:
    return _PREFIX + state[:16]
