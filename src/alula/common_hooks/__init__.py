"""Ready-made hooks for what applications repeat: owners, roles, timestamps, caches, limits.

Each is a function that returns a hook: ``before=[only_own("userId")]``. Hooks that guard apply to
the calls of clients; the application's own calls pass.
"""

from alula.common_hooks._cache import Cache, cache
from alula.common_hooks._calls import debug, params_from_client, stash_before, validate
from alula.common_hooks._conditions import Conditional, every, iff, is_external, some, unless
from alula.common_hooks._fields import discard, keep, prevent_changes
from alula.common_hooks._owners import allow, only_own, set_owner
from alula.common_hooks._populate import populate
from alula.common_hooks._rate_limit import rate_limit
from alula.common_hooks._soft_delete import soft_delete
from alula.common_hooks._timestamps import timestamps, unix_milliseconds, utc_now

__all__ = [
    "Cache",
    "Conditional",
    "allow",
    "cache",
    "debug",
    "discard",
    "every",
    "iff",
    "is_external",
    "keep",
    "only_own",
    "params_from_client",
    "populate",
    "prevent_changes",
    "rate_limit",
    "set_owner",
    "soft_delete",
    "some",
    "stash_before",
    "timestamps",
    "unix_milliseconds",
    "unless",
    "utc_now",
    "validate",
]
