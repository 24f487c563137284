"""Code of users: how messages name it, whether its arguments fit, which of it a stack runs.

A function that runs code of users registers a description by `describe_frames`. A look at the stack
of a thread then finds which hook, service or middleware runs, at no cost to the calls themselves.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from traceback import TracebackException
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

__all__ = [
    "Place",
    "callback_frames",
    "describe_frames",
    "did_you_mean",
    "explain_twin",
    "is_cancelled",
    "is_user_code",
    "keep_user_frames",
    "name_of",
    "place_of",
    "public_name_of",
    "unfit_signature",
    "unknown_name_note",
    "wrong_twin",
]

Describe: TypeAlias = Callable[[Mapping[str, Any]], str]
Runner = TypeVar("Runner", bound=Callable[..., Any])

_DESCRIPTIONS: Final[dict[CodeType, Describe]] = {}
_ALULA: Final = Path(__file__).parent
_STDLIB: Final = Path(inspect.__file__).parent
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_LOOP_FILES: Final = {inspect.getfile(asyncio.Handle), inspect.getfile(asyncio.Runner)}
"""The files of asyncio whose code calls the callbacks of an event loop."""


def name_of(function: object) -> str:
    """Return the name of a function for messages: its module and qualified name."""
    # A partial has no name of its own; the function that it calls has.
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if module else name


_LONGEST_NAME: Final = 40

_TWINS: Final = {
    "alula.authentication.authenticate": (
        "authenticate of alula.authentication is a hook:"
        " app.service(path).hooks(around=[authenticate(...)]);"
        " the middleware is authenticate of alula.express"
    ),
    "alula.express.authenticate": (
        "authenticate of alula.express is middleware: app.use(authenticate(...));"
        " the hook is authenticate of alula.authentication"
    ),
    "alula.client.rest": (
        "rest of alula.client is for clients: client.configure(rest(url).fetch());"
        " for an application, configure rest() of alula.express"
    ),
    "alula.express.rest": (
        "rest of alula.express is for applications: app.configure(rest());"
        " for a client, configure rest(url).fetch() of alula.client"
    ),
    "alula.client.socketio": (
        "socketio of alula.client is for clients: client.configure(socketio(url));"
        " for an application, configure socketio() of alula.realtime"
    ),
    "alula.realtime.socketio": (
        "socketio of alula.realtime is for applications: app.configure(socketio());"
        " for a client, configure socketio(url) of alula.client"
    ),
}
"""Functions of two packages have one name each; what to say where the wrong one was taken."""


def public_name_of(function: object) -> str:
    """Return the name by which users import a function of Alula, or a function that it made.

    Other functions keep the name that `name_of` gives.
    """
    name = name_of(function)
    if not name.startswith("alula."):
        return name
    made_by = name.partition(".<locals>")[0]
    parts = [part for part in made_by.split(".") if not part.startswith("_")]
    # Middleware and its module have one name.
    return ".".join(part for at, part in enumerate(parts) if at == 0 or part != parts[at - 1])


def explain_twin(name: str) -> str:
    """Return what the function with this public name of Alula is for, and where its twin is."""
    return _TWINS[name]


def wrong_twin(function: object) -> str | None:
    """Return what to say of a function of Alula where another one of its name was meant.

    Args:
        function: The function, or what it has made.
    """
    return _TWINS.get(public_name_of(function))


def is_cancelled() -> bool:
    """Tell whether the current task is being cancelled.

    If not, a ``CancelledError`` comes from what it awaits, and is a failure like any other.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def unfit_signature(
    function: Callable[..., object], *arguments: str, keywords: bool = False
) -> inspect.Signature | None:
    """Return the signature of a function that does not take these positional arguments.

    Args:
        function: The function.
        arguments: The names of the arguments; their number counts.
        keywords: Whether it gets a value for each parameter that is keyword-only, too.

    Returns:
        None if it takes them, and for built-in functions without a signature.
    """
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return None
    named = [
        name
        for name, parameter in signature.parameters.items()
        if keywords and parameter.kind is parameter.KEYWORD_ONLY
    ]
    try:
        # The names serve as values here: binding only counts them.
        signature.bind(*arguments, **dict.fromkeys(named))
    except TypeError:
        return signature
    return None


