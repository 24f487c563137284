"""GitLab: gitlab.com, or your own server."""

from __future__ import annotations

from collections.abc import Sequence

from alula.accounts.providers._oauth import site_of
from alula.accounts.providers._openid import SCOPES, OpenIDProvider
from alula.accounts.providers._provider import Profile, Provider

__all__ = ["gitlab"]


def gitlab(
    *,
    name: str = "gitlab",
    host: str = "gitlab.com",
    client_id: str | None = None,
    client_secret: str | None = None,
    scopes: Sequence[str] = SCOPES,
    profile: Profile | None = None,
) -> Provider:
    """Return GitLab as a provider.

    An address is trusted if its owner has confirmed it. Needs the extra ``oauth``.

    Args:
        name: The name in the routes and settings.
        host: The host of your own GitLab, such as ``"git.work.example"``.
        client_id: The id of the application; None for the setting ``gitlab_client_id``.
        client_secret: Its secret; None for the setting ``gitlab_client_secret``.
        scopes: What the application asks for; ``"openid"`` is one of them.
        profile: Returns the data of a new user; None for address and name.

    Raises:
        ValueError: An argument is not valid.

    Examples:
        >>> from alula.accounts import gitlab
        >>> gitlab(host="git.work.example")
        <OpenIDProvider gitlab>
    """
    return OpenIDProvider(
        name,
        issuer=site_of(host),
        client_id=client_id,
        client_secret=client_secret,
        scopes=scopes,
        trust_email=True,
        profile=profile,
    )
