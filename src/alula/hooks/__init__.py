"""Hooks: functions around, before and after the methods of services, and for their errors.

See `Hookable.hooks` for how they are registered.
"""

from alula.hooks._hooks import (
    Hook,
    HookMetadata,
    annotate_hook,
    check_hook,
    disallow,
    factory_call,
    hook_factory,
    hook_metadata,
)
from alula.hooks._table import HOOK_TYPES, Hookable, HookTable, Next, compose

__all__ = [
    "HOOK_TYPES",
    "Hook",
    "HookMetadata",
    "HookTable",
    "Hookable",
    "Next",
    "annotate_hook",
    "check_hook",
    "compose",
    "disallow",
    "factory_call",
    "hook_factory",
    "hook_metadata",
]
