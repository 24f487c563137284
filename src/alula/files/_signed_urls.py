"""URLs that open one resource for some time, without other credentials."""

from __future__ import annotations

import hmac
import math
import re
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from alula._routes import decode_segment
from alula.errors import Forbidden

__all__ = ["UrlSigner"]

_MIN_SECRET_BYTES: Final = 32
_EXPIRES: Final = re.compile("[0-9]{1,12}")


class UrlSigner:
    """Signs URLs with a secret, and checks them.

    A signature is valid for one HTTP method, one path and a limited time. Anyone who has the URL
    can use it until then.

    Examples:
        >>> signer = UrlSigner("thirty-two random bytes at least")
        >>> url = signer.sign("/uploads/7/content", expires_in=60)
        >>> url.startswith("/uploads/7/content?expires=")
        True

    Args:
        secret: The key, at least 32 bytes: ``secrets.token_urlsafe(32)`` makes one. Every process
            needs the same. A new one ends all URLs at once.
        expires_in: Seconds for which a URL is valid, unless `sign` says otherwise.

    Raises:
        TypeError: The secret is neither text nor bytes.
        ValueError: The secret is too short, or ``expires_in`` is not a positive number.
    """

    def __init__(self, secret: str | bytes, *, expires_in: float = 3600) -> None:
        if not isinstance(secret, str | bytes):  # without the value, which may be a secret
            raise TypeError(f"secret is a string or bytes, not of type {type(secret).__name__}")
        key = secret.encode() if isinstance(secret, str) else secret
        if len(key) < _MIN_SECRET_BYTES:
            raise ValueError(
                f"the secret has {len(key)} bytes; give at least {_MIN_SECRET_BYTES}, such as from"
                " secrets.token_urlsafe(32)"
            )
        # A key for this purpose alone: the secret may sign other things as well.
        self._key = hmac.digest(key, b"alula.files: signed URLs", "sha256")
        self._expires_in = _seconds(expires_in)

    def __repr__(self) -> str:
        return "UrlSigner(...)"

    def sign(self, path: str, *, method: str = "GET", expires_in: float | None = None) -> str:
        """Return the path with ``expires`` and ``signature`` as its query.

        Args:
            path: Percent-encoded, such as ``/uploads/7/content``; what precedes the path of a
                mounted application is added later.
            method: The HTTP method; HEAD counts as GET.
            expires_in: Seconds; None takes that of the signer.

        Raises:
            ValueError: The path does not begin with a slash or has a query, or ``expires_in`` is
                not a positive number.
        """
        if not path.startswith("/") or "?" in path or "#" in path:
            raise ValueError(f"{path!r} is not a path; write it as '/uploads/7/content'")
        seconds = self._expires_in if expires_in is None else _seconds(expires_in)
        expires = str(math.ceil(time.time() + seconds))
        return f"{path}?expires={expires}&signature={self._signature(method, path, expires)}"

    def check(self, method: str, path: str, query: Mapping[str, Any]) -> None:
        """Check that a URL was signed for this method and path, and is still valid.

        Args:
            method: The HTTP method of the request.
            path: The path of the request, percent-encoded.
            query: The query with ``expires`` and ``signature``.

        Raises:
            Forbidden: It was not, or it is not any more.
        """
        expires, signature = query.get("expires"), query.get("signature")
        if (
            not isinstance(expires, str)
            or not isinstance(signature, str)
            or not _EXPIRES.fullmatch(expires)
            or not hmac.compare_digest(
                signature.encode(errors="replace"), self._signature(method, path, expires).encode()
            )
        ):
            raise Forbidden("The signature of this URL is not valid")
        if time.time() >= int(expires):
            raise Forbidden("This URL has expired; ask for a new one")

    def _signature(self, method: str, path: str, expires: str) -> str:
        verb = "GET" if method.upper() == "HEAD" else method.upper()
        # A proxy may encode a path anew; it still names the same resource. Slashes within a
        # segment stay encoded, so no two resources share a text.
        segments = [quote(decode_segment(part), safe="") for part in path.split("/") if part]
        text = f"{verb}\n/{'/'.join(segments)}\n{expires}"
        return hmac.digest(self._key, text.encode(), "sha256").hex()


def _seconds(expires_in: float) -> float:
    if isinstance(expires_in, bool) or not 0 < expires_in < 1e10:
        raise ValueError(f"expires_in is {expires_in!r}; give a positive number of seconds")
    return expires_in
