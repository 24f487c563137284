"""Checks by the annotations of a service's methods: what they get, and what they return.

What arrives is validated once, and becomes what the method gets. What leaves is either validated or
dumped: an instance of its model is dumped, plain data for a ``TypedDict`` is validated. Only other
objects take both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import is_dataclass
from types import GenericAlias, UnionType
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Secret,
    SecretBytes,
    SecretStr,
    ValidationError,
    create_model,
)
from pydantic import Field as FieldOf
from pydantic_core import PydanticSerializationError
from typing_extensions import is_typeddict

from alula._declared import Checks, Declared, Parameter
from alula.errors import BadRequest, MethodNotAllowed, NotFound
from alula.outgoing import RedactedRecord, public_part
from alula.outgoing._encoders import as_mapping
from alula.schema._failures import SchemaError, failures_of_model
from alula.schema._pydantic_models.model_validator import ModelValidator, adapter_of
from alula.schema._validation_hooks import MAX_RECORDS
from alula.types import UNSET, Page, is_array, is_dict, is_list, is_mapping

__all__ = ["make_checks", "query_model", "schema_of_type"]

Convert: TypeAlias = Callable[[Any], Any]
Values: TypeAlias = dict[str, Any]

_NONE: Final = type(None)
_LISTS: Final = (list, set, frozenset, tuple, Sequence, Collection)
_OF_INSTANCES: Final = frozenset({"model", "dataclass"})
_SCALARS: Final = frozenset(
    {"str", "int", "float", "bool", "none", "date", "time", "datetime", "timedelta", "decimal"}
    | {"bytes", "uuid", "literal", "enum"}
)
"""The types of core schemas that can hold no record."""
_PAGE: Final[Any] = Page
_SECRETS: Final[Any] = (Secret, SecretBytes, SecretStr)


def make_checks(declared: Declared) -> Checks:
    """Return the checks of a method.

    Raises:
        TypeError: Pydantic does not know one of its types.
    """
    try:
        data = None if declared.data is UNSET else _Data(declared.data)
        query = _Query(declared) if declared.has_query else None
        return Checks(
            id=None if declared.id is UNSET else _reader_of_ids(declared.id),
            data=None if data is None else data.read,
            shown_data=None if data is None else data.shown,
            query=None if query is None else query.read,
            known_query=None if query is None else query.known,
            route=_Route(declared.route).read if declared.route else None,
            result=None if declared.result is UNSET else _cutter(declared),
        )
    except SchemaError as error:
        raise TypeError(f"{declared.where}: {error}") from error


# -- ids and placeholders --------------------------------------------------------------------------


def _reader_of_ids(type_: Any) -> Convert:
    validate = adapter_of(type_).validator.validate_python

    def read(id: Any) -> Any:
        try:
            return validate(id)
        except ValidationError:
            if id is None:
                raise MethodNotAllowed("This method needs an id") from None
            raise NotFound(f"No record found for id '{id}'") from None

    return read


class _Route:
    """Converts the placeholders of a path."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        model = _model_of("Route", parameters, "ignore")
        self._names = [parameter.name for parameter in parameters]
        self._validate = adapter_of(model).validator.validate_python

    def read(self, route: Mapping[str, Any]) -> Values:
        """Return the values by name.

        Raises:
            NotFound: There can be nothing at such a path.
        """
        try:
            made = self._validate(route)
        except ValidationError as error:
            place = error.errors(include_url=False, include_input=False)[0]["loc"]
            name = str(place[0]) if place else self._names[0]
            raise NotFound(f"There is nothing at {name} {route.get(name)!r}") from None
        return dict(zip(self._names, made.__dict__.values(), strict=True))


def _model_of(
    name: str, parameters: Sequence[Parameter], extra: Literal["ignore", "forbid"]
) -> type[BaseModel]:
    """Return the model of some parameters, whose names may be ones that models refuse."""
    fields: dict[str, Any] = {}
    for at, parameter in enumerate(parameters):
        default: Any = ... if parameter.default is UNSET else parameter.default
        fields[f"field_{at}"] = (parameter.type, FieldOf(default, alias=parameter.name))
    config = ConfigDict(extra=extra, defer_build=True)
    return create_model(name, __config__=config, **fields)


# -- queries ---------------------------------------------------------------------------------------


def query_model(declared: Declared) -> Any:
    """Return the type of a query: the declared one, or a model of the parameters."""
    if declared.query is not UNSET:
        return declared.query
    return _model_of("Query", declared.parameters, "forbid")


