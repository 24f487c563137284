"""Accounts: prove an address, forget and change a password, change an address, sign in by a mail.

Also lists of sessions, and API keys for machines.

Needs the extra ``auth``; providers such as `google` need the extra ``oauth``, and passkeys need
``passkeys``.
"""

from typing import TYPE_CHECKING

from alula._late_imports import late_names
from alula.accounts._accounts import Accounts
from alula.accounts._api_keys import ApiKeys
from alula.accounts._events import AccountEvent
from alula.accounts._guards import recent, verified
from alula.accounts._mail import ConsoleMailer, Mail, Mailer, MemoryMailer
from alula.accounts._smtp import SMTP
from alula.accounts.providers._provider import Claims, Provider, ProviderError

if TYPE_CHECKING:
    from alula.accounts.providers._apple import apple
    from alula.accounts.providers._github import github
    from alula.accounts.providers._gitlab import gitlab
    from alula.accounts.providers._google import google
    from alula.accounts.providers._microsoft import microsoft
    from alula.accounts.providers._openid import openid

__all__ = [
    "SMTP",
    "AccountEvent",
    "Accounts",
    "ApiKeys",
    "Claims",
    "ConsoleMailer",
    "Mail",
    "Mailer",
    "MemoryMailer",
    "Provider",
    "ProviderError",
    "apple",
    "github",
    "gitlab",
    "google",
    "microsoft",
    "openid",
    "recent",
    "verified",
]

# Only applications with providers have their libraries.
if not TYPE_CHECKING:  # otherwise, checkers would accept every name
    __getattr__, __dir__ = late_names(
        globals(),
        {
            "apple": "providers._apple",
            "github": "providers._github",
            "gitlab": "providers._gitlab",
            "google": "providers._google",
            "microsoft": "providers._microsoft",
            "openid": "providers._openid",
        },
    )
