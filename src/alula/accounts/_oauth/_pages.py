"""The pages of an application to which a browser may return after a sign-in with others.

A client may name a place below such a page. Before anything else happens, the server resolves the
place (RFC 3986) and checks the result, not the spelling. It refuses texts that proxies, servers and
browsers might read in different ways.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

from alula.accounts._urls import is_secure, origin_of
from alula.errors import BadRequest

__all__ = ["Pages", "check_base_url"]

_MAX_LENGTH: Final = 500  # percent-encoded: it is kept in a cookie, and headers have limits
_MOST_DECODINGS: Final = 5
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_URL_SAFE: Final = "%/?:@!$&'()*+,;=~"


class Pages:
    """The pages, and the places below them.

    Args:
        pages: Whole URLs. The first is the default.
        base_url: How browsers reach this server.

    Raises:
        TypeError: ``pages`` is one text.
        ValueError: A page is not such a URL.
    """

    def __init__(self, pages: Sequence[str], base_url: str) -> None:
        if isinstance(pages, str):
            raise TypeError(f"pages is a list of URLs: [{pages!r}]")
        self._pages: dict[str, str] = {}
        for page in pages:
            parts = _parts_of_setting(page)
            if parts is None:
                raise ValueError(
                    f"pages has {page!r}; write whole https URLs without query and fragment, such"
                    " as 'https://app.example/signed-in'"
                )
            if parts.origin in self._pages:  # `Referer` does not tell which of them
                raise ValueError(f"pages has two pages of {parts.origin}; leave one of them out")
            self._pages[parts.origin] = page if parts.path else f"{page}/"
        self._own_origins = {*self._pages, origin_of(base_url)}

    def __bool__(self) -> bool:
        return bool(self._pages)

    @property
    def origins(self) -> list[str]:
        """The origins of the pages, in their order."""
        return [*self._pages]

    def is_own(self, origin: str | None) -> bool:
        """Tell whether an origin is that of a page or of this server."""
        return origin in self._own_origins

    def resolve(self, redirect: object, origin: str | None) -> str | None:
        """Return where a browser goes after the sign-in, None where there are no pages.

        Args:
            redirect: The place that a client asks for; any value, None for the page itself.
            origin: The origin of the page that the client comes from, None if unknown.

        Raises:
            BadRequest: It is not a place below the page.
        """
        if redirect is not None and not isinstance(redirect, str):
            raise BadRequest("redirect has to be one text")
        if not self._pages:
            if redirect:
                raise BadRequest("redirect: this server has no pages to return to")
            return None
        page = self._pages.get(origin or "") or next(iter(self._pages.values()))
        if not redirect:
            return page
        target = _join(page, redirect)
        if target is None:
            raise BadRequest("redirect has to be a path below the page, such as 'notes/1'")
        return target


def check_base_url(base_url: str | None) -> str:
    """Return the URL of this server without a slash at its end.

    Raises:
        ValueError: It is missing or not such a URL.
    """
    if base_url is None or _parts_of_setting(base_url) is None:
        raise ValueError(
            f"base_url is {base_url!r}; with sign_in, write how browsers reach this server, as in"
            " 'https://api.example', with the prefix of a proxy or mount if there is one"
        )
    return base_url.rstrip("/")


class _Setting(NamedTuple):
    """The parts of a URL in the settings that matter."""

    origin: str
    path: str


def _parts_of_setting(url: str) -> _Setting | None:
    """Return the parts of a URL, None if it is not encrypted or has more than a path."""
    origin = origin_of(url)
    if origin is None or _CONTROL.search(url) or not {"\\", "?", "#"}.isdisjoint(url):
        return None
    parts = urlsplit(url)
    return _Setting(origin, parts.path) if is_secure(parts) else None


def _join(page: str, redirect: str) -> str | None:
    """Return what a text of a client resolves to, None unless it is below the page."""
    try:
        encoded = quote(redirect, safe=_URL_SAFE)
    except UnicodeEncodeError:  # half of a surrogate pair
        return None
    # No fragment: the response is put there.
    if len(encoded) > _MAX_LENGTH or redirect != redirect.strip() or "#" in redirect:
        return None
    for text in _decodings(redirect):
        path, _, _ = text.partition("?")
        if _CONTROL.search(text) or _SCHEME.match(text) or "\\" in path or "//" in path:
            return None
        if not {".", ".."}.isdisjoint(path.split("/")):
            return None
    target = urljoin(page, encoded)
    folder = page.rpartition("/")[0] + "/"
    is_below = origin_of(target) == origin_of(page) and target.startswith(folder)
    return target if is_below else None


def _decodings(text: str) -> list[str]:
    """Return a text and what it becomes by percent-decoding, again and again."""
    texts = [text]
    while len(texts) <= _MOST_DECODINGS and (decoded := unquote(texts[-1])) != texts[-1]:
        texts.append(decoded)
    return texts
