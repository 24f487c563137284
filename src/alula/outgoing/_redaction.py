"""How a property is hidden from clients. There is one way, of which all others are spellings.

A hook gives each record of a result a *view*: the part of it that clients may see. `redact_result`
makes the record a `RedactedRecord`, which carries its view wherever it goes: into REST responses,
acknowledgements and events of sockets, streams, pages, related records, metadata of files and data
of errors. Everything that sends calls `public_part`, which replaces each such record by its view. A
copy that own code makes of a record still has its `HiddenValue`s, which no encoder sends.

A client must not find out a hidden value by asking for it either: `check_hidden` refuses queries
that name a property which is always hidden. A service with a schema refuses them itself, since the
schema of its queries lacks the property.

The spellings:

- ``with_schema(..., hidden=["password"])``, ``resolve({"password": hidden})`` in ``external`` or
  `resolve_external`, ``writeOnly`` in a JSON Schema, `SecretStr` in a model,
- a function in ``external`` that returns `UNSET`, or another value, for some records,
- ``protect("password")`` of `alula.authentication`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Protocol, Self

from alula._item_stream import is_stream, stream_of
from alula.errors import BadRequest, FrameworkError
from alula.outgoing._encoders import as_mapping
from alula.types import (
    COLLECTION_TYPES,
    PAGE_NAMES,
    SCALAR_TYPES,
    STANDARD_METHODS,
    UNSET,
    JSONValue,
    Page,
    is_mapping,
)

__all__ = [
    "HiddenValue",
    "HiddenValueError",
    "ItemCall",
    "RedactedRecord",
    "check_hidden",
    "hidden_value",
    "is_one_record",
    "is_redacted",
    "item_method",
    "map_records",
    "public_part",
    "public_result",
    "records_in_error",
    "records_of",
    "redact_error",
    "redact_record",
    "redact_result",
    "result_to_encode",
    "shown_value",
    "without_properties",
]

_ONE_RECORD: Final = frozenset({"", *STANDARD_METHODS}) - {"find"}
"""Methods that return records and lists of them; "" means an element of a list."""

# `Any`, so that a type checker does not take what they hold for unknown.
_PAGE: Final[Any] = Page


class Call(Protocol):
    """A call of a service: what redaction reads and sets of a `HookContext`."""

    method: str
    data: Any
    params: Any
    result: Any
    dispatch: Any


# -- the call --------------------------------------------------------------------------------------


def result_to_encode(call: Call) -> Any:
    """Return what clients get of a call: ``dispatch``, or the result where no hook has set it.

    It may hold redacted records, which Alula's JSON encoders replace by their public part.
    """
    return call.result if call.dispatch is UNSET else call.dispatch


def public_result(call: Call) -> Any:
    """Return what clients get of a call: ``dispatch`` or the result, without what is hidden.

    Code that sends results in a form of its own begins with this. It takes the context of a call
    that has ended. The result of a method that streams is an asynchronous iterator; of each item,
    what is hidden is removed as well.

    Args:
        call: The `HookContext` of the call.

    Examples:
        >>> import asyncio
        >>> from alula import App, HookContext, Params
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.authentication import protect
        >>> app = App().use("users", MemoryService([{"id": 1, "name": "Ada", "password": "hash"}]))
        >>> users = app.service("users").hooks(around=[protect("password")])
        >>> context = HookContext(app, users, "get", Params(), 1)
        >>> asyncio.run(users.run(context))
        >>> public_result(context)
        {'id': 1, 'name': 'Ada'}
    """
    result = result_to_encode(call)
    if not is_stream(result):
        return public_part(result)
    stream = stream_of(call)
    stream.change_at_once(public_part)
    return stream


def item_method(method: str) -> str:
    """Return the method for `map_records`, for an item of a stream instead of the whole result."""
    return "" if method in STANDARD_METHODS else method


class ItemCall:
    """An item of a stream as the result of a call of its own, for `redact_result`.

    Args:
        call: The call that streams.
        item: The item.
    """

    def __init__(self, call: Call, item: Any) -> None:
        self.method = item_method(call.method)
        self.data, self.params = call.data, call.params
        self.result = item
        self.dispatch: Any = UNSET

    @property
    def item(self) -> Any:
        """The item after its redaction, which it carries itself: a stream has no ``dispatch``."""
        # Only what cannot carry it, such as a list in a list, becomes what clients see of it.
        return self.result if public_part(self.result) == self.dispatch else self.dispatch


def redact_result(
    call: Call,
    view: Callable[[Any], Any],
    view_extras: Callable[[dict[str, Any]], Mapping[str, Any]],
    redacted_by: object = None,
) -> None:
    """Set what clients get of a result, and make each record of the result a redacted one.

    Args:
        call: The call; its ``dispatch`` and ``result`` change.
        view: Called once with each record; returns its view, which holds no redacted records. If
            another hook has set what clients get, those records come first.
        view_extras: Returns the view of the entries of a page beyond the standard ones. It is
            called for what clients get, then for the result.
        redacted_by: What redacts. A record that it redacted in another call keeps its view.
    """
    result, method = call.result, call.method
    if is_one_record(call):
        redact_record(call, view(result), redacted_by)
        return
    # The result itself still needs its redaction: it may become a part of another record.
    is_set = call.dispatch is not UNSET
    views: list[Any] = []

    def show(record: Any) -> Any:
        views.append(record.public if is_redacted(record, redacted_by) else view(record))
        return views[-1]

    call.dispatch = map_records(call.dispatch if is_set else result, method, show, view_extras)
    made = iter(views)

    def redact(record: object) -> Any:
        shown = show(record) if is_set else next(made)
        if not is_mapping(record):
            return record
        return RedactedRecord(record, shown, redacted_by or getattr(record, "redacted_by", None))

    call.result = map_records(result, method, redact, view_extras, redact=True)


def is_one_record(call: Call) -> bool:
    """Tell whether the result of a call is one record as a dict, and clients get it as it is.

    So it is for all calls but `find`, in most applications. `redact_record` then does the same as
    `redact_result`, in a third of the time.
    """
    return type(call.result) is dict and call.dispatch is UNSET and call.method in _ONE_RECORD


def redact_record(call: Call, view: Any, redacted_by: object = None) -> None:
    """Set what clients get of a result that `is_one_record`, and make it a redacted one.

    Args:
        call: The call; its ``dispatch`` and ``result`` change.
        view: The view of the record.
        redacted_by: As for `redact_result`.
    """
    call.dispatch = view
    call.result = RedactedRecord(call.result, view, redacted_by)


def is_redacted(record: object, redacted_by: object) -> bool:
    """Tell whether this has redacted a record already, in another call."""
    return (
        isinstance(record, RedactedRecord)
        and redacted_by is not None
        and record.redacted_by is redacted_by
    )


def records_in_error(error: FrameworkError, call: Call) -> list[Any]:
    """Return the records of the result that an error may contain: hooks have seen them whole."""
    if call.result is UNSET or (error.data is None and error.errors is None):
        return []
    return [
        record
        for record in (call.result, *records_of(call.result, call.method)[0])
        if is_mapping(record) and not isinstance(record, RedactedRecord | Page)
    ]


def redact_error(error: FrameworkError, records: Sequence[Any], views: Iterable[Any]) -> None:
    """Redact records in the data of an error.

    Args:
        error: Its data changes.
        records: Those of `records_in_error`.
        views: The view of each of them.
    """
    redacted = list(map(RedactedRecord, records, map(public_part, views)))
    if redacted:
        error.data = _with_redacted(error.data, redacted)
        error.errors = _with_redacted(error.errors, redacted)


def _with_redacted(value: JSONValue, redacted: Sequence[RedactedRecord]) -> Any:
    """Return a value in which these records, and copies of them, are redacted at any depth."""
    if isinstance(value, RedactedRecord):
        return value
    if isinstance(value, Mapping):
        # By equality, since hooks copy records into the data of errors.
        same = next((record for record in redacted if record == value), None)
        if same is not None:
            return same
        return {name: _with_redacted(inner, redacted) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_redacted(inner, redacted) for inner in value]
    return value


def check_hidden(call: Call, hidden: Collection[str]) -> None:
    """Refuse queries that let a client find out the value of a hidden property, bit by bit.

    ``$select`` may name it: the records come without it.

    Args:
        call: The call. Those of the application may name every property.
        hidden: The properties.

    Raises:
        BadRequest: The query names one, or ``$rename`` in the data copies one.
    """
    if call.params.provider is None:
        return
    data = call.data
    name = _hidden_name_in(call.params["query"], hidden)
    if name is None and is_mapping(data) and is_mapping(data.get("$rename")):
        name = _hidden_name_in(data["$rename"], hidden)
    if name is not None:
        raise BadRequest(f"Invalid query: {name} is hidden; remove it from the query")


def _hidden_name_in(query: Any, hidden: Collection[str], *, are_names: bool = False) -> str | None:
    """Return the first name of a hidden property in a query, None if there is none.

    Args:
        query: A query, or a part of it below a name that begins with ``$``.
        hidden: The properties.
        are_names: Whether strings are names of properties here, too.
    """
    waiting = [(query, are_names)]  # a loop, not recursion: a client chooses the depth
    while waiting:
        value, are_names = waiting.pop()
        if is_mapping(value):
            for key, inner in value.items():
                name = str(key)
                if name.partition(".")[0] in hidden:
                    return name
                if name[:1] == "$":
                    if name != "$select":
                        waiting.append((inner, name == "$sort"))
                elif are_names or name.isdecimal():  # query strings make objects of long lists
                    waiting.append((inner, are_names))
        elif isinstance(value, COLLECTION_TYPES):
            waiting += ((item, are_names) for item in value)
        elif (
            are_names and isinstance(value, str) and value.lstrip("+-").partition(".")[0] in hidden
        ):
            return value
    return None


# -- hidden values ---------------------------------------------------------------------------------


class HiddenValueError(TypeError):
    """A hidden value would be sent, or stored within another record. Its text names the property.

    Args:
        name: The property.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"it is the hidden property {name!r}, which never leaves; send the record as its"
            " service returned it, or name the properties that you mean"
        )


