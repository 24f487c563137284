"""Hooks: tables of around, before, after and error functions, composed into one per method.

Order, from the outside in: around hooks (those for every method first), then error, before and
after hooks around the method itself. All hooks of the application surround all of the service.
Error hooks see what before hooks, after hooks and the method raise; those of the application also
see what any hook of the service raises.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Self, TypeAlias, TypedDict, TypeVar, Unpack

from alula._context import HookContext
from alula._user_code import name_of
from alula.hooks._composition import Call, Next, run_hooks, surround, with_error
from alula.hooks._hooks import Hook, check_hook, check_order, hook_metadata
from alula.types import is_array, is_mapping

__all__ = ["HOOK_TYPES", "HookTable", "HookTypes", "Hookable"]

AnyHook = TypeVar("AnyHook", bound=Hook)
PlainHook = TypeVar("PlainHook", bound=Callable[[HookContext], Any])
AroundHook = TypeVar("AroundHook", bound=Callable[[HookContext, Next], Any])

HOOK_TYPES: Final = ("around", "before", "after", "error")
EVERY_METHOD: Final = "all"
_READS: Final = frozenset({"find", "get"})


OneOrMore: TypeAlias = Hook | Sequence[Hook]


class HookTypes(TypedDict, total=False):
    """The types of hooks, each for every method or by method; the last two of applications only."""

    around: OneOrMore | Mapping[str, OneOrMore]
    before: OneOrMore | Mapping[str, OneOrMore]
    after: OneOrMore | Mapping[str, OneOrMore]
    error: OneOrMore | Mapping[str, OneOrMore]
    setup: OneOrMore
    teardown: OneOrMore


class Hookable:
    """Registers hooks by call and by decorator; base of applications and service handles.

    Subclasses list their methods in ``hook_methods`` and compose them again in ``compose_hooks``.
    """

    def __init__(self) -> None:
        self.hook_table = HookTable()

    def hook_methods(self) -> Collection[str]:
        """Return the names of the methods that can have hooks."""
        raise NotImplementedError

    def compose_hooks(self) -> None:
        """Compose hooks and methods again, after hooks changed."""
        raise NotImplementedError

    def hooks(self, hooks: object = None, /, **kinds: Unpack[HookTypes]) -> Self:
        """Register hooks: ``hooks(before={"create": [check]}, around=[log])``.

        Args:
            hooks: The same as one mapping, or a list of around hooks for every method.
            kinds: ``around``, ``before``, ``after``, ``error``; each a list (for every method) or
                a mapping of method or ``all`` to a list. On the application also ``setup`` and
                ``teardown``, lists of functions of ``(context, next)`` around start and stop;
                their context has ``app`` and ``server``.

        Raises:
            ValueError: A type or a method does not exist.
            TypeError: A hook is not a function, or takes the wrong number of arguments.
        """
        if hooks is not None and kinds:
            raise TypeError("hooks come as one mapping or as keywords, not as both")
        by_type: dict[str, Any] = {**kinds}
        # As in FeathersJS: a list is one of around hooks for every method.
        if isinstance(hooks, list | tuple):
            by_type = {"around": hooks}
        elif is_mapping(hooks):
            by_type = dict(hooks)
        elif hooks is not None:
            raise TypeError(
                "hooks takes around=, before=, after= and error=, or one mapping of these, not"
                f" {hooks!r}"
            )
        self._add_hooks(by_type)
        return self

    def _add_hooks(self, hooks: dict[str, Any]) -> None:
        self.hook_table.add(hooks, self.hook_methods(), repr(self))
        self.compose_hooks()

    def around(self, *methods: str) -> Callable[[AroundHook], AroundHook]:
        """Register an around hook ``(context, next)``, for every method if none is named."""
        return self._decorator("around", methods)

    def before(self, *methods: str) -> Callable[[PlainHook], PlainHook]:
        """Register a before hook ``(context)``, for every method if none is named."""
        return self._decorator("before", methods)

    def after(self, *methods: str) -> Callable[[PlainHook], PlainHook]:
        """Register an after hook ``(context)``, for every method if none is named."""
        return self._decorator("after", methods)

    def error(self, *methods: str) -> Callable[[PlainHook], PlainHook]:
        """Register an error hook ``(context)``, for every method if none is named."""
        return self._decorator("error", methods)

    def _decorator(self, kind: str, methods: tuple[str, ...]) -> Callable[[AnyHook], AnyHook]:
        if methods and callable(methods[0]):
            raise TypeError(f'write @service.{kind}() or @service.{kind}("create"), with brackets')
        for method in methods:
            if not isinstance(method, str):
                raise TypeError(
                    f"{kind}({method!r}): name the methods one by one, not in a list or mapping:"
                    f' @service.{kind}("create", "patch")'
                )

        def register(hook: AnyHook) -> AnyHook:
            self.hooks({kind: {method: [hook] for method in methods or (EVERY_METHOD,)}})
            return hook

        return register


class HookTable:
    """The hooks of one level: those of the application, or those of one service.

    Attributes:
        changes: How often hooks were registered; a cache built from the table compares it.
        enclosing: By method, around hooks outside all others; where the service is mounted, too.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._hooks: dict[str, dict[str, list[Hook]]] = {kind: {} for kind in HOOK_TYPES}
        self._innermost: dict[str, list[Hook]] = {}
        self._outermost: dict[str, list[Hook]] = {}
        self._first: Mapping[str, Sequence[Hook]] = {}
        self._last: Mapping[str, Sequence[Hook]] = {}
        self._checks: dict[str, Hook] = {}
        self.enclosing: Mapping[str, Sequence[Hook]] = {}

    def enclose(
        self,
        first: Mapping[str, Sequence[Hook]],
        last: Mapping[str, Sequence[Hook]],
        outermost: Mapping[str, Sequence[Hook]],
    ) -> None:
        """Set hooks whose place does not depend on the order of registration.

        Args:
            first: By method, hooks that run before all other before hooks. They may depend on the
                caller, so ``authenticate`` and the hooks registered before it precede them.
            last: By method, hooks that run after all other before hooks.
            outermost: By method, around hooks that run outside all others.
        """
        self._first, self._last, self.enclosing = first, last, outermost

    def check(self, method: str, hook: Hook | None) -> None:
        """Set the hook that checks what a method declares; it runs before those of `enclose`."""
        if hook is None:
            self._checks.pop(method, None)
        else:
            self._checks[method] = hook

    def has_check(self, method: str) -> bool:
        """Tell whether `check` has set a hook."""
        return method in self._checks

    def has_hooks(self, method: str) -> bool:
        """Tell whether a method has hooks other than that of `check`."""
        tables = (self._innermost, self._outermost, self._first, self._last, self.enclosing)
        enclosed = any(table.get(method) for table in tables)
        own = (EVERY_METHOD, method)
        return enclosed or any(by.get(name) for by in self._hooks.values() for name in own)

    def add(self, hooks: Mapping[str, Any], methods: Collection[str], where: str) -> None:
        """Check and register hooks.

        Args:
            hooks: Type to a list (for every method), or to a mapping of method or ``all`` to one.
            methods: The methods that exist.
            where: Whose hooks these are, for messages.

        Raises:
            ValueError: A type or a method does not exist.
            TypeError: A hook is not a function, takes the wrong number of arguments, would have no
                effect, or needs the user before `authenticate` sets it.
        """
        checked: list[tuple[str, str, Hook]] = []
        for kind, by_method in hooks.items():
            if kind not in HOOK_TYPES:
                raise ValueError(
                    f"unknown type of hook {kind!r} for {where}; use {', '.join(HOOK_TYPES)}"
                )
            if not is_mapping(by_method):
                by_method = {EVERY_METHOD: by_method}  # noqa: PLW2901  # the same in its long form
            for method, given in by_method.items():
                if method != EVERY_METHOD and method not in methods:
                    raise ValueError(
                        f"{kind} hook for `{method}` of {where}: there is no such method; it has"
                        f" {', '.join(methods)} (list custom methods in `use` first)"
                    )
                for hook in given if is_array(given) else [given]:
                    check_hook(kind, hook, where)
                    if method in hook_metadata(hook).get("ignores", ()):
                        raise TypeError(
                            f"{kind} hook {name_of(hook)} of {where} would have no effect for"
                            f" `{method}`; register it for other methods"
                        )
                    checked.append((kind, method, hook))
        before = self._hooks
        self._hooks = {
            kind: {method: [*given] for method, given in by_method.items()}
            for kind, by_method in before.items()
        }
        for kind, method, hook in checked:
            self._hooks[kind].setdefault(method, []).append(hook)
        try:
            for method in methods:
                check_order((*self.of("around", method), *self.of("before", method)), method, where)
        except TypeError:
            self._hooks = before  # all hooks are registered, or none
            raise
        self.changes += 1

    def add_innermost(self, hook: Hook, methods: Collection[str]) -> None:
        """Register an around hook directly around the method itself.

        It runs after all before hooks and before all after hooks, independent of the order of
        registration: what must happen with a change does not depend on hooks that fail.
        """
        for method in methods:
            self._innermost.setdefault(method, []).append(hook)

    def add_outermost(self, hook: Hook, methods: Collection[str]) -> None:
        """Register an around hook outside all others, those of the application included.

        What must only happen if the call succeeds waits there for all hooks that may fail.
        """
        for method in methods:
            self._outermost.setdefault(method, []).append(hook)

    def surround(self, method: str, call: Call) -> Call:
        """Return ``call`` with the outermost hooks around it, itself without any."""
        hooks = [*self.enclosing.get(method, ()), *self._outermost.get(method, ())]
        return surround(hooks, call)

    def of(self, kind: str, method: str) -> list[Hook]:
        """Return the hooks of a type for a method, those for every method first."""
        by_method = self._hooks[kind]
        hooks = [
            hook
            for hook in (*by_method.get(EVERY_METHOD, ()), *by_method.get(method, ()))
            if method not in hook_metadata(hook).get("ignores", ())
        ]
        if kind == "before":
            # Behind the last hook with strategies, such as `authenticate`, the caller is known.
            identified = (
                n for n, hook in enumerate(hooks, 1) if "strategies" in hook_metadata(hook)
            )
            place = max(identified, default=0)
            check = [self._checks[method]] if method in self._checks else []
            hooks[place:place] = (*check, *self._first.get(method, ()))
            hooks += self._last.get(method, ())
        return hooks

    def wrap_innermost(self, method: str, call: Call) -> Call:
        """Return ``call`` with hooks around it whose metadata says that they are the innermost.

        Those of the application are inside all hooks of the service, too: what they do in place of
        the method must not skip a check, nor a hook of `add_innermost`.
        """
        innermost: list[Hook] = []
        completing: list[Hook] = []
        for hook in (*self.of("around", method), *self.of("before", method)):
            inner: Any = hook_metadata(hook).get("innermost")
            if is_mapping(inner):
                inner = inner.get(method)
            if inner:
                innermost.append(hook if inner is True else inner)
            completing += _completions(hook, method)
        # Once each: what completes a call does it for all hooks that have prepared it. It comes
        # first, since an innermost hook may do something else in place of the method.
        hooks = [*dict.fromkeys((*completing, *innermost))]
        return surround(hooks, call)

    def wrap_changes(self, method: str, call: Call) -> Call:
        """Return ``call`` with hooks around it whose metadata says that they follow changes.

        It is not known what a custom method does, so it counts as a change.
        """
        if method in _READS:
            return call
        hooks = chain.from_iterable(self._hooks["around"].values())
        following = [hook for hook in hooks if hook_metadata(hook).get("follows_changes")]
        # Once each, however many methods it is registered for.
        return surround([*dict.fromkeys(following)], call)

    def wrap(self, method: str, call: Call) -> Call:
        """Return ``call`` with the hooks of this level around it, itself without any hooks."""
        if method in self._innermost:
            call = surround(self._innermost[method], call)
        before, after, error = (self.of(kind, method) for kind in HOOK_TYPES[1:])

        async def call_between(context: HookContext) -> None:
            if before:
                await run_hooks("before", before, context)
            await call(context)
            if after:
                await run_hooks("after", after, context)

        # Only what has hooks gets a coroutine more: without any, `call` itself comes back.
        wrapped = call_between if before or after else call
        if error:
            wrapped = with_error(wrapped, error)
        # The around hooks of after hooks, such as the check that `protect` makes before the call.
        guards = (hook_metadata(hook).get("around") for hook in after)
        around = [*filter(None, guards), *self.of("around", method)]
        around = [hook for hook in around if hook_metadata(hook).get("innermost") is not True]
        around.sort(key=lambda hook: hook_metadata(hook).get("outermost") is not True)  # stable
        return surround(around, wrapped)


def _completions(hook: Hook, method: str) -> Iterator[Hook]:
    """Yield what runs around a method for a hook, and for the hooks that it has a condition for."""
    metadata = hook_metadata(hook)
    if method in (completes := metadata.get("completes", {})):
        yield completes[method]
    for inner in metadata.get("hooks", ()):
        yield from _completions(inner, method)
