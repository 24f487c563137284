"""`typescript`: the client of an application for front ends in TypeScript, as FeathersJS has it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin

from alula._json_schema import Schema
from alula._service_facts import ServiceFacts, facts_of, query_schema_of, schema_of
from alula.openapi._components import Components
from alula.openapi._typescript_types import (
    TypeDeclarations,
    array_of,
    comment,
    key_of,
    literal,
    member,
    type_name,
    union_of,
)
from alula.types import (
    EVENT_OF_METHOD,
    ID_METHODS,
    METHODS_WITHOUT_DATA,
    STANDARD_METHODS,
    UNSET,
    Page,
)

if TYPE_CHECKING:
    from alula._app import App
    from alula.express import ExpressApplication

__all__ = ["typescript"]

_HEAD: Final = """\
/**
 * The services of {title}, with the types of their records.
 *
 * Written by `alula client --typescript`; run it again after the services have changed.
 */
/* eslint-disable */
{imports}"""
_TYPES_IMPORT: Final = "import type * as Feathers from '@feathersjs/feathers'\n"
_CODE_IMPORT: Final = "import { feathers } from '@feathersjs/feathers'\n"
_SIGN_IN_IMPORT: Final = """\
import authenticationClient from '@feathersjs/authentication-client'
import type { AuthenticationClientOptions } from '@feathersjs/authentication-client'
"""
_COMMON: Final = """
/** The operators of the query syntax, for a property with values of type `Value`. */
export interface QueryOperators<Value> {
  $gt?: Value
  $gte?: Value
  $lt?: Value
  $lte?: Value
  $ne?: Value
  $in?: Value[]
  $nin?: Value[]
}

/** The query of a service without a schema. */
export interface OpenQuery {
  $limit?: number
  $skip?: number
  $sort?: { [name: string]: 1 | -1 }
  $select?: string[]
  $or?: OpenQuery[]
  $and?: OpenQuery[]
  [name: string]: unknown
}

/** Listeners for the events of a service, with the type of what they get. */
export interface ServiceEvents<Events> {
  on<Name extends keyof Events>(name: Name, listener: (data: Events[Name]) => void): this
  once<Name extends keyof Events>(name: Name, listener: (data: Events[Name]) => void): this
}
"""
_LIVE: Final = """
/** The rows of a live list, first. */
export interface LivePage<Row> {
  rows: Row[]
  limit?: number
  skip?: number
  have: string
}

/** A change of a live list. Show the list behind a message without `more`. */
export type LiveMessage<Row> = { list: string; have?: string; more?: true } & (
  | { kind: 'entered' | 'changed'; at: number; data: Row }
  | { kind: 'left'; id: unknown }
  | { kind: 'reset'; rows: Row[]; why: string }
  | { kind: 'closed'; error: { name: string; message: string; code: number } }
)

/** Live lists, over socket.io. Their changes are the event `live`. */
export interface LiveLists<Row, Params> {
  live(data: { list: string; have?: undefined }, params?: Params): Promise<LivePage<Row>>
  live(
    data: { list: string; have: string },
    params?: Params
  ): Promise<LivePage<Row> | { unchanged: true; have: string }>
  live(data: { settled: true }): Promise<object>
  unlive(data: { list: string }): Promise<{ list: string }>
}
"""
_CLIENT_TYPES: Final = """
export interface Configuration {
  connection: Feathers.TransportConnection<ServiceTypes>
}

export type ClientApplication = Feathers.Application<ServiceTypes, Configuration>
"""
_CREATE_CLIENT: Final = """
/** Returns a client with all services. `connection` is that of a REST or socket.io client. */
export const createClient = (
  connection: Feathers.TransportConnection<ServiceTypes>{parameter}
): ClientApplication => {{
  const client: ClientApplication = feathers()
  client.configure(connection)
{sign_in}  client.set('connection', connection)
{services}{streams}  return client
}}
"""
_STREAMS: Final = """
async function* itemsOf(response: Response): AsyncGenerator<unknown> {
  const reader = response.body!.getReader()
  const decoder = new TextDecoder()
  let text = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const blocks = (text + decoder.decode(value, { stream: true })).split('\\n\\n')
      text = blocks.pop() ?? ''
      for (const block of blocks) {
        const item = block.startsWith(':') || JSON.parse(block.slice(block.indexOf('data: ') + 6))
        if (block.startsWith('event: error')) throw Object.assign(new Error(item.message), item)
        if (block.startsWith('data: ')) yield item
      }
    }
  } finally {
    await reader.cancel()
  }
}

