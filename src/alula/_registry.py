"""`Registry`: services by path with settings, plugins and hooks; the base of `App` and clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, overload

from alula._events import EventEmitter
from alula._user_code import (
    did_you_mean,
    name_of,
    public_name_of,
    unfit_signature,
    wrong_twin,
)
from alula.hooks import Hookable
from alula.types import STANDARD_METHODS

__all__ = ["Registry", "Settings", "call_plugin", "read_setting"]

_log: Final = logging.getLogger("alula")

T = TypeVar("T")
Handle = TypeVar("Handle", bound=Hookable)


def read_setting(settings: Mapping[str, Any], name: str, *, debug: bool) -> Any:
    """Return a setting, None if it is not set.

    Args:
        settings: The settings by name.
        name: The name.
        debug: Whether to log, once, that another setting has nearly the same name.
    """
    if debug and name not in settings:
        names = [known for known in settings if isinstance(known, str)]  # others are classes
        if hint := did_you_mean(name, names, 0.75):
            _warn_of_setting(name, hint)
    return settings.get(name)


@lru_cache(maxsize=256)  # once for each name
def _warn_of_setting(name: str, hint: str) -> None:
    _log.warning("there is no setting %r%s", name, hint)


def call_plugin(plugin: Callable[[T], object], target: T) -> None:
    """Call a plugin, a plain function of one argument, with an application or a client.

    Raises:
        TypeError: It is not such a function, or it is asynchronous.
    """
    if not callable(plugin):
        raise TypeError(
            f"configure({plugin!r}): a plugin is a function; pass the function itself, configure"
            " calls it"
        )
    if unfit_signature(plugin, "app") is not None:
        if (twin := wrong_twin(plugin)) is not None:
            raise TypeError(twin)
        name = public_name_of(plugin)
        call = f"{name.rpartition('.')[2]}()" if name.startswith("alula.") else "middleware"
        raise TypeError(
            f"write app.use({call}): {name} is not a plugin, which is a function of one argument,"
            " the application"
        )
    result = plugin(target)
    if hasattr(result, "__await__"):
        if asyncio.iscoroutine(result):
            result.close()  # else Python warns that it was never awaited
        raise TypeError(
            f"configure({name_of(plugin)}): plugins are plain functions; do asynchronous work in a"
            " `setup` hook"
        )


class Settings(dict[Any, Any]):
    """Settings by name, or by their class: ``settings[Config]`` is a `Config` for type checkers."""

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, name: type[T], /) -> T: ...
        @overload
        def __getitem__(self, name: str, /) -> Any: ...
        def __getitem__(self, name: Any, /) -> Any: ...

    def __missing__(self, name: object) -> Any:
        if isinstance(name, type):
            raise KeyError(
                f"there are no settings of the class {name.__qualname__}; set them by"
                f" app.set({name.__qualname__}, ...)"
            )
        raise KeyError(name)


class Registry(EventEmitter, Hookable, Generic[Handle]):
    """Services by path, with settings, plugins and hooks around all of them.

    Attributes:
        settings: Settings by name, or by their class.
        services: Handles by path.
    """

    def __init__(self) -> None:
        EventEmitter.__init__(self)
        Hookable.__init__(self)
        self.settings = Settings()
        self.services: dict[str, Handle] = {}

    @overload
    def set(self, name: str, value: object) -> Self: ...
    @overload
    def set(self, name: type[T], value: T) -> Self: ...
    def set(self, name: Any, value: object) -> Self:
        """Set a setting.

        Args:
            name: Its name. Or the class of the value: ``app.settings[name]`` then has this type
                for type checkers.
            value: Its value.
        """
        self.settings[name] = value
        return self

    def get(self, name: str, /) -> Any:
        """Return a setting, None if it is not set."""
        return self.settings.get(name)

    def configure(self, plugin: Callable[[Self], object]) -> Self:
        """Call a plugin, a plain function that takes this object.

        Raises:
            TypeError: It is not such a function, or it is asynchronous.
        """
        call_plugin(plugin, self)
        return self

    def hook_methods(self) -> Collection[str]:
        """Return the standard methods, and the custom methods of all services so far."""
        custom = (name for handle in self.services.values() for name in handle.hook_methods())
        return tuple(dict.fromkeys((*STANDARD_METHODS, *custom)))

    def compose_hooks(self) -> None:
        """Compose the hooks of all services again."""
        for handle in self.services.values():
            handle.compose_hooks()
