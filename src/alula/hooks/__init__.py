"""Hooks: functions around, before and after the methods of services, and for their errors.

See `Hookable.hooks` for how they are registered.
"""

from alula.hooks._composition import Call as Call
from alula.hooks._composition import HookNext as HookNext
from alula.hooks._composition import Next
from alula.hooks._composition import compose as compose
from alula.hooks._composition import run_hooks as run_hooks
from alula.hooks._composition import watch_params as watch_params

# Other packages of Alula use these; they are not public.
from alula.hooks._hooks import Hook, HookMetadata, annotate_hook, disallow, hook_metadata
from alula.hooks._hooks import check_hook as check_hook
from alula.hooks._hooks import factory_call as factory_call
from alula.hooks._hooks import hook_factory as hook_factory
from alula.hooks._table import HOOK_TYPES as HOOK_TYPES
from alula.hooks._table import Hookable as Hookable
from alula.hooks._table import HookTable as HookTable
from alula.hooks._table import HookTypes as HookTypes

__all__ = ["Hook", "HookMetadata", "Next", "annotate_hook", "disallow", "hook_metadata"]
