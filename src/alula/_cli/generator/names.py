"""Checks the names of applications, services, functions and paths, and derives further names."""

from __future__ import annotations

import builtins
import keyword
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from typing import Final

from alula._cli.terminal import UsageError

__all__ = [
    "MAX_LENGTH",
    "camel_case",
    "check_application",
    "check_function",
    "check_path",
    "check_service",
    "class_name",
    "singular",
]

MAX_LENGTH: Final = 24
"""Longer names would break lines of the templates at more than 100 characters."""

_WORDS: Final = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_PACKAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Frameworks and tools that are no dependencies, but may be installed beside the application.
_KNOWN_PACKAGES: Final = frozenset(
    {"django", "fastapi", "flask", "hatchling", "mypy", "pip", "pyright", "ruff", "setuptools"}
)
_PATH_SEGMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.~-]*")
# Registered by the generated `app.py`.
_RESERVED_PATHS: Final = frozenset({"docs", "health", "openapi.json"})
_IMPORTED_CLASSES: Final = frozenset(  # by the templates
    {"Any", "BaseModel", "ConfigDict", "ExpressApplication", "Field", "MemoryService", "Reference"}
    | {"BigInteger", "Boolean", "Column", "Double", "Identity", "Integer", "Table", "Text"}
)
_PLURAL_ENDINGS: Final = (
    (re.compile(r"(?<=..)ies$"), "y"),
    (re.compile(r"(?<=s|x)es$"), ""),
    (re.compile(r"(?<=ch|sh)es$"), ""),
    (re.compile(r"(?<=[^su])s$"), ""),
)


def check_application(name: str) -> str:
    """Return the name of an application, which is also the name of its folder and its package.

    Raises:
        UsageError: The name is not valid, or that of a package that the application needs.
    """
    normalized = _check("an application", name).replace("_", "-")
    # pip would take the application for that package, and install neither.
    if normalized in _dependencies():
        raise UsageError(f"{name!r} is the name of a package from PyPI; choose another name")
    return name


def _dependencies() -> frozenset[str]:
    """Return the names of the packages that applications need, directly or not."""
    found, left = set(_KNOWN_PACKAGES), ["alula"]
    while left:
        package = left.pop()
        found.add(package)
        with suppress(PackageNotFoundError):  # an extra that is not installed
            named = {_PACKAGE.match(line) for line in requires(package) or ()}
            names = {match[0].lower().replace("_", "-") for match in named if match}
            left += names - found
            found |= names
    return frozenset(found)


def check_service(name: str) -> str:
    """Return the name of a service.

    Raises:
        UsageError: The name is not valid.
    """
    # Its function `add_services` would replace the one that adds all services.
    if name == "services":
        raise UsageError("'services' is the folder of all services; choose another name")
    return _check("a service", name)


def check_function(what: str, name: str) -> str:
    """Return the name of a hook or of middleware as the name of its function.

    Args:
        what: What has the name, for the message.
        name: The name, with dashes or underscores.

    Raises:
        UsageError: The name is not valid.
    """
    function = _check(what, name).replace("-", "_")
    # The code that imports it could not use the built-in function any more.
    if function in dir(builtins):
        raise UsageError(f"{name!r} is a built-in name of Python; choose another name")
    return function


def check_path(path: str) -> str:
    """Return the path of a service, without slashes at its ends.

    Raises:
        UsageError: The path is not valid, or the application itself uses it.
    """
    path = path.strip("/")
    for segment in path.split("/"):
        if not _PATH_SEGMENT.fullmatch(segment):
            raise UsageError(
                f"{path!r} cannot be a path, because of {segment!r}: write names with slashes"
                " between them, such as api/v1/messages; add placeholders to the code by hand"
            )
    if path in _RESERVED_PATHS:
        raise UsageError(f"the application itself uses /{path}; choose another path")
    if len(path) > 2 * MAX_LENGTH:
        raise UsageError(f"{path!r} is too long for a path: the limit is {2 * MAX_LENGTH}")
    return path


def singular(name: str) -> str:
    """Return the name of one record in snake case: ``chat_room`` for ``chat-rooms``."""
    name = name.replace("-", "_")
    for ending, replacement in _PLURAL_ENDINGS:
        if ending.search(name):
            return ending.sub(replacement, name)
    return name


def class_name(name: str) -> str:
    """Return the name of a class: ``ChatRoom`` for ``chat_room``."""
    joined = "".join(word.capitalize() for word in re.split("[-_]", name))
    return f"{joined}Record" if joined in _IMPORTED_CLASSES else joined


def camel_case(name: str) -> str:
    """Return a name as JavaScript writes it: ``dueDate`` for ``due_date``."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _check(what: str, name: str) -> str:
    if not _WORDS.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of {what}: use lower-case letters and digits, start with"
            " a letter, and put single dashes or underscores between words"
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise UsageError(f"{name!r} is a keyword of Python; choose another name")
    if len(name) > MAX_LENGTH:
        raise UsageError(f"{name!r} is too long for a name: the limit is {MAX_LENGTH} characters")
    return name