class HiddenValue:
    """The value of a hidden property, in a record that a service returned.

    It works as the value itself: it is equal to it, and can be compared, hashed, formatted and
    stored again as a property of a record. Only JSON encoders refuse it, so that a plain copy of a
    record (``{**record}``) cannot send it. Text, bytes, numbers, lists and dicts are hidden this
    way.

    Attributes:
        hidden_name: The property.
    """

    hidden_name = ""

    def __repr__(self) -> str:
        # A repr ends up in logs and error messages, which leave the application as well.
        return f"<hidden: {self.hidden_name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return hidden_value, (self.hidden_name, shown_value(self))


class _HiddenText(HiddenValue, str):
    pass


class _HiddenBytes(HiddenValue, bytes):
    pass


class _HiddenByRepr(HiddenValue):
    """Of types whose text is their repr."""

    def __str__(self) -> str:
        return repr(shown_value(self))


class _HiddenInteger(_HiddenByRepr, int):
    pass


class _HiddenFloat(_HiddenByRepr, float):
    pass


class _HiddenList(_HiddenByRepr, list[Any]):
    pass


class _HiddenDict(_HiddenByRepr, dict[str, Any]):
    pass


_HIDDEN_FORMS: Final[Mapping[type, Any]] = {
    str: _HiddenText,
    bytes: _HiddenBytes,
    int: _HiddenInteger,
    float: _HiddenFloat,
    list: _HiddenList,
    dict: _HiddenDict,
}
_MASKED: Final = frozenset({str, bytes, int, float})


