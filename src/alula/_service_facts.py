"""Facts about a service, from its methods, adapter, hooks, schema and strategies."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from alula._declared import Declared
from alula._identity import KeyAccess, key_access
from alula._service import ServiceHandle, owning_handle
from alula.adapters.base import AdapterService
from alula.hooks import HookMetadata, hook_metadata
from alula.types import EVENT_OF_METHOD, UNSET, is_mapping

if TYPE_CHECKING:
    from alula.authentication import AuthenticationService

__all__ = [
    "BINARY",
    "OBJECT_ID",
    "SENT_FORMS",
    "ServiceFacts",
    "facts_of",
    "query_schema_of",
    "schema_of",
    "state_of",
]

_PLACEHOLDER: Final = re.compile(r"(?<![^/]):([^/]+)")  # a whole segment; "a:b" is plain text

_TEXT: Final = {"type": "string"}

# `format` is for generators that know OpenAPI 3.0, the media type is that of 3.1.
BINARY: Final = {
    "type": "string",
    "format": "binary",
    "contentMediaType": "application/octet-stream",
}

OBJECT_ID: Final = {"type": "string", "pattern": "^[0-9a-fA-F]{24}$"}
SENT_FORMS: Final[Mapping[str, Mapping[str, Any]]] = {
    "objectid": OBJECT_ID,
    "date": {"type": "string", "format": "date-time"},
}
"""Keywords of a schema that convert, and what a client sends for them."""

# Files may have any name that is not one of a field; the last of these cannot be one.
_FILE_NAMES: Final = ("file", "files", "upload")


class ServiceFacts(NamedTuple):
    """Facts about one service.

    Attributes:
        handle: Its handle.
        adapter: The adapter behind it, that of the records for uploads; None for a service of the
            application's own.
        query: The JSON Schema of queries by method.
        data: The JSON Schema of data by method.
        secured: The methods that check credentials.
        optional: Those of them that clients may also call without credentials.
        keys: How API keys may call those of them that accept keys.
        record: The JSON Schema of its records, None if it is not known.
        signs_in: Whether it issues tokens.
        entity: Of a service that issues tokens: the property of its records that holds the user,
            and the path of the service that has the users. None for tokens without a user.
        form: Of a service that takes forms with files: the JSON Schema of its forms. None for all
            others.
        declared: What its methods declare, by name.
        hidden: The properties that hooks remove from results.
    """

    handle: ServiceHandle
    adapter: AdapterService | None
    query: Mapping[str, Any]
    data: Mapping[str, Any]
    secured: frozenset[str]
    optional: frozenset[str]
    keys: Mapping[str, KeyAccess]
    record: Mapping[str, Any] | None
    signs_in: bool
    entity: tuple[str, str] | None = None
    form: Mapping[str, Any] | None = None
    declared: Mapping[str, Declared] = MappingProxyType({})
    hidden: frozenset[str] = frozenset()

    @property
    def tag(self) -> str:
        """What its operations are grouped by: its path."""
        return self.handle.path or "/"

    @property
    def client_methods(self) -> list[str]:
        """The methods that a client of FeathersJS can call: it sends JSON, and no forms."""
        takes_forms = self.form is not None
        return [name for name in self.handle.methods if name != "create" or not takes_forms]

    @property
    def placeholders(self) -> list[str]:
        """The names of the placeholders in its path."""
        return _PLACEHOLDER.findall(self.handle.path)

    @property
    def address(self) -> str:
        """Its path with placeholders in braces."""
        return "/" + _PLACEHOLDER.sub(r"{\1}", self.handle.path)

    @property
    def published_events(self) -> list[str]:
        """The events that clients may get: those with a publisher that the service can emit."""
        methods = {*self.handle.hook_methods()} - self.handle.streaming
        impossible = {event for method, event in EVENT_OF_METHOD.items() if method not in methods}
        return [
            event
            for event in self.handle.events
            if event in self.handle.publishers
            and (event not in impossible or event in self.handle.emitted_by_service)
        ]

    @property
    def paginated(self) -> bool:
        """Whether `find` returns pages."""
        return self.adapter is not None and self.adapter.options.pagination is not None

    def documentation(self, method: str) -> str:
        """Return the first paragraph of a method's docstring, empty without one.

        What follows, such as arguments, is written for developers of the service.
        """
        service = owning_handle(self.handle).service
        text = inspect.getdoc(getattr(service, method, None)) or ""
        return text.partition("\n\n")[0].replace("\n", " ")

    def takes_several(self, method: str) -> bool:
        """Return whether a method may take several records; other services than adapters may."""
        return self.adapter is None or method in self.adapter.options.multi


class _FromHooks(NamedTuple):
    """What the hooks of a service say about its methods; see `ServiceFacts`.

    Attributes:
        protected: The properties that hooks remove from results.
    """

    query: dict[str, Any]
    data: dict[str, Any]
    secured: set[str]
    optional: set[str]
    keys: dict[str, KeyAccess]
    protected: set[str]


def _read_hooks(handle: ServiceHandle) -> _FromHooks:
    facts = _FromHooks({}, {}, set(), set(), {}, set())
    for method in handle.methods:
        sign_ins: list[bool] = []
        for metadata in _metadata(handle, method):
            if "strategies" in metadata:
                sign_ins.append(metadata.get("is_optional", False))
            facts.protected.update(metadata.get("protects", ()))
            if "query" in metadata:
                facts.query[method] = _schema_of(metadata["query"])
            validator = metadata["data"](method) if "data" in metadata else None
            if validator is not None:
                facts.data[method] = _schema_of(validator)
        if sign_ins:
            facts.secured.add(method)
            access = key_access(handle, method)
            if access.scopes:
                facts.keys[method] = access
            if all(sign_ins):
                facts.optional.add(method)
        # Schemas check data behind the around hooks, and before the before hooks.
        around = _metadata(handle, method, ("around",))
        made = {name for metadata in around for name in metadata.get("sets", ())}
        if made and "required" in facts.data.get(method, ()):
            schema = dict(facts.data[method])
            required = [name for name in schema.pop("required") if name not in made]
            facts.data[method] = {**schema, "required": required} if required else schema
    return facts


def facts_of(handle: ServiceHandle, *, max_files: int | None = None) -> ServiceFacts:
    """Return what is known of a service now, with the hooks that are registered so far.

    Args:
        handle: The service.
        max_files: How many files its forms may have, None if that is not known.
    """
    query, data, secured, optional, keys, protected = _read_hooks(handle)
    innermost = owning_handle(handle)
    for method, declared in innermost.declared.items():
        if method in handle.methods and declared.data not in {UNSET, type(None)}:
            data[method] = schema_of(declared.data, is_result=False)
    service = keeper = innermost.service
    record, form = handle.record_schema, None
    if getattr(service, "takes_uploads", False) is True:
        given = getattr(service, "records", None)
        keeper = owning_handle(given).service if isinstance(given, ServiceHandle) else given
        described = getattr(service, "record_schema", None)
        record = record or (described if is_mapping(described) else None)
        form = _form_of(getattr(service, "fields", None), data.pop("create", {}), max_files)
    is_adapter = isinstance(keeper, AdapterService)
    adapter = cast("AdapterService", keeper) if is_adapter else None  # else its types are unknown
    if record is not None and protected:
        record = _without_properties(record, protected)
    signs_in, entity = False, None
    authentication = _authentication_service(service)
    if authentication is not None:
        signs_in = True
        if authentication.entities is not None:
            # In a mounted application, the users are beside the service.
            prefix = handle.path.removesuffix(innermost.path)
            entity = (
                authentication.entities.name,
                prefix + authentication.entities.path.strip("/"),
            )
        credentials, record = _sign_in_schemas(authentication)
        # A hook of the application may check sign-ins by a schema of its own.
        data.setdefault("create", credentials)
        # No hook says so: the service itself refuses a sign-out without credentials.
        secured.add("remove")
    return ServiceFacts(
        handle,
        adapter,
        query,
        data,
        frozenset(secured),
        frozenset(optional),
        keys,
        record,
        signs_in,
        entity,
        form=form,
        declared=innermost.declared,
        hidden=frozenset(protected),
    )


def state_of(handle: ServiceHandle) -> tuple[object, ...]:
    """Return a value that changes when the facts about a service may have changed."""
    service = handle.service
    inner: tuple[object, ...] = ()
    if isinstance(service, ServiceHandle):
        inner = state_of(service)
    elif hasattr(service, "strategies"):
        inner = tuple(service.strategies)
    changes = handle.app.hook_table.changes, handle.hook_table.changes
    return handle, handle.methods, tuple(handle.publishers), changes, inner


def schema_of(type_: Any, *, is_result: bool) -> Mapping[str, Any]:
    """Return the JSON Schema of a declared type, ``{}`` for a type that has none."""
    from alula.schema._declared_methods import schema_of_type  # noqa: PLC0415  # of another extra

    return schema_of_type(type_, is_result=is_result)


def query_schema_of(declared: Declared) -> Mapping[str, Any]:
    """Return the JSON Schema of a declared query."""
    from alula.schema._declared_methods import query_model  # noqa: PLC0415  # of another extra

    return schema_of(query_model(declared), is_result=False)


def _authentication_service(service: object) -> AuthenticationService | None:
    """Return the service if it handles sign-ins. Never imports the extra just to find out."""
    # Where the class is not imported, no service is one, and its packages may not be installed.
    if "alula.authentication" not in sys.modules:
        return None
    from alula.authentication import AuthenticationService  # noqa: PLC0415  # of another extra

    return service if isinstance(service, AuthenticationService) else None


def _without_properties(record: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the schema of a record without the properties that hooks remove from results."""
    properties = record.get("properties", {}).items()
    kept = {name: field for name, field in properties if name not in names}
    required = [name for name in record.get("required", ()) if name not in names]
    return {**record, "properties": kept, "required": required}


