"""What browsers get for a sign-in with others: a redirect and cookies, or JSON without pages.

Servers and proxies log queries, so a query never has a token. It is in the fragment of the page's
URL, or in cookies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from urllib.parse import quote, urlencode

from alula._context import HookContext
from alula.accounts._oauth._refused import Refused
from alula.errors import NotAuthenticated, Unavailable
from alula.hooks import Next

__all__ = ["Answer", "Replies", "Reply", "send_reply"]

Answer: TypeAlias = Literal["fragment", "cookie"]
"""How a page gets the token."""


@dataclass(kw_only=True)
class Reply:
    """A response.

    Attributes:
        location: Where the browser goes next, None for a response with a body.
        status: The status.
        body: The body, None for an empty one.
        cookies: Headers ``Set-Cookie``.
    """

    location: str | None = None
    status: int = 303
    body: object = None
    cookies: list[str] = field(default_factory=list[str])


class Replies:
    """Makes the responses.

    Args:
        authentication: The authentication service.
        answer: How a page gets the token.
    """

    def __init__(self, authentication: Any, answer: Answer) -> None:
        self._authentication = authentication
        self._answer = answer

    def signed_in(self, target: str | None, result: Mapping[str, Any]) -> Reply:
        """Return the response for a sign-in.

        Args:
            target: The page, None where there are none.
            result: What `AuthenticationService.sign_in` has returned.
        """
        cookies = self._authentication.token_cookies
        lines: list[str] = [] if cookies is None else cookies.lines_for(result)
        if target is None:
            body = dict(result) if cookies is None else cookies.body_for(result)
            return Reply(status=200, body=body, cookies=lines)
        if self._answer == "fragment":
            target += "#" + urlencode({"access_token": result["accessToken"]})
        return Reply(location=target, cookies=lines)

    def refused(self, target: str | None, refused: Refused) -> Reply:
        """Return the response for a sign-in that has failed."""
        if target is None:
            data = {"code": refused.code}
            if refused.ticket is not None:
                data["ticket"] = refused.ticket
            kind = Unavailable if refused.code == "unavailable" else NotAuthenticated
            error = kind(refused.text, data=data)
            return Reply(status=error.code, body=error.to_dict())
        values = {"error": refused.text, "error_code": refused.code}
        if refused.ticket is not None:
            values["ticket"] = refused.ticket
        return Reply(location=f"{target}#{urlencode(values, quote_via=quote)}")


async def send_reply(context: HookContext, next: Next) -> None:
    """Send the `Reply` that a service has returned: an around hook."""
    await next()
    reply: Reply = context.result
    headers: dict[str, Any] = context.http.get("headers") or {}
    # The URL of the callback has a code, and that of the page may have a token.
    headers = {**headers, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    if reply.cookies:
        headers["Set-Cookie"] = reply.cookies
    context.http = {**context.http, "status": reply.status, "headers": headers}
    if reply.location is not None:
        context.http["location"] = reply.location
    context.result = reply.body
