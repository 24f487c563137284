"""Accounts: prove an address, forget and change a password, change an address, sign in by a mail.

Needs the extra ``auth``.
"""

from alula.accounts._accounts import Accounts
from alula.accounts._guards import recent, verified
from alula.accounts._mail import ConsoleMailer, Mail, Mailer, MemoryMailer
from alula.accounts._smtp import SMTP

__all__ = [
    "SMTP",
    "Accounts",
    "ConsoleMailer",
    "Mail",
    "Mailer",
    "MemoryMailer",
    "recent",
    "verified",
]