def _form_of(
    fields: Collection[str] | None, whole: Mapping[str, Any], max_files: int | None
) -> dict[str, Any]:
    """Return the schema of a form: files, and fields as in the schema of the whole record."""
    # A service of the application's own may have a method of this name.
    names = fields if isinstance(fields, Collection) else ()
    known = whole.get("properties", {})
    files: dict[str, Any] = {"type": "array", "items": BINARY, "minItems": 1}
    if max_files is not None:
        files["maxItems"] = max_files
    name = next(name for name in _FILE_NAMES if name not in names)
    return {
        "type": "object",
        "properties": {name: files} | {key: known.get(key, _TEXT) for key in sorted(names)},
        "required": [name, *(key for key in whole.get("required", ()) if key in names)],
        **{key: whole[key] for key in ("$defs", "definitions") if key in whole},
    }


def _metadata(
    handle: ServiceHandle, method: str, types: Sequence[str] = ("around", "before", "after")
) -> Iterator[HookMetadata]:
    """Yield what the hooks around a method say, also those of an application behind it."""
    for table in (handle.app.hook_table, handle.hook_table):
        for hook_type in types:
            yield from filter(None, map(hook_metadata, table.of(hook_type, method)))
    if isinstance(handle.service, ServiceHandle):
        yield from _metadata(handle.service, method, types)


