"""`alula client`: writes a typed client for the services of an API, in Python or TypeScript.

In Python, the records of the API become `TypedDict` classes, and each service becomes a function. A
service of the application's own also has a class with the types of its methods.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, TypeAlias

import typer

from alula._cli.application import load_application
from alula._cli.commands.openapi import describe_as_json
from alula._cli.own_services import Operation, own_service
from alula._cli.service_listing import identifier_of
from alula._cli.terminal import UsageError, print_result, reporting_errors, stdout_to_stderr
from alula.errors import FrameworkError
from alula.types import STANDARD_METHODS, is_dict, is_list, is_mapping

__all__ = ["client", "client_code", "download_description", "record_schema", "typescript_code"]

JsonObject: TypeAlias = Mapping[str, Any]

ApplicationOrUrl = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:NAME|URL", help="The application, or the address of a running server."
    ),
]

_MODULE_HEAD: Final = '''"""The services of {title}, with the types of their records.

Written by `alula client`; run it again after the services have changed.
"""
# ruff: noqa
# fmt: off

from __future__ import annotations

{imports}
__all__ = [
{names}]
'''
_SERVICE_FUNCTION: Final = '''

@overload
def {name}(client: Client) -> {async_type}: ...
@overload
def {name}(client: SyncClient) -> {sync_type}: ...
def {name}(client: Client | SyncClient) -> Any:
    """Return the service."""
    return client.service({arguments})
'''
_PYTHON_TYPES: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
}
# Where the names come from that the code of a module may use.
_IMPORTS: Final = {
    "collections.abc": ("Mapping",),
    "typing": ("Any", "Literal", "NotRequired", "Protocol", "Required", "TypedDict", "overload"),
    "alula": ("Page", "StreamedItems"),
    "alula.client": (
        "Client",
        "ClientService",
        "SyncClient",
        "SyncItemStream",
        "SyncService",
        "TypedService",
        "TypedSyncService",
    ),
}
# A service called `list` must not replace a name that the module itself uses.
_OWN_NAMES: Final = frozenset(
    {"annotations", "bool", "dict", "float", "int", "list", "str"}.union(*_IMPORTS.values())
)
_SCHEMES: Final = ("http://", "https://")
_SCHEMA_REFERENCE: Final = "#/components/schemas/"
_PAGE: Final = frozenset({"total", "limit", "skip", "data"})


InTypeScript = Annotated[
    bool,
    typer.Option(
        "--typescript/--python",
        help="Write TypeScript for front ends of FeathersJS, which takes no URL; or Python.",
    ),
]


def client(source: ApplicationOrUrl = "app:app", in_typescript: InTypeScript = False) -> None:
    """Print a typed client for the services of an application or server."""
    with reporting_errors(), stdout_to_stderr():
        if in_typescript:
            code = typescript_code(source)
        elif source.startswith(_SCHEMES):
            code = client_code(download_description(source))
        else:
            code = client_code(json.loads(describe_as_json(load_application(source))))
    print_result(code, newline=False)


def typescript_code(source: str) -> str:
    """Return the client of an application as a module of TypeScript.

    Args:
        source: ``MODULE:NAME``.

    Raises:
        UsageError: It is a URL: the description of a server lacks what types need, such as which
            properties every record has.
    """
    if source.startswith(_SCHEMES):
        base = source.partition("?")[0].rstrip("/")
        raise UsageError(
            f"--typescript takes an application, not the URL {source}; a server in debug mode that"
            f" configures openapi() sends the same at {base}/docs/client.ts"
        )
    from alula.openapi import typescript  # noqa: PLC0415  # for this command alone

    app = load_application(source)
    options: dict[str, str] = app.settings.get("openapi") or {}
    return typescript(app, title=options.get("title", "the API"))


def download_description(url: str) -> JsonObject:
    """Return the OpenAPI description of a running server.

    Args:
        url: The address of the server, or of its description if that is not ``/openapi.json``.

    Raises:
        UsageError: The address does not lead to an OpenAPI description.
    """
    from alula.client import create_sync_client, rest  # noqa: PLC0415  # slow to import

    # Requested like a service, for the timeouts, retries and errors of the client.
    base, _, name = url.rpartition("/") if url.endswith(".json") else (url, "", "openapi.json")
    try:
        with create_sync_client().configure(rest(base).fetch()) as connected:
            description = connected.service(name).find()
    except (FrameworkError, ValueError) as error:
        raise UsageError(f"cannot get a description from {base}/{name}: {error}") from None
    if not is_dict(description) or "openapi" not in description:
        raise UsageError(f"the response of {base}/{name} is not an OpenAPI description")
    return description


def client_code(description: JsonObject) -> str:
    """Return a Python module with a typed function for each service of an OpenAPI description.

    Args:
        description: A description that Alula has made. Each tag is a service; the type of its
            records is the schema of the response to ``get`` or ``find``.
    """
    records = _RecordTypes(description.get("components", {}).get("schemas", {}))
    functions = [
        _service_function(tag["name"], description, records) for tag in description["tags"]
    ]
    body = "".join([*records.definitions(), *functions])
    names = sorted(records.used_names - _OWN_NAMES)
    name_lines = "".join(f'    "{name}",\n' for name in names)
    # The title stands inside a docstring: without quotes and backslashes it cannot end it.
    title = re.sub(r"[^\w .,:/-]", " ", description["info"]["title"])
    return _MODULE_HEAD.format(title=title, imports=_imports(body), names=name_lines) + body


def _imports(code: str) -> str:
    """Return the lines that import what the code uses: strict type checkers refuse more."""
    nodes = list(ast.walk(ast.parse(code)))
    # The types of fields that no class can have are texts.
    texts = [each for node in nodes if isinstance(node, ast.Dict) for each in node.values]
    for text in texts:
        nodes += ast.walk(ast.parse(ast.literal_eval(text), mode="eval"))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    groups = (
        "".join(
            f"from {module} import {', '.join(names)}\n"
            for module in modules
            if (names := [name for name in _IMPORTS[module] if name in used])
        )
        for modules in (("collections.abc", "typing"), ("alula", "alula.client"))
    )
    return "\n".join(filter(None, groups))


def _service_function(path: str, description: JsonObject, records: _RecordTypes) -> str:
    found = [
        Operation(operation.get("operationId", "").rpartition(".")[2], address, item, operation)
        for address, item in description["paths"].items()
        for operation in item.values()
        if is_mapping(operation) and path in operation.get("tags", ())
    ]
    operations = [each.operation for each in found]
    name = records.reserve_name(path.lower())
    schema_name = next(filter(None, map(record_schema, operations)), None)
    classes = ""
    # The name of a custom method is the last segment of its address.
    methods = tuple(
        each.method
        for each in found
        if each.method not in STANDARD_METHODS and each.address.endswith(f"/{each.method}")
    )
    arguments = [repr(path)]
    async_type, sync_type = "ClientService", "SyncService"
    if schema_name is not None:
        record = records.type_name(schema_name)
        arguments.append(record)
        async_type, sync_type = f"TypedService[{record}]", f"TypedSyncService[{record}]"
    elif (own := own_service(records.class_name(path), found, records)) is not None:
        async_type, sync_type, classes = own.classes(records.reserve_name)
    if methods:
        arguments.append(f"methods={methods!r}")
    return classes + _SERVICE_FUNCTION.format(
        name=name, async_type=async_type, sync_type=sync_type, arguments=", ".join(arguments)
    )


def record_schema(operation: JsonObject) -> str | None:
    """Return the name of the schema of the records that a ``get`` or ``find`` returns."""
    if not operation.get("operationId", "").endswith((".get", ".find")):
        return None
    content = operation["responses"].get("200", {}).get("content", {}).get("application/json", {})
    schema = content.get("schema", {})
    schema = schema.get("properties", {}).get("data", schema)  # of a page
    reference = schema.get("items", schema).get("$ref", "")
    # What one method declares as its result is not known to be the record of all of them.
    if reference.endswith("Result"):
        return None
    return reference.removeprefix(_SCHEMA_REFERENCE) or None


class _RecordTypes:
    """The Python types of the schemas that services use, and of the schemas nested in them.

    Attributes:
        used_names: The names that are taken in the module.
    """

    def __init__(self, schemas: JsonObject) -> None:
        self.used_names = set(_OWN_NAMES)
        self._schemas = schemas
        self._type_names: dict[str, str] = {}
        self._definitions: dict[str, str] = {}

    def type_name(self, schema_name: str, *, is_sent: bool = False) -> str:
        """Return the name of the type of a schema; define it at its first use.

        Args:
            schema_name: The name of the schema.
            is_sent: Whether clients send it: then properties that are not required may be missing.
        """
        if schema_name in self._type_names:
            return self._type_names[schema_name]
        name = self.reserve_name(self.class_name(schema_name))
        self._type_names[schema_name] = name  # before its properties: they may refer to it
        schema = self._schemas.get(schema_name, {})
        properties = {
            key: self.annotation(value, is_sent=is_sent)
            for key, value in schema.get("properties", {}).items()
        }
        if is_sent:  # what comes back has all of them
            needed = schema.get("required", ())
            properties = {
                key: value if key in needed else f"NotRequired[{value}]"
                for key, value in properties.items()
            }
        if properties:
            self._define(name, properties)
        else:
            self._definitions[name] = f"\n\n{name} = dict[str, Any]\n"
        return name

    @staticmethod
    def class_name(text: str) -> str:
        """Return the name of a class for something: ``TeamsTeamTasks`` of ``teams/:team/tasks``."""
        words = re.findall(r"[^\W_]+", text)
        return "".join(word[:1].upper() + word[1:] for word in words)

    def define(self, wanted: str, properties: Mapping[str, str], *, is_total: bool = True) -> str:
        """Define a type with these properties, and return its name."""
        name = self.reserve_name(wanted)
        self._define(name, properties, is_total=is_total)
        return name

    def _define(self, name: str, properties: Mapping[str, str], *, is_total: bool = True) -> None:
        option = "" if is_total else ", total=False"
        if all(key.isidentifier() and not keyword.iskeyword(key) for key in properties):
            fields = "".join(f"    {key}: {value}\n" for key, value in properties.items())
            code = f"\n\nclass {name}(TypedDict{option}):\n{fields}"
        else:
            # A class cannot have fields with names such as "a-b". All of them are written by
            # `repr`, so that no text of a description ends its quotes and becomes code.
            fields = "".join(f"        {key!r}: {value!r},\n" for key, value in properties.items())
            option = option and f"   {option[1:]},\n"
            code = f"\n\n{name} = TypedDict(\n    {name!r},\n    {{\n{fields}    }},\n{option})\n"
        self._definitions[name] = code

    def reserve_name(self, wanted: str) -> str:
        """Return an identifier that is not used yet, and reserve it."""
        name = identifier_of(wanted)
        while name in self.used_names:
            name += "_"
        self.used_names.add(name)
        return name

    def definitions(self) -> Iterator[str]:
        """Yield the code of each type."""
        return iter(self._definitions.values())

    def annotation(self, schema: object, *, is_sent: bool = False) -> str:
        """Return the annotation of a schema, ``Any`` if Python has no type for it."""
        if not is_mapping(schema):
            return "Any"
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(_SCHEMA_REFERENCE)
            return self.type_name(name, is_sent=is_sent)
        if "const" in schema or "enum" in schema:
            values = schema.get("enum", [schema.get("const")])
            # `Literal` takes no floats, lists or objects.
            if not all(value is None or isinstance(value, str | int) for value in values):
                return "Any"
            return f"Literal[{', '.join(map(repr, values))}]"
        for word in ("anyOf", "oneOf"):
            if word in schema:
                return _union(self.annotation(each, is_sent=is_sent) for each in schema[word])
        if _PAGE.issubset(schema.get("properties", ())):
            return f"Page[{self.annotation(schema['properties']['data'].get('items'))}]"
        json_type = schema.get("type")
        json_types: list[Any] = json_type if is_list(json_type) else [json_type]
        return _union(
            f"list[{self.annotation(schema.get('items'), is_sent=is_sent)}]"
            if name == "array"
            else _PYTHON_TYPES.get(name, "Any")
            for name in json_types
        )


def _union(annotations: Iterable[str]) -> str:
    unique = list(dict.fromkeys(annotations))
    return "Any" if "Any" in unique or not unique else " | ".join(unique)
