"""How values leave the application: JSON encoders, redacted records, HTML, lines of a log.

What clients may see belongs to the record itself, not to the call that returned it. Wherever a
`RedactedRecord` ends up (nested in another record, in a list, in the data of an error or an event),
only its ``public`` part is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, Self, TypeVar

from alula.types import (
    COLLECTION_TYPES,
    PAGE_NAMES,
    SCALAR_TYPES,
    STANDARD_METHODS,
    JSONValue,
    Page,
    is_mapping,
)

__all__ = ["HiddenValue", "RedactedRecord", "public_part", "register_json_encoder"]

T = TypeVar("T")

JSON_ENCODERS: Final[dict[type, Callable[[Any], object]]] = {}
"""By type: the function that turns its instances into a value that JSON knows."""

_ONE_RECORD: Final = frozenset({"", *STANDARD_METHODS}) - {"find"}
"""Methods that return records and lists of them; "" means an element of a list."""

# `Any`, so that a type checker does not take what they hold for unknown.
_PAGE: Final[Any] = Page
_HTML_ESCAPES: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}
)
_LONGEST_LINE: Final = 2000
_CONTROLS: Final = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
_DIRECTIONS: Final = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # bidi controls: spoofing
_LINE_ESCAPES: Final = {code: f"\\x{code:02x}" for code in (*_CONTROLS, *_DIRECTIONS)}
_SENT_AS_THEY_ARE: Final[Any] = (Mapping, str, int, float, list, tuple)


def register_json_encoder(type_: type[T], encoder: Callable[[T], object]) -> None:
    """Send instances of a type, and of its subclasses, in a JSON form that you choose.

    Args:
        type_: The type. Subclasses of ``str``, ``int``, ``float``, ``list`` and ``dict`` are always
            sent as these, with or without an encoder.
        encoder: Takes an instance; returns a value that JSON knows, or one that has an encoder.

    Raises:
        TypeError: ``type_`` is not a type, or ``encoder`` is not callable.

    Examples:
        >>> from decimal import Decimal
        >>> class Money(Decimal): ...
        >>> register_json_encoder(Money, lambda money: f"{money} EUR")
    """
    if not isinstance(type_, type) or not callable(encoder):
        raise TypeError(
            f"register_json_encoder takes a type and a function, not {type_!r} and {encoder!r}"
        )
    JSON_ENCODERS[type_] = encoder


def json_encoder_of(type_: type) -> Callable[[Any], object] | None:
    """Return the encoder registered for a type or its nearest base class, None without one."""
    return next((JSON_ENCODERS[base] for base in type_.__mro__ if base in JSON_ENCODERS), None)


def now_as_in_json() -> datetime:
    """Return the current time in UTC with milliseconds, which is what JSON has of a time.

    A client can then find a record by the time that it received. With microseconds in the store, a
    page of records after that time would begin with the last record of the page before.
    """
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1_000 * 1_000)


def javascript_date(moment: datetime) -> str:
    """Return a datetime as ``JSON.stringify`` writes a date: UTC, milliseconds, ``Z``.

    Args:
        moment: Without a time zone, it is UTC. One whose year does not exist in UTC keeps its
            offset.

    Examples:
        >>> javascript_date(datetime(2026, 1, 31, 12))
        '2026-01-31T12:00:00.000Z'
    """
    if moment.tzinfo is not None:
        try:
            moment = moment.astimezone(UTC)
        except OverflowError:  # before the year 1 or after 9999 in UTC: clients can send such dates
            return moment.isoformat(timespec="milliseconds")
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def iso_duration(duration: timedelta) -> str:
    """Return a duration in ISO 8601, with days as its largest unit.

    Examples:
        >>> iso_duration(timedelta(hours=26, milliseconds=500))
        'P1DT2H0.5S'
        >>> iso_duration(-timedelta(minutes=1))
        '-PT1M'
    """
    sign, rest = ("-", -duration) if duration < timedelta() else ("", duration)
    minutes, seconds = divmod(rest.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{rest.microseconds:06}".rstrip("0") if rest.microseconds else ""
    days = f"{rest.days}D" if rest.days else ""
    parts = (f"{hours}H" * bool(hours), f"{minutes}M" * bool(minutes))
    units = "".join(parts) + (f"{seconds}{fraction}S" if seconds or fraction else "")
    return f"{sign}P{days}T{units}" if units else f"{sign}P{days or 'T0S'}"


def escape_html(text: str) -> str:
    """Return a text for HTML, as content or as the value of an attribute.

    ``html.escape`` of Python does the same. To import it loads the names of 2,231 characters, which
    nothing here needs.

    Examples:
        >>> escape_html("<a & b>")
        '&lt;a &amp; b&gt;'
    """
    return text.translate(_HTML_ESCAPES)


def one_line(text: str) -> str:
    """Return text with control characters escaped, so that it stays one line in a log.

    Surrogates are escaped as well: a stream that cannot encode them would lose the whole line.
    """
    if text.isprintable():  # most text is; then there is nothing to escape
        return text
    line = text.translate(_LINE_ESCAPES)
    return line if line.isascii() else line.encode("utf-8", "backslashreplace").decode()


def short_line(text: str) -> str:
    """Return the first 2,000 characters of text as one line, with dots if there are more.

    For text of any length that a client chose, such as the path of a request.
    """
    return one_line(text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}...")


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


def as_mapping(value: object) -> Any:
    """Return the mapping that an object is sent as; values that are not sent as one are unchanged.

    Code that hides properties needs them by the names that clients see. For a Pydantic model,
    these are its aliases.
    """
    type_ = type(value)
    if type_ in SCALAR_TYPES or isinstance(value, _SENT_AS_THEY_ARE):
        return value
    if (encoder := json_encoder_of(type_)) is not None:
        encoded = encoder(value)
        return encoded if is_mapping(encoded) else value
    # A class has the attributes of its instances (model_dump, the fields), but is not a record.
    if isinstance(value, type):
        return value
    if hasattr(value, "model_dump"):
        return dump_model(value, "python")
    if is_dataclass(value):
        names = (field.name for field in fields(value))
        return {name: getattr(value, name) for name in names if not name.startswith("_")}
    return value


def dump_model(model: Any, mode: str) -> dict[str, Any]:
    """Return an object with ``model_dump`` as a mapping, under the aliases of its fields.

    Args:
        model: A Pydantic model, or an object with the same method.
        mode: ``"python"`` or ``"json"``.
    """
    # Others than Pydantic may have a model_dump that takes no by_alias.
    by_alias = {"by_alias": True} if hasattr(type(model), "model_fields") else {}  # pyright: ignore[reportUnknownArgumentType]  # as in `public_part`
    dumped: dict[str, Any] = model.model_dump(mode=mode, **by_alias)
    return dumped


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
