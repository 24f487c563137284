"""The strategy that accepts API keys: says who calls, and signs nobody in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from alula._context import Params
from alula._identity import SentRequest
from alula.accounts._api_keys import ApiKeys
from alula.accounts._budgets import charge_network
from alula.authentication import AuthenticationStrategy
from alula.authentication._base_strategy import is_sent_twice
from alula.errors import NotAuthenticated

__all__ = ["ApiKeyStrategy"]

_WRONG_KEYS_AN_HOUR: Final = 300
_AUTHORIZATION: Final = b"authorization"
_SCHEME: Final = "apikey"


class ApiKeyStrategy(AuthenticationStrategy):
    """Accepts ``{"strategy": "apiKey", "apiKey": "alu_..."}``.

    Args:
        keys: The keys.
        header: The name of a further header that has the key alone, None for none.
        takes_bearer: Whether ``Authorization: Bearer`` may have a key, too.
    """

    can_be_guessed = False  # 256 random bits
    has_scopes = True

    def __init__(self, keys: ApiKeys, *, header: str | None, takes_bearer: bool) -> None:
        self._keys = keys
        self.security_scheme = {
            "type": "apiKey",
            "in": "header",
            "name": header or "Authorization",
            "description": "The key alone." if header else "`ApiKey`, a blank, and the key.",
        }
        self._raw_header = None if header is None else header.lower().encode("ascii")
        self._takes_bearer = takes_bearer

    async def authenticate(
        self, authentication: Mapping[str, Any], params: Params
    ) -> dict[str, Any]:
        """Check a key, and load its user.

        Raises:
            NotAuthenticated: The key is not valid, or its user does not exist any more.
            TooManyRequests: There were too many wrong keys from this address.
        """
        key = await self._keys.check(authentication.get("apiKey"))
        if key is None:
            await charge_network(self.authentication, "wrong API keys", params, _WRONG_KEYS_AN_HOUR)
            raise NotAuthenticated("Invalid API key")
        entities = self.authentication.entities
        details = {
            "strategy": self.name,
            "id": key.id,
            "name": key.name,
            "scopes": key.scopes,
            "expiresAt": key.expires_at,
        }
        return {
            "authentication": details,
            entities.name: await entities.get(key.user_id, params),
        }

    # A strategy's `parse` gets a response, too.
    def parse(self, req: SentRequest, res: object) -> Mapping[str, Any] | None:  # noqa: ARG002  # as above
        """Return the key of a request, None if no header has one."""
        headers = req.sent_headers
        if self._raw_header is not None and (own := headers.get(self._raw_header)) is not None:
            return self._credentials(req, self._raw_header, own.decode("latin-1").strip())
        raw = headers.get(_AUTHORIZATION)
        if raw is None:
            return None
        scheme, _, rest = raw.decode("latin-1").strip().partition(" ")
        scheme, rest = scheme.lower(), rest.strip()
        is_key = scheme == _SCHEME or (
            self._takes_bearer and scheme == "bearer" and self._keys.is_key(rest)
        )
        return self._credentials(req, _AUTHORIZATION, rest) if is_key else None

    def _credentials(self, req: SentRequest, header: bytes, key: str) -> Mapping[str, Any]:
        return {"strategy": self.name, "apiKey": None if is_sent_twice(req, header) else key}
