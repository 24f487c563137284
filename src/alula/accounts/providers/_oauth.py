"""What all presets have in common: the secret of the application, and how a sign-in starts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from alula._identity import Application
from alula.accounts.providers._exchange import (
    ClientSecret,
    Exchange,
    Method,
    authorization_url,
)
from alula.accounts.providers._provider import Profile, Provider

__all__ = ["OAuthProvider", "site_of", "text_of"]

_HOST: Final = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+(:[0-9]{1,5})?")
_MAX_TEXT: Final = 320  # the longest address that mail knows, and more than a name needs


class OAuthProvider(Provider):
    """A provider that speaks OAuth 2.

    Args:
        name: The name in the routes and settings.
        client_id: The id of the application at the provider; None for the setting.
        client_secret: Its secret; None for the setting.
        scopes: What the application asks for.
        profile: Returns the data of a new user.
    """

    def __init__(
        self,
        name: str,
        *,
        client_id: str | None,
        client_secret: str | None,
        scopes: Sequence[str],
        profile: Profile | None,
    ) -> None:
        super().__init__(name, profile=profile)
        self._client_id = client_id
        self._client_secret = client_secret
        self._scopes = tuple(scopes)
        self._exchange = Exchange()

    def configure(self, app: Application) -> None:
        """Read the settings ``<name>_client_id`` and ``<name>_client_secret``, unless given."""
        self._client_id = self._setting(app, "client_id", self._client_id)
        self._client_secret = self._setting(app, "client_secret", self._client_secret)

    async def close(self) -> None:
        """Close connections to the provider."""
        await self._exchange.close()

    def _setting(self, app: Application, name: str, given: str | None) -> str:
        """Return what was given, or the setting.

        Raises:
            ValueError: There is neither.
        """
        setting = f"{self.name.replace('-', '_')}_{name}"
        value = app.settings.get(setting) if given is None else given
        if not isinstance(value, str) or not value:
            raise ValueError(
                f"the provider {self.name!r} needs a {name}: set {setting!r}, or pass {name}=..."
            )
        return value

    def _configured(self, name: str, value: str | None) -> str:
        """Return what was given or set.

        Raises:
            ValueError: The provider is not configured.
        """
        if value is None:
            raise ValueError(
                f"the provider {self.name!r} has no {name}; pass {name}=..., or configure it with"
                " the application that has it as a setting"
            )
        return value

    def _id(self) -> str:
        """Return the id of the application."""
        return self._configured("client_id", self._client_id)

    def _secret(self, method: Method) -> ClientSecret:
        """Return how the application proves itself."""
        secret = self._configured("client_secret", self._client_secret)
        return ClientSecret(self._id(), secret, method)

    def _start(
        self,
        endpoint: str,
        *,
        redirect_uri: str,
        state: str,
        verifier: str,
        passed_on: Mapping[str, str],
        fixed: Mapping[str, str],
    ) -> str:
        """Return the URL at which a person signs in, with a code challenge (PKCE, S256)."""
        allowed = {k: v for k, v in passed_on.items() if k in self.start_parameters}
        return authorization_url(
            endpoint,
            {
                **allowed,
                **fixed,
                "client_id": self._id(),
                "redirect_uri": redirect_uri,
                "scope": " ".join(self._scopes),
                "state": state,
            },
            verifier=verifier,
        )


def site_of(host: str) -> str:
    """Return the URL of a host.

    Raises:
        ValueError: It is not the name of one.
    """
    if not _HOST.fullmatch(host):
        raise ValueError(f"host is {host!r}; write a name such as 'git.work.example'")
    return f"https://{host}"


def text_of(value: object) -> str | None:
    """Return a text that can be shown and stored, None for other values."""
    if isinstance(value, str) and 0 < len(value) <= _MAX_TEXT and value.isprintable():
        return value
    return None