class _Query:
    """Reads the query of one method."""

    def __init__(self, declared: Declared) -> None:
        self._is_whole = declared.query is not UNSET
        model = query_model(declared)
        self._validator = ModelValidator(model)
        self._serializer: Any = adapter_of(model).serializer
        self._names = [parameter.name for parameter in declared.parameters]
        types = {parameter.name: parameter.type for parameter in declared.parameters}
        is_open = False
        if self._is_whole:
            types, is_open = _fields_of(model)
        self._known = frozenset(types)
        self._is_closed = not is_open
        self._lists = [name for name, type_ in types.items() if _takes_list(type_)]

    def read(self, query: Mapping[str, Any]) -> tuple[Values, Values]:
        """Return the values of a query, and the keywords for the method.

        Raises:
            BadRequest: It is not valid, or has more than is declared.
        """
        for name in self._lists:
            # `?tag=a` is a list of one.
            if name in query and not is_array(query[name]):
                query = {**query, name: [query[name]]}
        if self._is_whole and self._is_closed and not self._known.issuperset(query):
            raise _unknown(query, self._known)
        made = self._validator.read(query)
        if self._is_whole:
            shown = self._serializer.to_python(made, by_alias=True, warnings=False)
            return shown, {"query": made}
        values = dict(zip(self._names, made.__dict__.values(), strict=True))
        return values, values.copy()

    def known(self, query: Mapping[str, Any]) -> Values:
        """Return the part of a query that the method declares; hooks may have added to it."""
        return {
            name: value
            for name, value in query.items()
            if name in self._known or not self._is_closed
        }


def _fields_of(whole: Any) -> tuple[dict[str, Any], bool]:
    """Return the types of a query's fields by their names in queries, and whether it takes more."""
    model = _class_of_model(whole)
    if model is not None:
        fields = {
            str(field.validation_alias or name): field.annotation
            for name, field in model.model_fields.items()
        }
        return fields, "extra" in model.model_config or any(
            not isinstance(field.validation_alias, str | None)
            for field in model.model_fields.values()
        )
    # The validator of a TypedDict refuses other names itself.
    has_fields = is_typeddict(whole) or is_dataclass(whole)
    hints: dict[str, Any] = get_type_hints(whole) if has_fields else {}
    return hints, not is_dataclass(whole)


def _unknown(query: Mapping[str, Any], known: Collection[str]) -> BadRequest:
    failures = [
        {
            "instancePath": "",
            "schemaPath": "#/additionalProperties",
            "keyword": "additionalProperties",
            "params": {"additionalProperty": name},
            "message": "must NOT have additional properties",
        }
        for name in query
        if name not in known
    ]
    return BadRequest("validation failed", failures[:100])


def _takes_list(type_: Any) -> bool:
    """Tell whether a type is that of a list, or None."""
    while hasattr(type_, "__metadata__"):
        type_ = type_.__origin__
    origin = get_origin(type_)
    if origin in {Union, UnionType}:
        choices = [each for each in get_args(type_) if each is not _NONE]
        return bool(choices) and all(map(_takes_list, choices))
    return type_ in _LISTS or origin in _LISTS


# -- data ------------------------------------------------------------------------------------------


class _Data:
    """Reads the data of one method."""

    def __init__(self, type_: Any) -> None:
        self._is_none = type_ is _NONE
        self._is_list = _takes_list(type_)
        self._validator = ModelValidator(type_)
        adapter = adapter_of(type_)
        self._serializer: Any = adapter.serializer
        self._has_instances = _mentions(adapter.core_schema, _OF_INSTANCES)
        self._kept: list[tuple[str, str]] = []
        if (model := _class_of_model(type_)) is not None:
            self._kept = [
                (name, field.alias or name)
                for name, field in model.model_fields.items()
                if field.exclude
            ]

    def read(self, data: Any, from_client: bool) -> Any:
        """Return what the method gets.

        Raises:
            BadRequest: The data is not valid.
            TypeError: It is an instance of a model: own code passes plain data.
        """
        if isinstance(data, BaseModel) or (is_dataclass(data) and not isinstance(data, type)):
            raise TypeError(
                f"the data is a {type(data).__name__}; services take plain data:"
                " data.model_dump(), or dataclasses.asdict(data)"
            )
        if self._is_none:
            if data is None or data == {}:
                return None
            raise BadRequest("This method takes no data")
        if from_client and is_list(data) and len(data) > MAX_RECORDS:
            raise BadRequest(f"The data has more than {MAX_RECORDS} records; send fewer at a time")
        return self._validator.read(data)

    def shown(self, made: Any) -> Any:
        """Return what the method gets as hooks see it: as plain data, without defaults."""
        if self._is_none:
            return {}
        if not self._has_instances:
            return made
        shown = self._serializer.to_python(made, by_alias=True, exclude_unset=True, warnings=False)
        # A field that is never sent is data all the same.
        for name, alias in self._kept:
            if name in made.model_fields_set:
                shown[alias] = getattr(made, name)
        return shown