def hidden_value(name: str, value: Any) -> Any:
    """Return the value of a hidden property, which encoders refuse.

    Args:
        name: The property.
        value: Its value. One of a type that cannot be marked, such as a date, stays as it is.
    """
    form = _HIDDEN_FORMS.get(value.__class__)
    if form is None:
        return value
    marked = form(value)
    marked.hidden_name = name
    return marked


def shown_value(value: Any) -> Any:
    """Return a value without the mark of `HiddenValue`; its items stay as they are."""
    if not isinstance(value, HiddenValue):
        return value
    plain = next(type_ for type_, form in _HIDDEN_FORMS.items() if isinstance(value, form))
    return plain(value)


def _is_masked(value: object, shown: object) -> bool:
    """Tell whether clients see another value, such as the last digits of a number."""
    return type(value) in _MASKED and shown != value


# -- redacted records ------------------------------------------------------------------------------


class RedactedRecord(dict[str, Any]):
    """A record as the application sees it, with the part of it that clients may see.

    It is a dict like any other. ``record.copy()`` and ``record | {...}`` stay redacted. A plain
    dict made of it (``{**record}``) does not, but its hidden values are of the type `HiddenValue`:
    they can be used, and no encoder sends them.

    Args:
        record: All properties.
        public: What clients get in its place; holds no redacted records itself.
        redacted_by: What redacted it, so that a hook that runs twice redacts it once.

    Attributes:
        public: As given.
        redacted_by: As given.

    Examples:
        >>> user = RedactedRecord({"name": "Ada", "password": "hash"}, public={"name": "Ada"})
        >>> user["password"] == "hash", user["password"], public_part([user])
        (True, <hidden: password>, [{'name': 'Ada'}])
    """

    __slots__ = ("public", "redacted_by")

    def __init__(self, record: Mapping[str, Any], public: Any, redacted_by: object = None) -> None:
        super().__init__(record)
        self.public = public
        self.redacted_by = redacted_by
        shown: Any = public if is_mapping(public) else {}
        for name, value in self.items():
            if name not in shown or (shown[name] is not value and _is_masked(value, shown[name])):
                self[name] = hidden_value(name, value)

    def __repr__(self) -> str:
        # A repr ends up in logs and error messages, which leave the application as well.
        return f"RedactedRecord({self.public!r})"

    @property
    def __pydantic_serializer__(self) -> Any:
        # Pydantic asks its values for it. In a field of the type `Any`, it would write the whole
        # dict into the JSON form of its model, wherever that is sent.
        return _serializer_of_models()

    def __reduce__(self) -> tuple[Any, ...]:
        # Without redacted_by: it is a function of a hook, which cannot be pickled or copied.
        return RedactedRecord, (dict(self), self.public)

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, dict):
            return NotImplemented
        # What either record hides stays hidden.
        visible = public_part(other)
        public = self.changed({**self, **visible}).public
        hidden = other.keys() - visible.keys()
        return RedactedRecord(
            {**self, **other}, {name: public[name] for name in public if name not in hidden}
        )

    def __ror__(self, other: object) -> Any:
        return self.changed({**other, **self}) if isinstance(other, dict) else NotImplemented

    def __ior__(self, other: Any) -> Self:  # type: ignore[override]  # pairs, too
        merged = self | (other if isinstance(other, dict) else dict(other))
        self.update(merged)
        self.public = merged.public
        return self

    def copy(self) -> RedactedRecord:
        """Return a shallow copy with the same public part."""
        return RedactedRecord(self, self.public, self.redacted_by)

    def without(self, names: Collection[str]) -> RedactedRecord:
        """Return a copy without some properties; what clients get lacks them, too."""
        public = self.public
        if is_mapping(public):
            public = {name: value for name, value in public.items() if name not in names}
        rest = {name: value for name, value in self.items() if name not in names}
        return RedactedRecord(rest, public)

    def changed(self, record: Mapping[str, Any]) -> RedactedRecord:
        """Return ``record``, a changed version of this one, with the same properties redacted.

        Hidden and masked properties stay so. New ones, and public ones that changed, are public.
        """
        # A public property that is not the same object is masked; the mask stays.
        visible = {
            name: value
            for name, value in record.items()
            if name not in self or (name in self.public and self.public[name] is self[name])
        }
        masked = {name: self.public[name] for name in record if name in self.public}
        return RedactedRecord(record, {**masked, **public_part(visible)})


