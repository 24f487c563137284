"""The mailer that sends by SMTP."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from collections.abc import Mapping
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import Any, Final, Literal, Protocol

from alula.accounts._addresses import mailbox
from alula.accounts._mail import Mail

__all__ = ["SMTP"]

_TIMEOUT_SECONDS: Final = 20
_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class _HasSettings(Protocol):
    @property
    def settings(self) -> Mapping[Any, Any]: ...


class SMTP:
    """Sends mails by a server, over an encrypted connection whose certificate is checked.

    Args:
        host: The name of the server.
        port: Its port: 587 for STARTTLS, 465 for TLS from the beginning.
        username: The user name at the server, None to send without signing in.
        password: The password.
        security: ``"starttls"``, ``"tls"``, or ``"none"`` for a server on this machine.

    Raises:
        ValueError: ``security`` is not one of these, or is ``"none"`` for another machine.

    Examples:
        >>> from alula.accounts import SMTP
        >>> SMTP("smtp.example.com", username="app", password="secret")
        SMTP('smtp.example.com', 587, ...)
    """

    def __init__(
        self,
        host: str,
        port: int = 587,
        *,
        username: str | None = None,
        password: str | None = None,
        security: Literal["starttls", "tls", "none"] = "starttls",
    ) -> None:
        if security not in {"starttls", "tls", "none"}:
            raise ValueError(f'security is {security!r}; write "starttls", "tls" or "none"')
        if security == "none" and host not in _THIS_MACHINE:
            raise ValueError(
                f'security="none" sends passwords and links to {host!r} in the clear; use'
                ' "starttls" or "tls"'
            )
        self._host, self._port = host, port
        self._username, self._password = username, password
        self._security = security

    def __repr__(self) -> str:
        return f"SMTP({self._host!r}, {self._port!r}, ...)"

    @classmethod
    def from_settings(cls, app: _HasSettings) -> SMTP:
        """Return a mailer with the settings ``smtp_host``, ``smtp_port``, ``smtp_username``, ...

        Further settings are ``smtp_password`` and ``smtp_security``. All but the host are optional.

        Args:
            app: The application.

        Raises:
            ValueError: There is no ``smtp_host``, or the port is not a number.
        """
        settings = app.settings
        host = settings.get("smtp_host")
        if not host:
            raise ValueError(
                "the setting smtp_host is missing; it names the server that sends mails"
            )
        port = settings.get("smtp_port", 587)
        if not str(port).isdecimal():
            raise ValueError(f"the setting smtp_port is {port!r}; write a number such as 587")
        return cls(
            str(host),
            int(port),
            username=settings.get("smtp_username"),
            password=settings.get("smtp_password"),
            security=settings.get("smtp_security", "starttls"),
        )

    async def send(self, message: Mail) -> None:
        """Send a mail over a connection of its own.

        Raises:
            OSError: The server cannot be reached, or refuses the mail.
            ValueError: The subject or the sender has a line break.
        """
        # In a thread: the standard library has no other client.
        await asyncio.to_thread(self._send, _as_email(message))

    def _send(self, message: EmailMessage) -> None:
        context = ssl.create_default_context()
        if self._security == "tls":
            client: smtplib.SMTP = smtplib.SMTP_SSL(
                self._host, self._port, timeout=_TIMEOUT_SECONDS, context=context
            )
        else:
            client = smtplib.SMTP(self._host, self._port, timeout=_TIMEOUT_SECONDS)
        with client:
            if self._security == "starttls":
                client.starttls(context=context)  # raises where the server does not offer it
            if self._username is not None:
                client.login(self._username, self._password or "")
            client.send_message(message)


def _as_email(mail: Mail) -> EmailMessage:
    message = EmailMessage()
    message["From"] = mail.sender
    message["To"] = mailbox(mail.to)
    message["Subject"] = mail.subject
    message["Date"] = formatdate()
    message["Message-ID"] = make_msgid(domain=mail.sender.rpartition("@")[2].strip("> "))
    message["Auto-Submitted"] = "auto-generated"  # so that no absence note answers (RFC 3834)
    message.set_content(mail.text)
    message.add_alternative(mail.html, subtype="html")
    return message