def _is_secret(schema: Any) -> bool:
    """Tell whether a JSON Schema, or a part of it, is that of a value that is never sent."""
    if is_array(schema):
        return any(map(_is_secret, schema))
    if not is_mapping(schema):
        return False
    return schema.get("writeOnly") is True or any(map(_is_secret, schema.values()))


def _mentions(schema: Any, types: Collection[str]) -> bool:
    """Tell whether a core schema has parts of these types."""
    if is_array(schema):
        return any(_mentions(item, types) for item in schema)
    if not is_mapping(schema):
        return False
    named = schema.get("type")
    if isinstance(named, str) and named in types:
        return True
    return any(_mentions(value, types) for key, value in schema.items() if key != "metadata")


# -- results ---------------------------------------------------------------------------------------


def _cutter(declared: Declared) -> Convert:
    """Return the function that cuts a result, or an item of a stream, to its type."""
    where = f"an item of {declared.where}" if declared.streams else declared.where
    return _cutter_of(declared.result, where)


def _cutter_of(type_: Any, where: str) -> Convert:
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is Page:
        records: Any = GenericAlias(list, arguments[:1])
        return _page_cutter(_cutter_of(records, where))
    if origin in {Union, UnionType} and any(get_origin(each) is Page for each in arguments):
        of_page = next(each for each in arguments if get_origin(each) is Page)
        rest: Any = Union[tuple(each for each in arguments if each is not of_page)]  # noqa: UP007  # made at run time
        others, cut_page = _cutter_of(rest, where), _cutter_of(of_page, where)
        return lambda result: (cut_page if isinstance(result, _PAGE) else others)(result)
    return _Cut(type_, where).cutter()


def _page_cutter(cut_list: Convert) -> Convert:
    def cut(result: Any) -> Any:
        page: Any = result.copy() if isinstance(result, _PAGE) else Page(**as_mapping(result))
        page["data"] = cut_list(page["data"])
        return page

    return cut


class _Cut:
    """Cuts results to a type."""

    def __init__(self, type_: Any, where: str) -> None:
        self._where = where
        adapter = adapter_of(type_)
        self._name = getattr(type_, "__name__", None) or str(type_)
        self._validate = adapter.validator.validate_python
        self._dump = adapter.serializer.to_python
        self._has_instances = _mentions(adapter.core_schema, _OF_INSTANCES)
        self._has_secrets = _is_secret(schema_of_type(type_, is_result=True))
        is_list_of = get_origin(type_) is list
        of: Any = get_args(type_)[0] if is_list_of else type_
        self._is_flat = _is_flat(adapter_of(of).core_schema)
        is_class = _is_class_of_instances(of)
        # What is an instance of these, or a list of instances, is not validated again.
        self._class: type | None = of if is_class and not is_list_of else None
        self._item: type | None = of if is_class and is_list_of else None

    def cutter(self) -> Convert:
        """Return the function; most results have a short way through it."""
        cut, validate, dump, of = self.cut, self._validate, self._dump, self._class
        if not self._is_flat or self._has_secrets:
            return cut
        if of is not None:

            def cut_instance(result: Any) -> Any:
                if type(result) is of:
                    return dump(result, by_alias=True, warnings=False)
                return cut(result)

            return cut_instance

        def cut_dict(result: Any) -> Any:
            # With scalars inside, it holds no record that is redacted.
            if type(result) is dict:
                try:
                    return validate(result)
                except ValidationError as error:
                    raise self._misfit(error, result) from None
            return cut(result)

        return cut if self._has_instances else cut_dict

    def cut(self, result: Any) -> Any:
        """Return a result with the properties of the type, as plain data.

        Results of other services may be redacted. Their public part is cut as well, and stays what
        clients get.

        Raises:
            TypeError: It does not fit.
        """
        if self._is_instance(result):
            try:
                dumped = self._dump(result, by_alias=True, warnings="error")
            except PydanticSerializationError:
                # A field holds something else than the model says.
                return self._from_plain(_opened(result))
            return _without_secrets(dumped) if self._has_secrets else dumped
        public = public_part(result)
        made = self._from_plain(result)
        return made if public is result else _redacted(made, self._from_plain(public))

    def _is_instance(self, result: Any) -> bool:
        of, item = self._class, self._item
        if of is not None:
            return isinstance(result, of)
        is_list_of = item is not None and type(result) is list
        return is_list_of and all(isinstance(each, item) for each in result)  # type: ignore[arg-type]  # not None here

    def _from_plain(self, result: Any) -> Any:
        made = self._validated(result)
        if not self._has_instances:
            return made
        dumped = self._dump(made, by_alias=True, warnings=False)
        return _without_secrets(dumped) if self._has_secrets else dumped

    def _validated(self, result: Any) -> Any:
        try:
            return self._validate(result, from_attributes=True, by_alias=True, by_name=True)
        except ValidationError as error:
            plain = _plain(result)
            if plain is result:
                raise self._misfit(error, result) from None
        try:
            return self._validate(plain, from_attributes=True)
        except ValidationError as error:
            raise self._misfit(error, plain) from None

    def _misfit(self, error: ValidationError, result: Any) -> TypeError:
        # Without the values, which may be secret: this text is in the log.
        places = [
            f"{failure['instancePath'] or '/'} {failure['message']}"
            for failure in failures_of_model(error, result)[:5]
        ]
        return TypeError(
            f"{self._where}: the result is not {self._name}: {'; '.join(places)};"
            " return what the annotation says, or change the annotation"
        )