@cache
def _serializer_of_models() -> Any:
    from pydantic_core import SchemaSerializer, core_schema  # noqa: PLC0415  # loaded by who asks

    def shown(record: RedactedRecord) -> Any:
        return record.public

    form = core_schema.plain_serializer_function_ser_schema(shown)
    return SchemaSerializer(core_schema.any_schema(serialization=form))


def public_part(value: Any, *, of_hidden: Callable[[HiddenValue], object] | None = None) -> Any:
    """Return what clients may see: each `RedactedRecord` is replaced by its ``public``.

    Args:
        value: Anything; mappings and lists are searched at any depth.
        of_hidden: Called with each `HiddenValue`; returns what takes its place. By default they
            stay, and encoders refuse them.

    Returns:
        The value itself if it holds no redacted record, otherwise a copy.
    """
    type_ = type(value)  # pyright: ignore[reportUnknownVariableType]  # it calls the class of Any unknown
    if type_ in SCALAR_TYPES:
        return value
    if type_ is dict:  # the most frequent types first: isinstance with an ABC is slow
        return _replace_redacted(value, value.items(), dict, of_hidden)
    if type_ is list:
        items: list[Any] = value
        return _replace_redacted(items, enumerate(items), list, of_hidden)
    if isinstance(value, RedactedRecord):
        return value.public
    if isinstance(value, HiddenValue):
        return value if of_hidden is None else of_hidden(value)
    data: JSONValue = value
    if isinstance(data, Mapping):
        copy = Page.copy if isinstance(data, Page) else dict
        return _replace_redacted(data, data.items(), copy, of_hidden)
    if isinstance(data, list | tuple):
        return _replace_redacted(data, enumerate(data), list, of_hidden)
    return data


