"""GitHub, which speaks OAuth 2 without OpenID Connect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from alula.accounts.providers._oauth import OAuthProvider, site_of, text_of
from alula.accounts.providers._provider import Claims, Profile, Provider, ProviderError
from alula.types import is_dict, is_list

__all__ = ["github"]

_ACCEPT: Final = "application/vnd.github+json"
_READ_ADDRESSES: Final = frozenset({"user:email", "user"})


def github(
    *,
    name: str = "github",
    host: str = "github.com",
    client_id: str | None = None,
    client_secret: str | None = None,
    scopes: Sequence[str] = ("user:email",),
    profile: Profile | None = None,
) -> Provider:
    """Return GitHub as a provider.

    A person has their primary address, which is trusted if GitHub has verified it. Needs the extra
    ``oauth``.

    Args:
        name: The name in the routes and settings.
        host: The host of a GitHub Enterprise, such as ``"github.work.example"``.
        client_id: The id of the OAuth app; None for the setting ``github_client_id``.
        client_secret: Its secret; None for the setting ``github_client_secret``.
        scopes: What the application asks for. Without ``"user:email"`` nobody has an address.
            A GitHub App has permissions instead of scopes: it needs the one for reading addresses.
        profile: Returns the data of a new user; None for address and name.

    Raises:
        ValueError: An argument is not valid.

    Examples:
        >>> from alula.accounts import github
        >>> github()
        <GitHub github>
    """
    return GitHub(
        name,
        host,
        client_id=client_id,
        client_secret=client_secret,
        scopes=scopes,
        profile=profile,
    )


class GitHub(OAuthProvider):
    """GitHub, or a GitHub Enterprise."""

    start_parameters = frozenset({"prompt"})

    def __init__(self, name: str, host: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._site = site_of(host)
        # Enterprise in the cloud has the API on a host of its own, on other machines below a path.
        is_cloud = host == "github.com" or host.endswith(".ghe.com")
        self._api = f"https://api.{host}" if is_cloud else f"{self._site}/api/v3"

    async def authorization_url(
        self,
        *,
        redirect_uri: str,
        state: str,
        nonce: str,  # noqa: ARG002  # of OpenID Connect
        verifier: str,
        passed_on: Mapping[str, str],
    ) -> str:
        """Return the URL at which a person signs in."""
        return self._start(
            f"{self._site}/login/oauth/authorize",
            redirect_uri=redirect_uri,
            state=state,
            verifier=verifier,
            passed_on=passed_on,
            fixed={},
        )

    async def issuer(self) -> str:
        """Return the site."""
        return self._site

    async def check_issuer(self, iss: str | None) -> None:
        """Check the parameter ``iss``; GitHub's metadata have a path in it."""
        if iss != f"{self._site}/login/oauth":
            await super().check_issuer(iss)

    async def claims(
        self,
        *,
        redirect_uri: str,
        code: str,
        nonce: str,  # noqa: ARG002  # of OpenID Connect
        verifier: str,
    ) -> Claims:
        """Ask GitHub who has signed in."""
        token = await self._exchange.token(
            f"{self._site}/login/oauth/access_token",
            self._secret("client_secret_post"),
            redirect_uri=redirect_uri,
            code=code,
            verifier=verifier,
        )
        user = await self._read("/user", token.access_token)
        number = user.get("id") if is_dict(user) else None
        if type(number) is not int or number < 1:
            raise ProviderError("invalid", "GitHub has sent no user")
        email, is_verified = await self._address(token.access_token)
        name = text_of(user.get("name"))
        return Claims(self.name, self._site, str(number), email, is_verified, name, user)

    async def _address(self, access_token: str) -> tuple[str | None, bool]:
        """Return the primary address, and whether GitHub has verified it."""
        if _READ_ADDRESSES.isdisjoint(self._scopes):
            return None, False
        addresses = await self._read("/user/emails?per_page=100", access_token)
        if not is_list(addresses):
            raise ProviderError("invalid", "GitHub has sent no addresses")
        for address in addresses:
            if is_dict(address) and address.get("primary") is True:
                email = text_of(address.get("email"))
                return email, email is not None and address.get("verified") is True
        return None, False

    async def _read(self, path: str, access_token: str) -> Any:
        return await self._exchange.get(self._api + path, access_token=access_token, accept=_ACCEPT)
