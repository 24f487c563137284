"""Google, which is trusted with the addresses that it manages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from alula.accounts.providers._openid import SCOPES, OpenIDProvider, says_verified
from alula.accounts.providers._provider import Profile, Provider, ProviderError

__all__ = ["google"]

_ISSUER: Final = "https://accounts.google.com"


def google(
    *,
    name: str = "google",
    hd: str | None = None,
    client_id: str | None = None,
    client_secret: str | None = None,
    scopes: Sequence[str] = SCOPES,
    profile: Profile | None = None,
) -> Provider:
    """Return Google as a provider.

    A verified address is trusted if Google manages it: at gmail.com or in a Workspace. A Google
    account may also have any other address. Google checked such an address once, so it is not
    trusted. Needs the extra ``oauth``.

    Args:
        name: The name in the routes and settings.
        hd: The domain of a Workspace, such as ``"work.example"``: only its members can sign in.
        client_id: The id of the OAuth client; None for the setting ``google_client_id``.
        client_secret: Its secret; None for the setting ``google_client_secret``.
        scopes: What the application asks for; ``"openid"`` is one of them.
        profile: Returns the data of a new user; None for address and name.

    Raises:
        ValueError: An argument is not valid.

    Examples:
        >>> from alula.accounts import google
        >>> google(hd="work.example")
        <Google google>
    """
    return Google(
        name,
        hd,
        issuer=_ISSUER,
        client_id=client_id,
        client_secret=client_secret,
        scopes=scopes,
        profile=profile,
    )


class Google(OpenIDProvider):
    """Google, for everybody or the members of a Workspace."""

    start_parameters = frozenset({"prompt", "login_hint", "hd"})

    def __init__(self, name: str, hd: str | None, **options: Any) -> None:
        super().__init__(name, **options)
        self._hd = hd

    def _fixed_parameters(self) -> dict[str, str]:
        return {} if self._hd is None else {"hd": self._hd}

    def _check(self, claims: Mapping[str, Any]) -> None:
        # The parameter alone is a proposal, which people can change in their browser.
        if self._hd is not None and claims.get("hd") != self._hd:
            raise ProviderError(
                "access_denied", f"somebody signed in who is not a member of {self._hd}"
            )

    def _is_verified(self, email: str, claims: Mapping[str, Any]) -> bool:
        is_managed = bool(claims.get("hd")) or email.lower().endswith("@gmail.com")
        return is_managed and says_verified(claims)
