"""Names of a package that are loaded when somebody imports them, not with the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["late_names"]


def late_names(
    package: dict[str, Any], modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a package (PEP 562).

    Names belong here if most applications do not use them, and their modules take long to load.
    Type checkers see none of this, so the package imports the names for them.

    Examples:
        >>> package = {"__name__": "alula"}
        >>> getattr_, dir_ = late_names(package, {"Page": "types"})
        >>> getattr_("Page").__name__, "Page" in package, dir_()
        ('Page', True, ['Page', '__name__'])

    Args:
        package: The ``globals()`` of the package; a name is kept there once it is loaded.
        modules: By name: the module below the package that has it.

    Raises:
        AttributeError: By the first function: the package does not have the name.
    """

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package['__name__']}.{modules[name]}"), name)
        package[name] = value
        return value

    def names() -> list[str]:
        return sorted({*package, *modules})

    return load, names
