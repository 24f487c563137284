"""For whom passkeys are: a domain, and the origins of the pages that may use them.

Browsers bind a passkey to the domain. They compare it with the page, so a page of somebody else
cannot ask for a passkey of ours. The settings decide, never a header of a request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from alula.accounts._urls import is_secure, origin_of

__all__ = ["RelyingParty", "relying_party_of"]

_LABEL: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
# The last part has a letter, so that no IP address is one.
_DOMAIN: Final = re.compile(rf"({_LABEL}\.)+[a-z]{_LABEL}|localhost")


class RelyingParty(NamedTuple):
    """Who asks for passkeys, by the name of WebAuthn.

    Attributes:
        id: The domain to which passkeys are bound.
        origins: The origins of the pages that may ask.
    """

    id: str
    origins: list[str]


def relying_party_of(rp_id: str | None, origins: Sequence[str]) -> RelyingParty:
    """Return the relying party of the settings.

    Args:
        rp_id: The domain, None for the host of the first origin.
        origins: The origins of the pages.

    Raises:
        TypeError: ``origins`` is one text.
        ValueError: A setting is not valid; the message says what to do.
    """
    if isinstance(origins, str):
        raise TypeError(f"origins is a list of origins: [{origins!r}]")
    if not origins:
        raise ValueError(
            "passkeys=True needs the origins of the pages that use passkeys:"
            " origins=['https://app.example']"
        )
    hosts = [_host_of(origin) for origin in origins]
    domain = hosts[0] if rp_id is None else rp_id
    if not _DOMAIN.fullmatch(domain):
        raise ValueError(
            f"rp_id is {domain!r}; write a domain in small letters, such as 'app.example', or"
            " 'localhost' for development. Browsers accept no IP address"
        )
    for origin, host in zip(origins, hosts, strict=True):
        is_below = "." in domain and host.endswith(f".{domain}")  # nothing is below localhost
        if host != domain and not is_below:
            raise ValueError(
                f"rp_id is {domain!r}, but the host of the origin {origin!r} is not that domain or"
                " below it, so browsers refuse passkeys there; set rp_id, and the origins of your"
                " pages in origins=[...]"
            )
    return RelyingParty(domain, [*origins])


def _host_of(origin: str) -> str:
    """Return the host of an origin of the settings.

    Raises:
        ValueError: It is not an origin, or not encrypted.
    """
    parts = urlsplit(origin)
    if origin_of(origin) != origin or not is_secure(parts):
        raise ValueError(
            f"origins has {origin!r}; write origins as browsers do: 'https://app.example', without"
            " a path, or 'http://localhost:3000' for development"
        )
    return parts.hostname or ""