def _replace_redacted(
    container: Any,
    items: Iterable[tuple[object, object]],
    copy: Callable[[Any], Any],
    of_hidden: Callable[[HiddenValue], object] | None,
) -> object:
    """Return the public part of a container, copied by ``copy`` only if something changes."""
    replaced = container
    for key, inner in items:
        if type(inner) not in SCALAR_TYPES:
            public = public_part(inner, of_hidden=of_hidden)
            if public is not inner:
                if replaced is container:
                    replaced = copy(container)
                replaced[key] = public
    return replaced


def without_properties(value: object, names: Collection[str]) -> object:
    """Return a value without the properties of these names, at any depth.

    For results of custom methods: only their authors know where records are in them.

    Args:
        value: Holds no redacted records. Mappings, objects that are sent as mappings, and lists
            are searched.
        names: The names of the properties to leave out.
    """
    found = as_mapping(value)
    if is_mapping(found):
        return {
            name: inner if type(inner) in SCALAR_TYPES else without_properties(inner, names)
            for name, inner in found.items()
            if name not in names
        }
    if isinstance(found, COLLECTION_TYPES):
        return [without_properties(inner, names) for inner in found]
    return found


# -- the records of a result -----------------------------------------------------------------------


def map_records(
    result: Any,
    method: str,
    change: Callable[[Any], Any],
    change_extras: Callable[[dict[str, Any]], Mapping[str, Any]],
    *,
    redact: bool = False,
) -> Any:
    """Return the result of a method with each record in it replaced.

    A mapping is a record unless it is a `Page`. That it has the names of a page proves nothing:
    clients choose the property names of records. Two kinds of methods may return a page as a plain
    mapping (``{**page, "data": [...]}``). ``find`` never returns a single record, so a mapping with
    a list ``data`` is a page there. A custom method may return either, and nothing tells them
    apart, so such a mapping is treated as both. An object that is sent as a mapping, such as a
    Pydantic model, is a record in the form of that mapping.

    Args:
        result: What a method returned, or its public part. It is not changed.
        method: The name of the method.
        change: Called with each record, in order; returns its replacement. Also called with
            values that are neither mappings nor lists.
        change_extras: Called with the entries of a page beyond the standard ones; returns those
            to keep.
        redact: Keep in the result what ``change_extras`` removes or changes, and hide it from
            clients only.

    Returns:
        A result of the same shape.
    """
    if isinstance(result, COLLECTION_TYPES):  # of unknown origin: method is ""
        return [
            change(item)
            if type(item) is dict
            else map_records(item, "", change, change_extras, redact=redact)
            for item in result
        ]
    if not _has_records(result, method):
        return change(as_mapping(result))
    if isinstance(result, RedactedRecord):
        result = result.public  # its records cannot be replaced without changing what is public
    is_page = isinstance(result, _PAGE)
    changed: dict[str, Any] = result.copy() if is_page else dict(result)
    if "data" in changed:
        changed["data"] = map_records(changed["data"], "", change, change_extras, redact=redact)
    is_like_page = is_page or (method == "find" and changed.keys() >= PAGE_NAMES)
    extras = {n: value for n, value in changed.items() if not (is_like_page and n in PAGE_NAMES)}
    if not extras:
        return changed
    kept = change_extras(extras)
    removed = extras.keys() - kept.keys()
    if redact:
        if not removed and all(kept[n] == extras[n] for n in extras if n != "data"):
            return changed
        # Hidden, not removed: hooks of the application still read what clients must not see.
        visible = {name: value for name, value in changed.items() if name not in removed}
        return RedactedRecord(changed, public_part({**visible, **kept}))
    for name in removed:
        del changed[name]
    changed.update(kept)
    return changed


def _has_records(result: JSONValue, method: str) -> bool:
    """Tell whether the entry ``data`` of a result holds its records."""
    if isinstance(result, Page):
        return True
    if method in _ONE_RECORD or not isinstance(result, Mapping):
        return False
    return isinstance(result.get("data"), list | tuple) and (
        method == "find" or result.keys() >= PAGE_NAMES
    )


def records_of(
    result: object, method: str, new: Iterable[Any] | None = None
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return the records of a result, and the further entries of its pages: see `map_records`.

    Args:
        result: The result.
        method: The name of the method.
        new: What replaces the records, where an entry of a page holds them.
    """
    records: list[Any] = []
    found: list[dict[str, Any]] = []
    made = None if new is None else iter(new)

    def take(record: Any) -> Any:
        records.append(record)
        return record if made is None else next(made)

    def note(extras: dict[str, Any]) -> dict[str, Any]:
        found.append(extras)
        return extras

    map_records(result, method, take, note)
    return records, found
