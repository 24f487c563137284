"""URLs in the settings of accounts: which of them keep what is sent to them secret."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

__all__ = ["is_secure", "origin_of"]

_THIS_MACHINE: Final = re.compile(r"localhost|.+\.localhost|127(\.\d+){3}|::1")
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}


def is_secure(parts: SplitResult) -> bool:
    """Tell whether a URL has a host and is encrypted on its way, or does not leave this machine."""
    host = parts.hostname or ""
    is_local = parts.scheme == "http" and _THIS_MACHINE.fullmatch(host) is not None
    return bool(host) and (parts.scheme == "https" or is_local)


def origin_of(url: str) -> str | None:
    """Return the origin of a URL as browsers write it, None if it has none.

    Args:
        url: Any text, such as a header ``Referer``.

    Examples:
        >>> origin_of("https://App.example:443/notes"), origin_of("nonsense")
        ('https://app.example', None)
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    host = parts.hostname
    if not host or not parts.scheme or "@" in parts.netloc:
        return None
    if ":" in host:
        host = f"[{host}]"
    is_default = port is None or port == _DEFAULT_PORTS.get(parts.scheme)
    return f"{parts.scheme}://{host}" if is_default else f"{parts.scheme}://{host}:{port}"