def did_you_mean(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """Return ``; did you mean 'created'?`` for a name that is close to one of these, else "".

    Args:
        name: What somebody wrote.
        names: What they may have meant.
        cutoff: How alike the two must be, from 0 to 1.
    """
    from difflib import get_close_matches  # noqa: PLC0415  # slow to import, only for a slip

    near = get_close_matches(name, sorted(names), 1, cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


def unknown_name_note(name: str, allowed: Iterable[str]) -> str:
    """Return a note for an error about a name in a query: what may be meant, and what is allowed.

    Args:
        name: What a client wrote.
        allowed: The names that it may use; of these, the note lists filters and operators.
    """
    names = sorted(set(allowed))
    # The time of a comparison grows with the square of the length.
    near = did_you_mean(name, names) if len(name) <= _LONGEST_NAME else ""
    listed = ", ".join(each for each in names if each[:1] == "$")
    return f"{name[:_LONGEST_NAME]!r} is not known here{near}; allowed: {listed or 'none'}"


class Place(NamedTuple):
    """Where a thread is.

    Attributes:
        what: What runs there, such as ``before hook app.check of service 'notes'``.
        where: File, line and function of the user's innermost frame, or of the innermost frame of
            all without one.
    """

    what: str
    where: str


def describe_frames(function: Runner, describe: Describe) -> Runner:
    """Register what the frames of a function run, and return the function.

    Args:
        function: Runs code of users. A closure counts for all closures of its code.
        describe: Returns the description. It gets the local names of a frame that may be at any
            line, seen from another thread; some names may not be set yet.
    """
    # By code, since a frame knows its code and not its function; closures share it.
    _DESCRIPTIONS[function.__code__] = describe
    return function


def callback_frames(frame: FrameType | None) -> list[FrameType]:
    """Return the frames of the callback that an event loop runs, the innermost first.

    Args:
        frame: The innermost frame of the loop's thread, None if unknown.
    """
    frames: list[FrameType] = []
    while frame is not None and frame.f_code.co_filename not in _LOOP_FILES:
        frames.append(frame)
        frame = frame.f_back
    return frames


def place_of(frames: Sequence[FrameType]) -> Place:
    """Return where the code of these frames is; the innermost frame comes first."""
    if not frames:
        return Place("a callback of the event loop", "an unknown place")
    inside, what = frames, ""
    for at, frame in enumerate(frames):
        # A KeyError or AttributeError: the frame has not set this local name yet.
        with suppress(KeyError, AttributeError):
            if (describe := _DESCRIPTIONS.get(frame.f_code)) is not None:
                what = describe(frame.f_locals)
                inside = frames[: at + 1]  # frames further out only lead to what runs
                break
    user_frames = (frame for frame in inside if is_user_code(frame.f_code.co_filename))
    innermost = next(user_frames, frames[0])
    code = innermost.f_code
    what = what or f"{innermost.f_globals.get('__name__', '')}.{code.co_qualname}"
    return Place(what, f"{code.co_filename}, line {innermost.f_lineno}, in {code.co_name}")


# Cached: the watchdog and the log ask for each frame of a stack, and the paths take a while.
@lru_cache(maxsize=4096)
def is_user_code(filename: str) -> bool:
    """Tell whether a file belongs to the user, not to Python, an installed package or Alula."""
    path = Path(filename)
    if filename.startswith("<") or not _INSTALLED.isdisjoint(path.parts):
        return False
    return not any(path.is_relative_to(folder) for folder in (_ALULA, _STDLIB))


def keep_user_frames(
    error: TracebackException, is_kept: Callable[[str], bool] = is_user_code, *, inner: bool = False
) -> int:
    """Remove the frames of other code from an error, its causes and its group members.

    A stack without any frame of the user stays whole.

    Args:
        error: The error to show; it is changed.
        is_kept: Tells by its file whether to keep a frame.
        inner: Whether to keep the frames that the user's innermost frame called.

    Returns:
        How many frames were removed.
    """
    kept = [at for at, frame in enumerate(error.stack) if is_kept(frame.filename)]
    removed = 0
    # A syntax error has no frame of the file that it is in.
    if kept or is_kept(getattr(error, "filename", None) or "<none>"):
        deeper = error.stack[kept[-1] + 1 :] if kept and inner else []
        frames = [*(error.stack[at] for at in kept), *deeper]
        removed = len(error.stack) - len(frames)
        error.stack[:] = frames
    members: list[TracebackException] = list(getattr(error, "exceptions", None) or ())
    for related in (error.__cause__, error.__context__, *members):
        if related is not None:
            removed += keep_user_frames(related, is_kept, inner=inner)
    return removed