def _schema_of(validator: object) -> Mapping[str, Any]:
    """Return the JSON Schema of a validator; ``{}`` if it does not have one."""
    describe = getattr(validator, "json_schema", None)
    try:
        schema = describe() if callable(describe) else getattr(validator, "schema", None)
    except (RuntimeError, TypeError):  # no JSON Schema for a type (TypeError: Pydantic 2.12)
        schema = None
    return schema if is_mapping(schema) else {}


# -- sign-in -------------------------------------------------------------------------------------


def _sign_in_schemas(service: AuthenticationService) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the JSON Schemas of a sign-in: of the credentials that it takes, and of its result."""
    from alula.authentication import JWTStrategy, LocalStrategy  # noqa: PLC0415  # of another extra
    from alula.authentication._refresh_tokens import RefreshStrategy  # noqa: PLC0415  # of another extra

    with_password: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for name in service.strategies:
        try:
            strategy = service.strategy(name)
        except LookupError:  # it is registered later
            strategy = None
        fields: tuple[str, ...] = ()
        if isinstance(strategy, LocalStrategy):
            fields = strategy.username_field, strategy.password_field
        elif isinstance(strategy, JWTStrategy):
            fields = ("accessToken",)
        elif isinstance(strategy, RefreshStrategy):
            fields = ("refreshToken",)
        properties: dict[str, Any] = {
            "strategy": {"type": "string", "const": name},
            **dict.fromkeys(fields, _TEXT),
        }
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        schema["required"] = list(properties)
        if not fields:  # only the strategy itself knows what it takes
            schema["additionalProperties"] = True
        (with_password if isinstance(strategy, LocalStrategy) else others).append(schema)
    # Examples are made of the first schema, and who tries one has no token yet.
    schemas = [*with_password, *others]
    credentials = schemas[0] if len(schemas) == 1 else {"type": "object", "anyOf": schemas}
    tokens = ["accessToken"] if service.sessions is None else ["accessToken", "refreshToken"]
    optional: list[str] = []
    if service.token_cookies is not None:
        # Only pages of the application itself get cookies, and the token that belongs to them.
        optional = ["csrfToken"]
        if not service.token_cookies.options.tokens_in_body:
            optional += tokens
    details = {
        "type": "object",
        "properties": {"strategy": _TEXT, "payload": {"type": "object"}},
        "required": ["strategy"],
    }
    result: dict[str, Any] = {**dict.fromkeys(tokens, _TEXT), "authentication": details}
    if service.entity is not None:
        result[service.entity] = {"type": "object"}
    required = [name for name in result if name not in optional]
    properties = {**dict.fromkeys(optional, _TEXT), **result}
    return credentials, {"type": "object", "properties": properties, "required": required}
