"""Accounts: prove an address, forget and change a password, change an address, sign in by a mail.

Also lists of sessions, and API keys for machines.

Needs the extra ``auth``.
"""

from alula.accounts._accounts import Accounts
from alula.accounts._api_keys import ApiKeys
from alula.accounts._guards import recent, verified
from alula.accounts._mail import ConsoleMailer, Mail, Mailer, MemoryMailer
from alula.accounts._smtp import SMTP

__all__ = [
    "SMTP",
    "Accounts",
    "ApiKeys",
    "ConsoleMailer",
    "Mail",
    "Mailer",
    "MemoryMailer",
    "recent",
    "verified",
]
