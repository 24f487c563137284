"""Providers that speak OpenID Connect, found by their discovery document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from alula.accounts.providers._discovery import Discovery, Metadata
from alula.accounts.providers._exchange import ClientSecret, is_secure_url, shown_host
from alula.accounts.providers._id_token import ALGORITHMS, Expected, read_id_token
from alula.accounts.providers._oauth import OAuthProvider, text_of
from alula.accounts.providers._provider import Claims, Profile, Provider, ProviderError
from alula.types import is_dict

__all__ = ["SCOPES", "OpenIDProvider", "openid"]

SCOPES: Final = ("openid", "email", "profile")


def openid(
    name: str,
    *,
    issuer: str,
    client_id: str | None = None,
    client_secret: str | None = None,
    scopes: Sequence[str] = SCOPES,
    algorithms: Sequence[str] = ALGORITHMS,
    trust_email: bool = False,
    profile: Profile | None = None,
) -> Provider:
    """Return a provider that speaks OpenID Connect, such as Keycloak, Authentik, Okta or Auth0.

    Alula reads everything except the issuer from its discovery document. Needs the extra ``oauth``.

    Args:
        name: The name in the routes and settings, such as ``"company"``.
        issuer: The ``issuer`` of the discovery document, the same character by character.
        client_id: The id of the application there; None for the setting ``<name>_client_id``.
        client_secret: Its secret; None for the setting ``<name>_client_secret``.
        scopes: What the application asks for; ``"openid"`` is one of them.
        algorithms: How ID tokens may be signed: some of ``RS256``, ``PS256``, ``ES256``, and the
            same with 384 and 512.
        trust_email: Whether to trust the provider if it says that an address is verified. Set it
            only if the provider checks all addresses. Otherwise, people could sign in as others.
        profile: Returns the data of a new user; None for address and name.

    Raises:
        ValueError: An argument is not valid; the message says what to do.

    Examples:
        >>> from alula.accounts import openid
        >>> openid("company", issuer="https://id.company.example")
        <OpenIDProvider company>
    """
    return OpenIDProvider(
        name,
        issuer=issuer,
        client_id=client_id,
        client_secret=client_secret,
        scopes=scopes,
        algorithms=algorithms,
        trust_email=trust_email,
        profile=profile,
    )


class OpenIDProvider(OAuthProvider):
    """A provider that speaks OpenID Connect; presets say in subclasses what differs.

    Args:
        name: As for `openid`, like all others but ``url``.
        issuer: The issuer of the discovery document.
        url: Where the discovery document is, None for the issuer.
        client_id: The id of the application.
        client_secret: Its secret.
        scopes: What the application asks for.
        algorithms: How ID tokens may be signed.
        trust_email: Whether verified addresses are trusted.
        profile: Returns the data of a new user.

    Raises:
        ValueError: An argument is not valid; the message says what to do.
    """

    start_parameters = frozenset({"prompt", "login_hint"})

    def __init__(
        self,
        name: str,
        *,
        issuer: str,
        url: str | None = None,
        client_id: str | None = None,
        client_secret: str | None = None,
        scopes: Sequence[str] = SCOPES,
        algorithms: Sequence[str] = ("RS256",),
        trust_email: bool = False,
        profile: Profile | None = None,
    ) -> None:
        super().__init__(
            name, client_id=client_id, client_secret=client_secret, scopes=scopes, profile=profile
        )
        if "openid" not in self._scopes:
            raise ValueError(f"the provider {name!r} needs the scope 'openid'")
        if not algorithms or isinstance(algorithms, str) or set(algorithms) - set(ALGORITHMS):
            raise ValueError(
                f"the provider {name!r} has algorithms={algorithms!r}; use some of"
                f" {', '.join(ALGORITHMS)}"
            )
        if not is_secure_url(url or issuer) or "?" in issuer or "#" in issuer:
            raise ValueError(
                f"the provider {name!r} has issuer={issuer!r}; write its https URL, as its"
                " discovery document does"
            )
        self._issuer = issuer
        self._algorithms = tuple(algorithms)
        self._trust_email = trust_email
        self._discovery = Discovery(self._exchange, issuer, url)

    async def close(self) -> None:
        """Close connections to the provider, and forget what it has published."""
        await super().close()
        self._discovery.forget()

    async def authorization_url(
        self,
        *,
        redirect_uri: str,
        state: str,
        nonce: str,
        verifier: str,
        passed_on: Mapping[str, str],
    ) -> str:
        """Return the URL at which a person signs in."""
        metadata = await self._discovery.metadata()
        return self._start(
            metadata.authorization_endpoint,
            redirect_uri=redirect_uri,
            state=state,
            verifier=verifier,
            passed_on=passed_on,
            fixed={"nonce": nonce, **self._fixed_parameters()},
        )

    async def issuer(self) -> str:
        """Return the issuer."""
        return self._issuer

    async def check_issuer(self, iss: str | None) -> None:
        """Check the parameter ``iss`` with which a browser returns.

        Raises:
            ProviderError: It is missing although the provider sends it, or names another one.
        """
        if iss is None and (await self._discovery.metadata()).sends_issuer:
            raise ProviderError("invalid", f"{self.name}: the response does not name its issuer")
        await super().check_issuer(iss)

    async def claims(self, *, redirect_uri: str, code: str, nonce: str, verifier: str) -> Claims:
        """Ask the provider who has signed in."""
        metadata = await self._discovery.metadata()
        token = await self._exchange.token(
            metadata.token_endpoint,
            self._proof(metadata),
            redirect_uri=redirect_uri,
            code=code,
            verifier=verifier,
        )
        expected = Expected(
            self._issuer_of, self._id(), self._algorithms, nonce, token.access_token
        )
        signed = await read_id_token(token.id_token, self._discovery, expected)
        self._check(signed)
        userinfo: Mapping[str, Any] = {}
        if metadata.userinfo_endpoint and not {"email", "name"} <= signed.keys():
            userinfo = await self._userinfo(metadata.userinfo_endpoint, token.access_token, signed)
        # Both may have an address, and each says of its own whether it is verified.
        source = signed if "email" in signed else userinfo
        email = text_of(source.get("email"))
        claims = {**userinfo, **signed}
        return Claims(
            self.name,
            signed["iss"],
            signed["sub"],
            email,
            email is not None and self._is_verified(email, source),
            text_of(claims.get("name")),
            claims,
        )

    async def _userinfo(
        self, endpoint: str, access_token: str, signed: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the claims of the userinfo endpoint.

        Raises:
            ProviderError: They cannot be read, or are those of another person.
        """
        userinfo = await self._exchange.get(endpoint, access_token=access_token)
        if not is_dict(userinfo) or userinfo.get("sub") != signed["sub"]:
            text = f"{shown_host(endpoint)} responded about another person than the ID token"
            raise ProviderError("invalid", text)
        return userinfo

    def _fixed_parameters(self) -> dict[str, str]:
        """Return further parameters of the URL at which a person signs in."""
        return {}

    def _proof(self, metadata: Metadata) -> ClientSecret:
        """Return how the application proves itself to the token endpoint."""
        in_body = metadata.takes_secret_in_body
        return self._secret("client_secret_post" if in_body else "client_secret_basic")

    def _issuer_of(self, claims: Mapping[str, Any], key: Mapping[str, Any]) -> str:  # noqa: ARG002  # for presets
        """Return who has to be the issuer of an ID token."""
        return self._issuer

    def _check(self, claims: Mapping[str, Any]) -> None:
        """Check further claims of an ID token; raise a `ProviderError` if one is wrong."""

    def _is_verified(self, email: str, claims: Mapping[str, Any]) -> bool:  # noqa: ARG002  # for presets
        """Tell whether the person has proved to own the address."""
        return self._trust_email and says_verified(claims)


def says_verified(claims: Mapping[str, Any]) -> bool:
    """Tell whether claims call their address verified; some providers write a text."""
    return claims.get("email_verified") in (True, "true")
