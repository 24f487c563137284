"""Microsoft, whose accounts belong to tenants: organizations, or all private accounts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from alula.accounts.providers._openid import SCOPES, OpenIDProvider
from alula.accounts.providers._provider import Profile, Provider, ProviderError

__all__ = ["microsoft"]

_SITE: Final = "https://login.microsoftonline.com"
_TENANT: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PRIVATE_ACCOUNTS: Final = "9188040d-6c67-4c5b-b112-36a304b66dad"
_ANY: Final = "{tenantid}"
# What discovery documents have in the place of the tenant.
_NAMED: Final = {"common": _ANY, "organizations": _ANY, "consumers": _PRIVATE_ACCOUNTS}


def microsoft(
    *,
    name: str = "microsoft",
    tenant: str = "common",
    client_id: str | None = None,
    client_secret: str | None = None,
    scopes: Sequence[str] = SCOPES,
    profile: Profile | None = None,
) -> Provider:
    """Return Microsoft as a provider.

    The administrator of any tenant can type any address. So an address is trusted only if the claim
    ``xms_edov`` says that the tenant owns its domain; add this optional claim to the registration
    of your application. Needs the extra ``oauth``.

    Args:
        name: The name in the routes and settings.
        tenant: Who can sign in: ``"common"`` for all, ``"organizations"``, ``"consumers"`` for
            private accounts, or the id of one tenant.
        client_id: The id of the application; None for the setting ``microsoft_client_id``.
        client_secret: Its secret; None for the setting ``microsoft_client_secret``.
        scopes: What the application asks for; ``"openid"`` is one of them.
        profile: Returns the data of a new user; None for address and name.

    Raises:
        ValueError: An argument is not valid.

    Examples:
        >>> from alula.accounts import microsoft
        >>> microsoft(tenant="organizations")
        <Microsoft microsoft>
    """
    if tenant not in _NAMED and not _TENANT.fullmatch(tenant):
        raise ValueError(
            f"tenant is {tenant!r}; write {', '.join(map(repr, _NAMED))} or the id of a tenant,"
            " such as '8eaef023-2b34-4da1-9baa-8bc8c9d6a490'"
        )
    return Microsoft(
        name,
        issuer=_issuer(_NAMED.get(tenant, tenant)),
        url=f"{_SITE}/{tenant}/v2.0",
        client_id=client_id,
        client_secret=client_secret,
        scopes=scopes,
        profile=profile,
    )


class Microsoft(OpenIDProvider):
    """Microsoft. Where many tenants can sign in, each of them is an issuer."""

    async def check_issuer(self, iss: str | None) -> None:
        """Check the parameter ``iss``, which may name any tenant where many can sign in."""
        if iss is None or _ANY not in self._issuer or not _is_issuer(iss):
            await super().check_issuer(iss)

    def _issuer_of(self, claims: Mapping[str, Any], key: Mapping[str, Any]) -> str:
        tenant = claims.get("tid")
        if not isinstance(tenant, str) or not _TENANT.fullmatch(tenant):
            raise ProviderError("invalid", "the claim tid of the ID token is missing or wrong")
        # Keys may be those of one tenant alone.
        for_whom = str(key.get("issuer", self._issuer)).replace(_ANY, tenant)
        if for_whom != _issuer(tenant):
            raise ProviderError("invalid", "the key of the ID token is that of another tenant")
        return self._issuer.replace(_ANY, tenant)

    def _is_verified(self, email: str, claims: Mapping[str, Any]) -> bool:  # noqa: ARG002  # of any domain
        return claims.get("xms_edov") in (True, "true", "1")


def _issuer(tenant: str) -> str:
    return f"{_SITE}/{tenant}/v2.0"


def _is_issuer(iss: str) -> bool:
    tenant = iss.removeprefix(f"{_SITE}/").removesuffix("/v2.0")
    return _TENANT.fullmatch(tenant) is not None and iss == _issuer(tenant)