/** Reads the results of methods that stream: `rest(url).fetch(withStreams(fetch))`. */
export const withStreams =
  (fetchFunction: typeof fetch): typeof fetch =>
  async (input, init) => {
    const headers = new Headers(init?.headers)
    headers.set('Accept', 'application/json, text/event-stream;q=0.9')
    const response = await fetchFunction(input, { ...init, headers })
    if (response.headers.get('Content-Type') === 'text/event-stream') {
      response.json = () => Promise.resolve(itemsOf(response))
    }
    return response
  }
"""
_SOCKET_STREAMS: Final = """
interface StreamSocket {
  on(event: string, listener: (...values: any[]) => void): unknown
  emit(event: string, ...values: unknown[]): unknown
}

interface OpenStream {
  items: unknown[]
  end?: { error: { message?: string } | null }
  wake?: () => void
}

/** Returns what makes the results of methods that stream readable over socket.io. */
const streamReader = (socket: StreamSocket) => {
  // By name; null for those that were left, whose last items may still arrive.
  const streams = new Map<string, OpenStream | null>()
  const streamOf = (name: string): OpenStream | null => {
    if (!streams.has(name)) streams.set(name, { items: [] })
    return streams.get(name)!
  }
  const end = (stream: OpenStream | null, error?: { message?: string }) => {
    if (stream === null) return
    stream.end ??= { error: error ?? null }
    stream.wake?.()
  }
  socket.on('stream', (name: string, items: unknown[] | null, error?: { message?: string }) => {
    const stream = streamOf(name)
    if (items === null) end(stream, error)
    else stream?.items.push(...items)
    stream?.wake?.()
  })
  socket.on('disconnect', () => {
    const lost = { name: 'Unavailable', code: 503, message: 'the connection broke' }
    for (const stream of streams.values()) end(stream, lost)
    streams.clear()
  })
  async function* itemsOf(name: string, stream: OpenStream): AsyncGenerator<unknown> {
    try {
      for (;;) {
        const items = stream.items.splice(0)
        yield* items
        if (items.length) {
          if (!stream.end) socket.emit('stream:more', name, items.length)
        } else if (stream.end?.error) {
          throw Object.assign(new Error(stream.end.error.message), stream.end.error)
        } else if (stream.end) return
        else await new Promise<void>((resolve) => (stream.wake = resolve))
      }
    } finally {
      if (!stream.end) socket.emit('stream:end', name)
      if (streams.get(name) === stream) {
        if (stream.end) streams.delete(name)
        else streams.set(name, null)
      }
    }
  }
  return async (context: { result?: any }) => {
    const name = context.result?.$stream
    const stream = typeof name === 'string' ? streamOf(name) : null
    if (stream) context.result = itemsOf(name, stream)
  }
}
"""
_READ_STREAMS: Final = """\
  const socket = (client as {{ io?: StreamSocket }}).io
  if (socket) {{
    const read = streamReader(socket)
{hooks}  }}
"""
_PARAMETER: Final = ",\n  authenticationOptions: Partial<AuthenticationClientOptions> = {}"
_SUFFIXES: Final = ("", "Data", "Patch", "Query", "Params", "ClientService")
_NONE: Final = type(None)
_ANY_OBJECT: Final[Schema] = {"type": "object"}


def typescript(
    app: App | ExpressApplication, *, title: str = "the API", declarations: bool = False
) -> str:
    """Return the client of an application for TypeScript: the types of its services, and its code.

    The module has what front ends of FeathersJS 5 import: `ServiceTypes`, `createClient`, and for
    a service with the model `Message` the types `Message`, `MessageData`, `MessagePatch`,
    `MessageQuery` and `MessageClientService`. Services without methods for clients are left out.
    Where methods stream, `withStreams` makes a fetch function that reads them; over socket.io
    `createClient` reads them by itself.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.schema import with_schema
        >>> app = App()
        >>> message = {"title": "Message", "properties": {"text": {"type": "string"}}}
        >>> _ = app.use("messages", with_schema(MemoryService(), message))
        >>> "export interface Message {" in typescript(app)
        True

    Args:
        app: The application, an `App` or what ``express`` returns.
        title: The name of the API, for the comment at the top.
        declarations: Whether to return a declaration file (``.d.ts``), which has the types alone.
    """
    servers = app.channel_registry.servers
    has_socket = any(server.transport == "socketio" for server in servers)
    facts = [facts_of(handle) for handle in app.services.values() if handle.methods]
    module = _Module(facts, has_socket=has_socket)
    types = module.types()
    imports, code = _TYPES_IMPORT, ""
    if not declarations:
        sign_in = next((facts.handle.path for facts in module.services if facts.signs_in), None)
        imports = _CODE_IMPORT + imports + ("" if sign_in is None else _SIGN_IN_IMPORT)
        code = module.create_client(sign_in)
        if module.streaming:
            code = _STREAMS + (_SOCKET_STREAMS if has_socket else "") + code
    shown = re.sub(r"[^\w .,:-]", " ", title)
    head = _HEAD.format(title=shown, imports=imports) + _COMMON + module.lists
    return head + types + _CLIENT_TYPES + code


class _Module:
    """The types of the services of one application.

    Args:
        services: The facts about each service.
        has_socket: Whether clients can connect over socket.io, and so have live lists.

    Attributes:
        services: The same.
        lists: The types of live lists, if a service has them.
        streaming: The methods that stream, by the path of their service.
    """

    def __init__(self, services: list[ServiceFacts], *, has_socket: bool) -> None:
        self.services = services
        self._has_socket = has_socket
        self.streaming = {
            facts.handle.path: streaming
            for facts in services
            if (streaming := sorted(facts.handle.streaming & {*facts.client_methods}))
        }
        self._live = {f.handle.path for f in services if has_socket and f.handle.live_options}
        self.lists = _LIVE if self._live else ""
        self._components = Components()
        self._records: set[str] = set()
        self._types = TypeDeclarations(self._components.schemas, self._records)
        self._names: dict[str, str] = {}
        self._declared: dict[int, str] = {}
        for facts in services:
            path = facts.handle.path
            title = (facts.record or {}).get("title")
            # A path is that of one service; a model may be that of several.
            choices = [title, path or "root"] if isinstance(title, str) else [path or "root"]
            names = map(type_name, choices)
            self._names[path] = self._types.reserve(*names, suffixes=_SUFFIXES)
        for facts in services:  # before the first is declared: they may refer to each other
            self.add_record(facts)

    def types(self) -> str:
        """Return the declarations of all types, and the index of the services."""
        services = "".join(map(self.service, self.services))
        index = "".join(
            f"  {literal(path)}: {name}ClientService\n" for path, name in self._names.items()
        )
        about = comment("The services by path.")
        return f"{services}\n{about}export interface ServiceTypes {{\n{index}}}\n"

    def create_client(self, sign_in: str | None) -> str:
        """Return the code of `createClient`.

        Args:
            sign_in: The path of the service that issues tokens, None without one.
        """
        options = f"{{ path: {literal(sign_in)}, ...authenticationOptions }}"
        signs_in = f"  client.configure(authenticationClient({options}))\n"
        uses = "".join(
            f"  client.use({path}, connection.service({path}), {{ methods: [{methods}] }})\n"
            for path, methods in (
                (literal(facts.handle.path), ", ".join(map(literal, self._method_names(facts))))
                for facts in self.services
                if not facts.signs_in
            )
        )
        return _CREATE_CLIENT.format(
            parameter="" if sign_in is None else _PARAMETER,
            sign_in="" if sign_in is None else signs_in,
            services=uses,
            streams=self._read_streams() if self._has_socket and self.streaming else "",
        )

    def _read_streams(self) -> str:
        """Return the code that lets the results of methods that stream be read over socket.io."""
        lines: list[str] = []
        for path, methods in self.streaming.items():
            hooks = ", ".join(f"{key_of(method)}: [read]" for method in methods)
            lines.append(f"    client.service({literal(path)}).hooks({{ after: {{ {hooks} }} }})\n")
        return _READ_STREAMS.format(hooks="".join(lines))

    def _method_names(self, facts: ServiceFacts) -> list[str]:
        of_lists = ("live", "unlive") if facts.handle.path in self._live else ()
        return [*facts.client_methods, *of_lists]

    def service(self, facts: ServiceFacts) -> str:
        """Return the declarations of the types of a service."""
        name, handle = self._names[facts.handle.path], facts.handle
        before = len(self._types.code)
        members = "".join(self.methods(facts, name))
        # A client over REST emits the events of its own calls.
        own = [event for method, event in EVENT_OF_METHOD.items() if method in handle.methods]
        events = {} if facts.signs_in else dict.fromkeys([*own, *facts.published_events])
        record = name if name in self._records else "unknown"
        payloads = dict.fromkeys(EVENT_OF_METHOD.values(), record)
        for method, event in EVENT_OF_METHOD.items():
            declared = facts.declared.get(method)
            if declared is not None and declared.result is not UNSET and not declared.streams:
                payloads[event] = self._declared_type(declared.result)
        types = "; ".join(
            member(event, payloads.get(event, "unknown"), is_sure=True) for event in events
        )
        parents = [f"ServiceEvents<{{ {types} }}>"] if events else []
        if handle.path in self._live:
            types = "; ".join([*([types] if types else []), f"live: LiveMessage<{record}>"])
            parents = [f"ServiceEvents<{{ {types} }}>", f"LiveLists<{record}, {name}Params>"]
        parent = f" extends {', '.join(parents)}" if parents else ""
        service = f"export interface {name}ClientService{parent} {{\n{members}}}\n"
        return "".join(f"\n{code}" for code in [*self._types.code[before:], service])

    def methods(self, facts: ServiceFacts, name: str) -> Iterator[str]:
        """Yield the lines of each method of a service, and declare the types that they need."""
        if name in self._records:
            self._types.named(name)
        data = ""
        if facts.form is None:
            made = facts.data.get("create") or facts.data.get("update")
            data = self._declare(f"{name}Data", made)
        if not facts.signs_in:
            self._declare(f"{name}Patch", facts.data.get("patch"))
        params = self.params(facts, name)
        for method in facts.client_methods:
            calls = self._calls(facts, name, method, data)
            # What a standard method does is no news.
            is_own = method not in STANDARD_METHODS
            about = facts.documentation(method) if is_own else ""
            yield comment(about, "  ") + "".join(
                f"  {key_of(method)}({arguments}{params[method]}): Promise<{result}>\n"
                for arguments, result in calls
            )

    def _calls(
        self, facts: ServiceFacts, name: str, method: str, data: str
    ) -> list[tuple[str, str]]:
        """Return the ways to call a method: its parameters but the last one, and its result."""
        one, many = self._results(facts, name)
        declared = facts.declared.get(method)
        if declared is not None and declared.streams:
            item = "unknown" if declared.result is UNSET else self._declared_type(declared.result)
            one = many = f"AsyncIterable<{item}>"
        elif declared is not None and declared.result is not UNSET:
            one = many = self._declared_type(declared.result)
        both = union_of([one, many])
        several = facts.adapter is not None and facts.takes_several(method) and declared is None
        if method == "find":
            is_page = facts.paginated and declared is None
            return [("", f"Feathers.Paginated<{one}>" if is_page else many)]
        if method == "create":
            if declared is not None and declared.data is _NONE:
                return [("data: null, ", one)]
            calls = [(f"data: {data}, ", one)]
            if several:
                calls.append((f"data: {data}[], ", many))
                calls.append((f"data: {data} | {data}[], ", both))
            return calls
        body = self._body(facts, name, method)
        if method not in ID_METHODS:
            is_known = declared is not None and (declared.streams or declared.result is not UNSET)
            return [(body, one if is_known else "unknown")]
        id_type = self.id_type(facts, name)
        # A service of the application's own says itself whether it needs an id.
        null = " | null" if facts.adapter is None and method != "get" else ""
        id_ = "null" if facts.signs_in else f"{id_type}{null}"
        if declared is not None and declared.id is not UNSET:
            id_ = self._declared_type(declared.id)
        calls = [(f"id: {id_}, {body}", one)]
        if several:
            calls.append((f"id: null, {body}", many))
            calls.append((f"id: {id_type} | null, {body}", both))
        return calls

    def _results(self, facts: ServiceFacts, name: str) -> tuple[str, str]:
        """Return the types of one and of several results of a method that declares none."""
        is_known = facts.adapter is not None or facts.record is not None
        # Without types, it is not known what the methods of a service of one's own return.
        one = name if is_known else "unknown"
        is_list = is_known and not facts.signs_in
        return one, array_of(one) if is_list else one

    def _declared_type(self, type_: Any) -> str:
        """Return the type of what a method declares to return, or of its id."""
        origin, arguments = get_origin(type_), get_args(type_)
        if type_ is _NONE:
            return "null"
        if origin is list:
            return array_of(self._declared_type(arguments[0]))
        if origin is Page:
            return f"Feathers.Paginated<{self._declared_type(arguments[0])}>"
        if origin in {Union, UnionType}:
            return union_of(map(self._declared_type, arguments))
        component = self._declared.get(id(type_))
        schema = schema_of(type_, is_result=True)
        if component is None:
            component = self._declared[id(type_)] = f"-{len(self._declared)}"
            self._records.add(component)
            self._types.add_class(component, getattr(type_, "__name__", "Result"))
            self._components.add(component, schema)
        shown = self._components.schemas[component]
        if "properties" in shown:
            return self._types.named(component)
        return self._types.type_of(shown, in_record=True)

    def add_record(self, facts: ServiceFacts) -> None:
        """Add the component for the records of a service, if anything is known of them."""
        name, adapter = self._names[facts.handle.path], facts.adapter
        record = dict(facts.record or _ANY_OBJECT)
        if facts.entity is not None and (users := self._names.get(facts.entity[1])) is not None:
            user = {facts.entity[0]: {"$ref": f"#/components/schemas/{users}"}}
            record["properties"] = {**record["properties"], **user}
        if adapter is not None:
            if facts.record is None:
                keywords = getattr(adapter, "schema_keywords", ())
                types: list[Schema] = [{keyword.name: True} for keyword in keywords]
                types = [*(types or [{"type": "number"}]), {"type": "string"}]
                record |= {"properties": {adapter.id: {"anyOf": types}}}
                record["additionalProperties"] = True
            record["required"] = [*record.get("required", ()), adapter.id]
        if facts.record is not None or adapter is not None:
            self._records.add(name)
            self._components.add(name, record)

    def _declare(self, name: str, schema: Schema | None) -> str:
        """Declare a type with a reserved name, and return the name."""
        self._components.add(name, schema or _ANY_OBJECT)
        return self._types.named(name)

    def id_type(self, facts: ServiceFacts, name: str) -> str:
        """Return the type of the ids of records."""
        if facts.adapter is None:
            return "Feathers.Id"
        key = facts.adapter.id
        id_schema = self._components.schemas[name]["properties"].get(key)
        id_type = self._types.type_of(id_schema, in_record=True)
        if id_type == "unknown":
            return "Feathers.Id"
        is_nullable = "null" in id_type.split(" | ")
        return f"NonNullable<{name}[{literal(key)}]>" if is_nullable else id_type

    def params(self, facts: ServiceFacts, name: str) -> dict[str, str]:
        """Return the last parameter of each method, and declare the types of their queries."""
        if facts.signs_in:
            return dict.fromkeys(facts.client_methods, "params?: Feathers.Params")
        queries = {
            method: query_schema_of(declared)
            for method, declared in facts.declared.items()
            if declared.has_query and method in facts.client_methods
        }
        mark = ": " if facts.placeholders else "?: "
        if not queries:
            query = f"{name}Query"
            known = facts.query.get("find") or next(iter(facts.query.values()), None)
            if known or facts.adapter is None:
                self._declare(query, known)
            else:
                self._types.code.append(f"export type {query} = OpenQuery\n")
            self._declare_params(facts, f"{name}Params", query)
            return dict.fromkeys(facts.client_methods, f"params{mark}{name}Params")
        shared: list[tuple[Schema, str]] = []
        params = dict.fromkeys(facts.client_methods, f"params{mark}{name}Params")
        for method, schema in queries.items():
            of_method = next((each for known, each in shared if known == schema), None)
            if of_method is None:
                # The first one has the name that the only one has.
                suffix = type_name(method) if shared else ""
                query, of_method = f"{name}{suffix}Query", f"{name}{suffix}Params"
                if suffix:
                    query, of_method = self._types.reserve(query), self._types.reserve(of_method)
                self._declare(query, schema)
                self._declare_params(facts, of_method, query)
                shared.append((schema, of_method))
            params[method] = f"params{mark}{of_method}"
        return params

    def _declare_params(self, facts: ServiceFacts, name: str, query: str) -> None:
        """Declare the type of params with a type of queries and the values of placeholders."""
        route = ""
        if facts.placeholders:
            values = [member(key, "Feathers.Id", is_sure=True) for key in facts.placeholders]
            route = f" & {{ route: {{ {'; '.join(values)} }} }}"
        self._types.code.append(f"export type {name} = Feathers.Params<{query}>{route}\n")

    def _body(self, facts: ServiceFacts, name: str, method: str) -> str:
        """Return the parameter for the data of a method that is not `create`."""
        if method in METHODS_WITHOUT_DATA:
            return ""
        declared = facts.declared.get(method)
        if declared is not None and declared.data is _NONE:
            return "data: null, "
        schema = facts.data.get(method)
        if method == "patch":
            return f"data: {name}Patch, "
        if method == "update" and schema in (None, facts.data.get("create", schema)):
            return f"data: {name}Data, "
        if not schema:
            return "data: unknown, "
        wanted = self._types.reserve(f"{name}{type_name(method)}Data")
        return f"data: {self._declare(wanted, schema)}, "
