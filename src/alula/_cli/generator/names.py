"""Names that become folders, modules, functions and paths; a bad one is refused with its reason."""

from __future__ import annotations

import builtins
import keyword
import re
from typing import Final

from alula._cli.terminal import UsageError

__all__ = [
    "LONGEST",
    "camel_case",
    "check_application",
    "check_function",
    "check_path",
    "check_service",
    "class_name",
    "one_of",
]

LONGEST: Final = 24
"""More characters would not fit into the lines of the templates."""

_WORDS: Final = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.~-]*")
_TAKEN_PATHS: Final = frozenset({"docs", "health", "openapi.json"})
_TAKEN_CLASSES: Final = frozenset(
    {"Any", "BaseModel", "ConfigDict", "ExpressApplication", "Field", "MemoryService", "Reference"}
)
_PLURALS: Final = (
    (re.compile(r"(?<=..)ies$"), "y"),
    (re.compile(r"(?<=s|x)es$"), ""),
    (re.compile(r"(?<=ch|sh)es$"), ""),
    (re.compile(r"(?<=[^su])s$"), ""),
)


def check_application(name: str) -> str:
    """Return the name of an application, which is that of its folder.

    Raises:
        UsageError: It can not be one.
    """
    return _check("an application", name)


def check_service(name: str) -> str:
    """Return the name of a service.

    Raises:
        UsageError: It can not be one.
    """
    if name == "services":  # the function that adds it would hide the one that adds them all
        raise UsageError("'services' is where all services are; choose another name")
    return _check("a service", name)


def check_function(what: str, name: str) -> str:
    """Return the name of a hook or of middleware as that of a function.

    Raises:
        UsageError: It can not be one.
    """
    found = _check(what, name).replace("-", "_")
    if found in dir(builtins):
        raise UsageError(f"{name!r} means something in Python already; choose another name")
    return found


def check_path(path: str) -> str:
    """Return the path of a service, without slashes at its ends.

    Raises:
        UsageError: It can not be one, or the application answers there itself.
    """
    path = path.strip("/")
    for segment in path.split("/"):
        if not _SEGMENT.fullmatch(segment):
            raise UsageError(
                f"{path!r} can not be a path, because of {segment!r}: write names with slashes"
                " between them, such as api/v1/messages; add placeholders to the code by hand"
            )
    if path in _TAKEN_PATHS:
        raise UsageError(f"the application itself answers at /{path}; choose another path")
    if len(path) > 2 * LONGEST:
        raise UsageError(f"{path!r} is too long for a path: {2 * LONGEST} characters at most")
    return path


def one_of(name: str) -> str:
    """Return what one record is called, in snake case: ``chat_room`` for ``chat-rooms``."""
    name = name.replace("-", "_")
    for ending, instead in _PLURALS:
        if ending.search(name):
            return ending.sub(instead, name)
    return name


def class_name(name: str) -> str:
    """Return the name of a class: ``ChatRoom`` for ``chat_room``."""
    found = "".join(word.capitalize() for word in re.split("[-_]", name))
    return f"{found}Record" if found in _TAKEN_CLASSES else found


def camel_case(name: str) -> str:
    """Return a name as JavaScript writes it: ``dueDate`` for ``due_date``."""
    first, *more = name.split("_")
    return first + "".join(map(str.capitalize, more))


def _check(what: str, name: str) -> str:
    if not _WORDS.fullmatch(name):
        raise UsageError(
            f"{name!r} can not be the name of {what}: begin with a small letter, and go on with"
            " small letters and digits, with single dashes or underscores between words"
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise UsageError(f"{name!r} is a word of Python itself; choose another name")
    if len(name) > LONGEST:
        raise UsageError(f"{name!r} is too long for a name: {LONGEST} characters at most")
    return name