def _class_of_model(type_: Any) -> type[BaseModel] | None:
    return type_ if isinstance(type_, type) and issubclass(type_, BaseModel) else None  # pyright: ignore[reportUnknownVariableType]  # it is a class


def _is_class_of_instances(type_: Any) -> bool:
    return isinstance(type_, type) and (_class_of_model(type_) is not None or is_dataclass(type_))  # pyright: ignore[reportUnknownArgumentType]  # it is a class


def _is_flat(schema: Any) -> bool:
    """Tell whether a core schema is that of an object with scalars alone."""
    kind = schema.get("type")
    if kind in {"model", "dataclass"}:
        return _is_flat(schema["schema"])
    fields = schema.get("fields", ())
    listed = fields if is_array(fields) else [*fields.values()]
    is_closed = schema.get("extra_behavior") != "allow"
    is_object = kind in {"model-fields", "typed-dict", "dataclass-args"}
    return is_object and is_closed and all(map(_is_flat_field, listed))


def _is_flat_field(schema: Any) -> bool:
    inner = schema.get("schema")
    return schema.get("type") in _SCALARS if inner is None else _is_flat_field(inner)


def _redacted(result: Any, public: Any) -> Any:
    """Return a result whose public part is another one."""
    if is_mapping(result) and is_mapping(public):
        return RedactedRecord(result, public)
    if is_list(result) and is_list(public) and len(result) == len(public):
        return [_redacted(*pair) for pair in zip(result, public, strict=True)]
    return public


def _plain(value: Any) -> Any:
    """Return a value in which the objects that are sent as mappings are mappings."""
    if is_array(value):
        return [_plain(item) for item in value]
    return as_mapping(value)


def _opened(value: Any) -> Any:
    """Return a value with the attributes of all instances in place of these, at any depth."""
    if is_list(value):
        return [_opened(item) for item in value]
    if isinstance(value, BaseModel) or is_dataclass(value):
        value = vars(value)
    if is_mapping(value):
        return {name: _opened(item) for name, item in value.items()}
    return value


def schema_of_type(type_: Any, *, is_result: bool) -> dict[str, Any]:
    """Return the JSON Schema of a type, ``{}`` if it has none.

    Args:
        type_: A type that methods declare.
        is_result: Whether it describes what leaves, and not what arrives.
    """
    adapter = adapter_of(type_)
    try:
        return adapter.json_schema(mode="serialization" if is_result else "validation")
    except (RuntimeError, TypeError):  # no JSON Schema for a type (TypeError: Pydantic 2.12)
        return {}


def _without_secrets(value: Any) -> Any:
    """Return plain data without the contents of secrets, as Pydantic writes them into JSON."""
    if is_dict(value):
        return {key: _without_secrets(item) for key, item in value.items()}
    if is_list(value):
        return [_without_secrets(item) for item in value]
    return str(value) if isinstance(value, _SECRETS) else value
