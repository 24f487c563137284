"""Apple, whose secret is a token that the application signs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

from alula._identity import Application
from alula.accounts.providers._discovery import Metadata
from alula.accounts.providers._exchange import ClientSecret
from alula.accounts.providers._openid import OpenIDProvider
from alula.accounts.providers._provider import Profile, Provider

__all__ = ["apple"]

_ISSUER: Final = "https://appleid.apple.com"
_SECRET_SECONDS: Final = 300


def apple(
    *,
    name: str = "apple",
    client_id: str | None = None,
    team_id: str | None = None,
    key_id: str | None = None,
    private_key: str | None = None,
    scopes: Sequence[str] = ("openid", "email", "name"),
    profile: Profile | None = None,
) -> Provider:
    r"""Return Apple as a provider.

    Verified addresses are trusted, also those from which Apple forwards mails. Users never get a
    name, because Apple sends it only once, and unsigned. Needs the extra ``oauth``.

    Args:
        name: The name in the routes and settings.
        client_id: The Services ID; None for the setting ``apple_client_id``.
        team_id: The id of the team; None for the setting ``apple_team_id``.
        key_id: The id of the private key; None for the setting ``apple_key_id``.
        private_key: The text of its file, ``AuthKey_....p8``; None for the setting
            ``apple_private_key``. Line breaks may be written as ``\n``.
        scopes: What the application asks for; ``"openid"`` is one of them.
        profile: Returns the data of a new user; None for address and name.

    Raises:
        ValueError: An argument is not valid.

    Examples:
        >>> from alula.accounts import apple
        >>> apple()
        <Apple apple>
    """
    return Apple(
        name,
        team_id=team_id,
        key_id=key_id,
        private_key=private_key,
        issuer=_ISSUER,
        client_id=client_id,
        scopes=scopes,
        trust_email=True,
        profile=profile,
    )


class Apple(OpenIDProvider):
    """Apple, whose responses come as forms."""

    form_post = True
    start_parameters = frozenset()

    def __init__(
        self,
        name: str,
        *,
        team_id: str | None,
        key_id: str | None,
        private_key: str | None,
        **options: Any,
    ) -> None:
        super().__init__(name, **options)
        self._team_id = team_id
        self._key_id = key_id
        self._private_key = private_key

    def configure(self, app: Application) -> None:
        """Read the settings, unless given.

        Raises:
            ValueError: One is missing, or the key is not one.
        """
        self._client_id = self._setting(app, "client_id", self._client_id)
        self._team_id = self._setting(app, "team_id", self._team_id)
        self._key_id = self._setting(app, "key_id", self._key_id)
        self._private_key = self._setting(app, "private_key", self._private_key)
        self._signing_key()

    def _fixed_parameters(self) -> dict[str, str]:
        return {"response_mode": "form_post"}

    def _proof(self, metadata: Metadata) -> ClientSecret:  # noqa: ARG002  # Apple takes no other
        now = int(time.time())
        claims = {
            "iss": self._configured("team_id", self._team_id),
            "sub": self._id(),
            "aud": _ISSUER,
            "iat": now,
            "exp": now + _SECRET_SECONDS,
        }
        header = {"alg": "ES256", "kid": self._configured("key_id", self._key_id)}
        secret = jwt.encode(header, claims, self._signing_key())
        return ClientSecret(self._id(), secret)

    def _signing_key(self) -> ECKey:
        text = self._configured("private_key", self._private_key).replace("\\n", "\n")
        try:
            key = ECKey.import_key(text)
        except (JoseError, ValueError, TypeError):
            key = None
        if key is None or not key.is_private or key.curve_name != "P-256":
            raise ValueError(
                f"the private_key of the provider {self.name!r} is not a key of Apple; pass"
                " the whole text of the file AuthKey_....p8"
            )
        return key
