"""Binds links in mails to the browser that asked for them.

The browser gets a cookie, which is not in the mail, and the link works only together with it.
Otherwise, an attacker could ask for a link, and the person who gets the mail would click it: the
link would sign them in to the attacker's account, or let the attacker into theirs.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from secrets import token_urlsafe
from typing import Any, Final

from alula._context import HookContext, Params
from alula._cookies import format_cookie, parse_cookies
from alula.accounts._proofs import Purpose, StoredProof
from alula.hooks import Next
from alula.types import is_mapping

__all__ = [
    "bind_browser",
    "browser_of",
    "browser_tag",
    "cookie_of_secret",
    "is_in_browser",
    "secret_in_cookie",
]

_COOKIES: Final[dict[Purpose, str]] = {
    "link": "__Host-link",
    "link_identity": "__Host-link-identity",
}
_SECONDS: Final = 600  # as long as the links are valid
_SECRET: Final = re.compile(r"[\w-]{22}", re.ASCII)
_BROWSER: Final = "browser of accounts"
"""The attribute of params with the secret of the browser that asks for a link."""


async def bind_browser(context: HookContext, next: Next) -> None:
    """Bind the link that signs in, for which this call asks, to this browser: an around hook."""
    data = context.data
    asks = is_mapping(data) and data.get("action") == "sendMagicLink"
    if not asks or context.params.provider != "rest":
        await next()
        return
    secret = token_urlsafe(16)
    context.params[_BROWSER] = secret
    await next()
    headers: dict[str, Any] = context.http.get("headers") or {}
    context.http["headers"] = {**headers, "Set-Cookie": cookie_of_secret("link", secret)}


def browser_of(params: Params) -> str | None:
    """Return the hash of the secret that `bind_browser` has given to a browser, None without."""
    secret = params.get(_BROWSER)
    return None if secret is None else browser_tag(secret)


def secret_in_cookie(purpose: Purpose, params: Params) -> str:
    """Return the secret of a browser for links of a purpose, a new one if it has none."""
    secret = _sent(purpose, params)
    return secret if _SECRET.fullmatch(secret) else token_urlsafe(16)


def cookie_of_secret(purpose: Purpose, secret: str) -> str:
    """Return the header ``Set-Cookie`` that gives a browser its secret."""
    return format_cookie(_COOKIES[purpose], secret, max_age=_SECONDS, same_site="lax")


def is_in_browser(proof: StoredProof, params: Params) -> bool:
    """Tell whether a call comes from the browser that asked for a link."""
    tag = browser_tag(_sent(proof.purpose, params))
    return hmac.compare_digest(str(proof.data.get("browser")), tag)


def browser_tag(secret: str) -> str:
    """Return the hash of the secret of a browser."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _sent(purpose: Purpose, params: Params) -> str:
    name = _COOKIES[purpose]
    return parse_cookies(params.headers.get("cookie"), name).get(name, "")
