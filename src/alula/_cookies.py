"""Cookies as text (RFC 6265): read, written and signed; no input or output.

Browsers drop a cookie that breaks their rules without a word, so writing one is an error here.
Values are percent-encoded, as in Express.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias, get_args
from urllib.parse import quote, unquote_to_bytes

__all__ = ["CookieSigner", "SameSite", "format_cookie", "parse_cookies"]

SameSite: TypeAlias = Literal["strict", "lax", "none"]
"""Which requests of other sites have a cookie: none of them, links to a page, or all."""

_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PATH: Final = re.compile(r"/[\x20-\x3a\x3c-\x7e]{0,1023}")
_DOMAIN: Final = re.compile(r"\.?[0-9A-Za-z]([0-9A-Za-z.-]{0,252}[0-9A-Za-z])?")
_SECURE_PREFIXES: Final = ("__secure-", "__http-")
_HTTP_PREFIXES: Final = ("__http-", "__host-http-")
# What encodeURIComponent of JavaScript leaves as it is, beside letters, digits, "-", "." and "_".
_VALUE_SAFE: Final = "!~*'()"
_BARE_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})")

# Browsers keep about 180 of one host; a header with thousands would only keep the server busy.
_MAX_COOKIES: Final = 500
_MAX_COOKIE_BYTES: Final = 4096  # of name and value; browsers drop longer ones
_MIN_SECRET_BYTES: Final = 32


def parse_cookies(header: str | None, only: str | None = None) -> dict[str, str]:
    """Return the cookies of a request by name.

    The first of several with one name counts: browsers send the one with the longest path first.
    Quotes around a value are dropped. A valid percent-encoding is decoded, in values of up to 4096
    bytes: browsers keep no longer ones.

    Args:
        header: The header ``Cookie``, None without one. Parts behind the 500th are ignored.
        only: The name of the one cookie that is wanted, None for all.

    Examples:
        >>> parse_cookies('theme=dark; name=Zo%C3%AB; theme=light')
        {'theme': 'dark', 'name': 'Zoë'}
    """
    cookies: dict[str, str] = {}
    for part in (header or "").split(";", _MAX_COOKIES)[:_MAX_COOKIES]:
        name, equals, value = part.partition("=")
        # Only these two: with other spaces taken away, a name that a browser does not protect
        # would become `__Host-...` here.
        name, value = name.strip(" \t"), value.strip(" \t")
        if not equals or not name or name in cookies or (only is not None and name != only):
            continue
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = value[1:-1]
        is_short = len(value) <= _MAX_COOKIE_BYTES
        if is_short and "%" in value and not _BARE_PERCENT.search(value):
            with suppress(UnicodeDecodeError):
                value = unquote_to_bytes(value).decode()
        cookies[name] = value
    return cookies


def format_cookie(
    name: str,
    value: str,
    *,
    max_age: int | timedelta | None = None,
    expires: datetime | None = None,
    path: str = "/",
    domain: str | None = None,
    secure: bool = True,
    http_only: bool = True,
    same_site: SameSite = "lax",
    partitioned: bool = False,
) -> str:
    """Return the value of a header ``Set-Cookie``.

    Args:
        name: The name; browsers check the rules of the prefixes ``__Host-`` and ``__Secure-``.
        value: Any text.
        max_age: Seconds, or a `timedelta`, for which browsers keep it; 0 removes it. Without
            ``max_age`` and ``expires`` they keep it until they are closed.
        expires: Until when browsers keep it, with a time zone; ``max_age`` takes precedence.
        path: The path below which browsers send it.
        domain: A domain whose subdomains get it too; None for this host alone.
        secure: Whether browsers send it over HTTPS only.
        http_only: Whether scripts of a page cannot read it.
        same_site: With which requests of other sites browsers send it.
        partitioned: Whether each site that embeds this one has a cookie of its own.

    Raises:
        TypeError: The name, the value or ``max_age`` has another type.
        ValueError: Browsers would drop the cookie; the message says why.

    Examples:
        >>> format_cookie("theme", "dark", max_age=60)
        'theme=dark; Path=/; Max-Age=60; Secure; HttpOnly; SameSite=Lax'
    """
    what = f"the cookie {name!r}"
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError(f"{what}: name and value are texts; the value is {type(value).__name__}")
    if isinstance(max_age, timedelta):
        max_age = int(max_age.total_seconds())
    if not isinstance(max_age, int | None) or isinstance(max_age, bool):
        raise TypeError(f"{what}: max_age is whole seconds or a timedelta, not {max_age!r}")
    pair = f"{name}={quote(value, safe=_VALUE_SAFE)}"
    prefix = name.lower()  # names of prefixes have no case: browsers take `__host-` for the same
    is_of_host = secure and path == "/" and domain is None
    problems = {
        "this is not a name; take letters, digits, '-' and '_'": not _NAME.fullmatch(name),
        f"browsers drop those of over {_MAX_COOKIE_BYTES} bytes": len(pair) > _MAX_COOKIE_BYTES,
        f"{path!r} is not a path, such as '/api'": not _PATH.fullmatch(path),
        f"{domain!r} is not a domain": domain and not _DOMAIN.fullmatch(domain),
        "max_age is 0 or more seconds": (max_age or 0) < 0,
        "expires needs a time zone: datetime(..., tzinfo=UTC)": expires and not expires.tzinfo,
        'same_site is "strict", "lax" or "none"': same_site not in get_args(SameSite),
        'same_site="none" needs secure=True': same_site == "none" and not secure,
        "partitioned=True needs secure=True": partitioned and not secure,
        "its name needs secure=True": prefix.startswith(_SECURE_PREFIXES) and not secure,
        "its name needs http_only=True": prefix.startswith(_HTTP_PREFIXES) and not http_only,
        'its name needs secure=True, path="/" and no domain': (
            prefix.startswith("__host-") and not is_of_host
        ),
    }
    problem = next((text for text, is_given in problems.items() if is_given), None)
    if problem is not None:
        raise ValueError(f"{what}: {problem}")
    date = ""
    if expires:
        from email.utils import format_datetime  # noqa: PLC0415  # slow to import, seldom needed

        date = format_datetime(expires.astimezone(UTC), usegmt=True)
    parts = {
        pair: True,
        f"Path={path}": True,
        f"Domain={domain}": domain,
        f"Max-Age={max_age}": max_age is not None,
        f"Expires={date}": date,
        "Secure": secure,
        "HttpOnly": http_only,
        f"SameSite={same_site.capitalize()}": True,
        "Partitioned": partitioned,
    }
    return "; ".join(part for part, is_set in parts.items() if is_set)


class CookieSigner:
    """Signs the values of cookies, and checks them.

    The signature is of name and value, so that the value of one cookie cannot become that of
    another. A signed value can be read by everybody.

    Args:
        secrets: The secret, of at least 32 bytes. Of a list, the first one signs and all are
            accepted, so that a new secret can be put in front of the old one.

    Raises:
        TypeError: It is neither text or bytes, nor a list of them.
        ValueError: There is none, or one is too short.

    Examples:
        >>> signer = CookieSigner("thirty-two random bytes at least")
        >>> signer.verify("seen", signer.sign("seen", "7"))
        '7'
    """

    def __init__(self, secrets: str | bytes | Sequence[str | bytes]) -> None:
        given: Sequence[Any] = [secrets] if isinstance(secrets, str | bytes) else secrets
        # The messages do not show what may be a secret.
        if not isinstance(given, Sequence) or not all(isinstance(s, str | bytes) for s in given):
            raise TypeError("a cookie secret is a text or bytes, or a list of them")
        self._secrets = [s.encode() if isinstance(s, str) else s for s in given]
        if not self._secrets or min(map(len, self._secrets)) < _MIN_SECRET_BYTES:
            raise ValueError(
                f"a cookie secret has at least {_MIN_SECRET_BYTES} bytes. Make one with:"
                " python -c 'import secrets; print(secrets.token_urlsafe(48))'"
            )

    def sign(self, name: str, value: str) -> str:
        """Return the signed value of a cookie."""
        return value + "." + _tag(self._secrets[0], name, value)

    def verify(self, name: str, signed: str) -> str | None:
        """Return the value of a signed one, None if no secret has signed it for this cookie."""
        value, _, tag = signed.rpartition(".")
        given = tag.encode("utf-8", "replace")
        # `==` would tell by its time how much of a guessed signature is right.
        if any(
            hmac.compare_digest(given, _tag(secret, name, value).encode())
            for secret in self._secrets
        ):
            return value
        return None


def _tag(secret: bytes, name: str, value: str) -> str:
    # No name has a "=", so no other cookie has the same text; no token begins like it either.
    text = f"alula:cookie:{name}={value}".encode("utf-8", "surrogatepass")
    return urlsafe_b64encode(hmac.digest(secret, text, "sha256")).rstrip(b"=").decode()
