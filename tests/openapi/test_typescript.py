"""The client for TypeScript: what it says of the services of an application.

`tests/interop/test_typescript.py` compiles it.
"""

from __future__ import annotations

import re
from datetime import date

import pytest
from pydantic import BaseModel, Field, SecretStr, create_model
from tests.openapi.described import make_app, sign_in

from alula import App
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.authentication import AuthenticationService, protect
from alula.express import express, rest
from alula.openapi import describe, typescript
from alula.realtime import socketio, sse
from alula.schema import hidden, resolve, validate_data, validate_query, virtual, with_schema

TEXT = {"type": "string"}
NOTE = {"title": "Note", "properties": {"text": TEXT}, "required": ["text"]}


class Message(BaseModel):
    """What somebody said."""

    text: str = Field(description="In Markdown.")
    likes: int = 0
    day: date | None = None
    secret: SecretStr | None = None


def code_of(*services, **options):
    """Return the code for an application with services; each is (path, service, options)."""
    app = App()
    for path, service, use in services:
        app.use(path, service, **use)
    return typescript(app, **options)


def block(code, head):
    """Return one declaration of the code, without the comment above it."""
    found = re.search(
        rf"^export (interface|type) {head}\b.*?(?=\n\n|\Z)", code, re.DOTALL | re.MULTILINE
    )
    assert found, f"{head} is not in:\n{code}"
    return found[0].rstrip()


def lines_of(code, head):
    return [line.strip() for line in block(code, head).splitlines()[1:-1]]


def messages(service=None, **options):
    return with_schema(service or MemoryService(start_id=1), Message, **options)


@pytest.fixture(scope="module")
def everything():
    return typescript(make_app(), title="Everything")


class TestTypesOfAService:
    @pytest.fixture
    def code(self):
        return code_of(("messages", messages(), {}))

    def test_records_have_all_that_is_stored_and_no_secrets(self, code):
        assert lines_of(code, "Message") == [
            "/** In Markdown. */",
            "text: string",
            "likes: number",
            "day: string | null",
            "id: number | string",
        ]
        assert "/** What somebody said. */\nexport interface Message {" in code

    def test_data_has_secrets_and_needs_no_defaults(self, code):
        assert lines_of(code, "MessageData") == [
            "/** In Markdown. */",
            "text: string",
            "likes?: number",
            "day?: string | null",
            "secret?: string | null",
        ]
        patch = lines_of(code, "MessagePatch")
        assert {"text?: string", "secret?: string | null"} <= set(patch)

    def test_queries_do_not_name_secrets(self, code):
        assert lines_of(code, "MessageQuery") == [
            "$limit?: number",
            "$skip?: number",
            '$sort?: { [name in "text" | "likes" | "day" | "id"]?: 1 | -1 }',
            '$select?: Array<"text" | "likes" | "day" | "id">',
        ]
        assert lines_of(code, "MessageQueryCriteria") == [
            "text?: string | QueryOperators<string>",
            "likes?: number | QueryOperators<number>",
            "day?: string | null | QueryOperators<string | null>",
            "id?: number | string | QueryOperators<number | string>",
            "$or?: MessageQueryCriteria[]",
            "$and?: MessageQueryCriteria[]",
        ]

    def test_methods(self, code):
        head, *methods = block(code, "MessageClientService").splitlines()
        events = ("created", "updated", "patched", "removed")
        types = "; ".join(f"{event}: Message" for event in events)
        assert head.endswith(f" extends ServiceEvents<{{ {types} }}> {{")
        id_ = "id: number | string"
        assert [line.strip() for line in methods[:-1]] == [
            "find(params?: MessageParams): Promise<Message[]>",
            f"get({id_}, params?: MessageParams): Promise<Message>",
            "create(data: MessageData, params?: MessageParams): Promise<Message>",
            f"update({id_}, data: MessageData, params?: MessageParams): Promise<Message>",
            f"patch({id_}, data: MessagePatch, params?: MessageParams): Promise<Message>",
            f"remove({id_}, params?: MessageParams): Promise<Message>",
        ]

    def test_the_index(self, code):
        assert lines_of(code, "ServiceTypes") == ['"messages": MessageClientService']


def test_pages():
    service = MemoryService(paginate={"default": 5})
    code = code_of(("messages", messages(service), {}))
    assert "find(params?: MessageParams): Promise<Feathers.Paginated<Message>>" in code


def test_several_records():
    code = code_of(("messages", messages(MemoryService(multi=["create", "remove"])), {}))
    methods = lines_of(code, "MessageClientService")
    both = "params?: MessageParams): Promise<Message | Message[]>"
    assert f"create(data: MessageData | MessageData[], {both}" in methods
    assert "create(data: MessageData[], params?: MessageParams): Promise<Message[]>" in methods
    assert "remove(id: null, params?: MessageParams): Promise<Message[]>" in methods
    assert f"remove(id: number | string | null, {both}" in methods
    assert sum(method.startswith("patch") for method in methods) == 1


class TestIds:
    @pytest.mark.parametrize(
        ("schema", "type_"),
        [
            ({"type": "integer"}, "number"),
            (TEXT, "string"),
            ({"enum": ["a", "b"]}, '"a" | "b"'),
            ({"type": ["integer", "null"]}, 'NonNullable<Note["id"]>'),
            ({}, "Feathers.Id"),
        ],
    )
    def test_are_those_of_the_schema(self, schema, type_):
        note = {**NOTE, "properties": {**NOTE["properties"], "id": schema}}
        code = code_of(("notes", with_schema(MemoryService(), note), {"methods": ["get"]}))
        assert f"get(id: {type_}, params?" in code
        assert re.search(r"^  id: ", block(code, "Note"), re.MULTILINE)

    @pytest.mark.parametrize("model", [Message, {**NOTE, "title": "Message"}])
    def test_of_mongodb_are_text(self, model):
        code = code_of(("messages", with_schema(MongoDBService(None), model), {}))
        assert "get(id: string, params?" in code
        assert "_id: string" in lines_of(code, "Message")
        assert re.search(
            r"_id\?: (QueryOperators<string> \| string|string \| Q.*<string>)$", code, re.MULTILINE
        )

    def test_of_mongodb_without_a_schema(self):
        code = code_of(("logs", MongoDBService(None), {}))
        assert lines_of(code, "Logs") == ["_id: string", "[name: string]: unknown"]


class TestWithoutASchema:
    def test_of_an_adapter(self, everything):
        assert lines_of(everything, "Plain") == ["id: number | string", "[name: string]: unknown"]
        for name in ("PlainData", "PlainPatch"):
            assert block(everything, name).endswith("= { [name: string]: unknown }")
        assert block(everything, "PlainQuery").endswith("= OpenQuery")

    def test_of_an_own_service(self, everything):
        assert "interface Calc " not in everything
        assert "removed: unknown" in block(everything, "CalcClientService")
        assert lines_of(everything, "CalcClientService") == [
            "find(params?: CalcParams): Promise<unknown>",
            "get(id: Feathers.Id, params?: CalcParams): Promise<unknown>",
            "remove(id: Feathers.Id | null, params?: CalcParams): Promise<unknown>",
            "/** Add the numbers `a` and `b`. */",
            "add(data: unknown, params?: CalcParams): Promise<unknown>",
        ]
        assert block(everything, "JobsClientService").splitlines() == [
            "export interface JobsClientService {",
            "  start(data: unknown, params?: JobsParams): Promise<unknown>",
            "}",
        ]

    def test_there_is_no_any(self, everything):
        assert not re.search(r"\bany\b", re.sub(r"/\*.*?\*/", "", everything, flags=re.DOTALL))

    def test_services_that_are_closed_to_clients_are_left_out(self, everything):
        assert "internal" not in everything

    def test_there_may_be_no_service(self):
        assert lines_of(code_of(), "ServiceTypes") == []


class TestNames:
    def test_are_those_of_the_models(self):
        code = code_of(
            ("messages", messages(), {}),
            ("letters", messages(), {}),
            ("post/letters", messages(), {}),
        )
        assert lines_of(code, "ServiceTypes") == [
            '"messages": MessageClientService',
            '"letters": LettersClientService',
            '"post/letters": PostLettersClientService',
        ]
        for name in ("Message", "Letters", "PostLetters"):
            assert "text: string" in lines_of(code, f"{name}Data")

    def test_of_services_differ_from_those_of_their_types(self):
        code = code_of(
            ("notes", with_schema(MemoryService(), NOTE), {}),
            ("data", with_schema(MemoryService(), {**NOTE, "title": "NoteData"}), {}),
            ("a-b", MemoryService(), {}),
            ("a/b", MemoryService(), {}),
        )
        names = re.findall(r"(\w+)ClientService$", block(code, "ServiceTypes"), re.MULTILINE)
        assert names == ["Note", "Data", "AB", "AB_"]
        declared = re.findall(r"^export (?:interface|type) (\w+)", code, re.MULTILINE)
        assert len(declared) == len(set(declared))

    def test_that_hide_nothing(self):
        promise = {**NOTE, "title": "Promise"}
        code = code_of(("promises", with_schema(MemoryService(), promise), {}))
        assert "export interface Promises {" in code

    def test_a_schema_without_a_title_takes_the_path(self, everything):
        assert '"teams/:team/tasks": TeamsTeamTasksClientService' in everything

    def test_the_root(self):
        assert '"": RootClientService' in code_of(("/", MemoryService(), {}))


def test_values_for_a_path_are_needed(everything):
    params = "Feathers.Params<TeamsTeamTasksQuery> & { route: { team: Feathers.Id } }"
    assert block(everything, "TeamsTeamTasksParams").endswith(f"= {params}")
    assert "find(params: TeamsTeamTasksParams)" in everything


class TestData:
    def service(self, **data):
        app = App()
        app.use("notes", MemoryService(), methods=["create", "update", "patch", "find"])
        app.service("notes").hooks(before=[validate_data(data)])
        return typescript(app)

    def test_of_update_is_that_of_create(self):
        code = self.service(create=NOTE, update=NOTE)
        assert "update(id: number | string, data: NotesData, " in code
        assert "NotesUpdateData" not in code

    def test_of_update_may_be_another(self):
        other = {"type": "object", "properties": {"other": TEXT}}
        code = self.service(create=NOTE, update=other)
        assert "update(id: number | string, data: NotesUpdateData, " in code
        assert lines_of(code, "NotesUpdateData") == ["other?: string"]

    def test_of_update_alone(self):
        code = self.service(update=NOTE)
        assert "update(id: number | string, data: NotesData, " in code
        assert lines_of(code, "NotesData") == ["text: string"]

    def test_of_custom_methods(self):
        class Notes(MemoryService):
            async def archive(self, data, params): ...
            async def new(self, data, params): ...

        app = App()
        app.use("notes", Notes(), methods=["archive", "new"])
        app.service("notes").hooks(before={"archive": [validate_data(NOTE)]})
        code = typescript(app)
        assert lines_of(code, "NotesArchiveData") == ["text: string"]
        assert lines_of(code, "NotesClientService") == [
            "archive(data: NotesArchiveData, params?: NotesParams): Promise<unknown>",
            '"new"(data: unknown, params?: NotesParams): Promise<unknown>',
        ]

    def test_a_validator_that_does_not_describe_itself(self):
        class Silent:
            operators = filters = frozenset()

            def validate(self, value):
                return value

        app = App()
        app.use("notes", MemoryService(), methods=["find", "create"])
        app.service("notes").hooks(before=[validate_query(Silent()), validate_data(Silent())])
        code = typescript(app)
        assert block(code, "NotesQuery").endswith("= OpenQuery")
        assert block(code, "NotesData").endswith("= { [name: string]: unknown }")


class TestEvents:
    def events(self, app):
        return re.search(r"ServiceEvents<{ (.*) }> {$", typescript(app), re.MULTILINE)[1]

    def test_are_those_of_own_calls_and_those_that_are_published(self):
        app = App()
        notes = with_schema(MemoryService(), NOTE)
        app.use("notes", notes, methods=["find", "create"], events=["archived", "unpublished"])
        assert self.events(app) == "created: Note"
        app.service("notes").publish("removed", lambda data, context: None)
        app.service("notes").publish("archived", lambda data, context: None)
        assert self.events(app) == "created: Note; removed: Note; archived: unknown"

    def test_there_may_be_none(self, everything):
        assert "export interface JobsClientService {" in everything


class TestLiveLists:
    def code(self, *transports, **use):
        app = express(App()).configure(rest())
        for transport in transports:
            app.configure(transport)
        app.use("messages", messages(), **use)
        app.use("others", MemoryService())
        app.service("messages").live()
        return typescript(app)

    def test_are_methods_and_an_event_of_their_service(self):
        code = self.code(socketio(), methods=["find"])
        assert (
            "export interface MessageClientService extends"
            " ServiceEvents<{ live: LiveMessage<Message> }>, LiveLists<Message, MessageParams> {"
        ) in code
        assert 'connection.service("messages"), { methods: ["find", "live", "unlive"] })' in code
        assert code.count("LiveLists<") == 2  # its declaration, and this service
        assert "removed: Message; live: LiveMessage<Message> }>" in self.code(socketio())

    def test_need_a_socket(self):
        assert "Live" not in self.code()
        assert "Live" not in self.code(sse())


class TestSignIn:
    def test_the_result_has_the_user_also_one_that_is_registered_later(self):
        app = App()
        app.use("authentication", sign_in(app))
        app.use("users", messages(), methods=["find"])
        code = typescript(app)
        assert lines_of(code, "Authentication") == [
            "accessToken: string",
            "authentication: { strategy: string; payload?: { [name: string]: unknown } }",
            "user: Message",
        ]
        local = '{ strategy: "local"; email: string; password: string }'
        token = '{ strategy: "jwt"; accessToken: string }'
        assert block(code, "AuthenticationData").endswith(f"= {local} | {token}")
        assert lines_of(code, "AuthenticationClientService") == [
            "create(data: AuthenticationData, params?: Feathers.Params): Promise<Authentication>",
            "remove(id: null, params?: Feathers.Params): Promise<Authentication>",
        ]

    def test_nothing_is_known_of_users_elsewhere(self):
        app = App()
        app.use("authentication", sign_in(app))
        assert "user: { [name: string]: unknown }" in lines_of(typescript(app), "Authentication")

    def test_users_of_a_mounted_application_are_in_it(self):
        inner, app = App(), App()
        inner.use("authentication", sign_in(inner))
        inner.use("users", messages(), methods=["find"])
        app.use("users", with_schema(MemoryService(), NOTE), methods=["find"])
        app.use("api", inner)
        code = typescript(app)
        assert "user: Message" in lines_of(code, "ApiAuthentication")
        assert '"users": NoteClientService' in code

    def test_there_may_be_no_user(self):
        app = App()
        service = AuthenticationService(app, secret="s" * 32, entity=None, strategies=["other"])
        app.use("tokens", service)
        code = typescript(app)
        assert "user" not in block(code, "Tokens")
        # Only the strategy itself knows what it takes.
        assert set(lines_of(code, "TokensData")) == {'strategy: "other"', "[name: string]: unknown"}

    def test_refresh_tokens(self):
        app = App()
        app.use("sessions", MemoryService(), methods=[])
        app.use("users", MemoryService())
        service = AuthenticationService(app, secret="s" * 32, sessions="sessions")
        app.use("authentication", service)
        assert "refreshToken: string" in lines_of(typescript(app), "Authentication")


class TestHiddenProperties:
    def test_by_resolvers(self):
        code = code_of(("messages", messages(external=resolve({"likes": hidden})), {}))
        assert "likes" not in block(code, "Message")
        assert "likes" in block(code, "MessageData")

    @pytest.mark.parametrize("kind", ["around", "after"])
    def test_by_a_hook(self, kind):
        app = App()
        app.use("messages", messages())
        app.service("messages").hooks(**{kind: {"find": [protect("likes", "day")]}})
        code = typescript(app)
        assert lines_of(code, "Message")[1:] == ["text: string", "id: number | string"]
        assert "likes" in block(code, "MessageData")
        shown = describe(app)["components"]["schemas"]["messages"]["properties"]
        assert list(shown) == ["text", "id"]


class Author(BaseModel):
    name: str
    password: SecretStr


class TestComputedProperties:
    def code(self, **functions):
        result = resolve({name: virtual(function) for name, function in functions.items()})
        return code_of(("messages", messages(result=result), {}))

    def test_are_what_their_function_says_it_returns(self):
        async def author(message, context) -> Author: ...
        def size(message) -> int: ...
        def names(message) -> list[Author] | None: ...

        code = self.code(author=author, size=size, names=names)
        assert lines_of(code, "Message")[-3:] == [
            "author: MessageAuthor",
            "size: number",
            "names: MessageAuthor[] | null",
        ]
        assert lines_of(code, "MessageAuthor") == ["name: string"]
        assert "author" not in block(code, "MessageData")
        assert "author" not in block(code, "MessageQueryCriteria")

    def test_are_unknown_if_it_does_not_say(self):
        def nameless(message) -> Missing: ...  # noqa: F821  # that is the point
        def strange(message) -> TestComputedProperties: ...
        def away(message) -> re.Missing: ...

        code = self.code(silent=lambda _: 1, nameless=nameless, strange=strange, away=away)
        assert lines_of(code, "Message")[-4:] == [
            "silent?: unknown",
            "nameless?: unknown",
            "strange?: unknown",
            "away?: unknown",
        ]

    def test_a_property_of_the_model_is_what_the_model_says(self):
        def text(message) -> int: ...

        assert "text: string" in lines_of(self.code(text=text), "Message")

    def test_two_models_of_one_name(self):
        def other(message): ...
        def author(message) -> Author: ...

        other.__annotations__["return"] = create_model("Author", a=(int, ...))
        code = self.code(author=author, other=other)
        assert lines_of(code, "Message")[-2:] == ["author: MessageAuthor", "other?: unknown"]
        assert lines_of(code, "MessageAuthor") == ["name: string"]

    def test_those_that_clients_alone_get(self):
        def size(message) -> int: ...

        code = code_of(("messages", messages(external=resolve({"size": virtual(size)})), {}))
        assert "size: number" in lines_of(code, "Message")


class TestTheModule:
    def test_without_sign_in(self):
        code = code_of(("messages", messages(), {"methods": ["find", "create"]}))
        assert "authentication" not in code
        assert "  connection: Feathers.TransportConnection<ServiceTypes>\n): Client" in code
        use = 'client.use("messages", connection.service("messages"), '
        assert f'{use}{{ methods: ["find", "create"] }})\n' in code

    def test_with_sign_in(self, everything):
        assert "import authenticationClient from '@feathersjs/authentication-client'" in everything
        options = '{ path: "authentication", ...authenticationOptions }'
        assert f"client.configure(authenticationClient({options}))" in everything
        assert 'client.use("authentication"' not in everything

    def test_declarations_have_no_code(self):
        code = typescript(make_app(), declarations=True)
        assert "createClient" not in code
        assert re.findall(r"^import .*", code, re.MULTILINE) == [
            "import type * as Feathers from '@feathersjs/feathers'"
        ]
        assert block(code, "ClientApplication")

    def test_text_of_an_application_never_becomes_code(self):
        evil = "*/ evil() /*\n'\"`${evil()}\\ \u2028"

        class Evil(MemoryService):
            async def shout(self, data, params): ...

        Evil.shout.__doc__ = evil
        schema = {
            "title": evil,
            "description": evil,
            "properties": {
                evil: {"description": evil, "enum": [evil]},
                "in": {"$ref": "#/$defs/*evil()"},
            },
            "$defs": {"*evil()": {"description": evil, "properties": {evil: {"const": evil}}}},
        }
        service = with_schema(Evil(), schema)
        path = re.sub("[{}]", "", evil)  # a path must not have them
        code = code_of((path, service, {"methods": ["find", "shout"]}), title=evil)
        assert code.count(r"*\/ evil() /*") > 3
        strings_and_comments = r'/\*.*?\*/|"(\\.|[^"\\\n])*"'
        without = re.sub(strings_and_comments, "", code, flags=re.DOTALL)
        # What is left has names of letters and digits, and the code of the module itself.
        assert "evil()" not in without
        assert "`" not in without
        assert "\u2028" not in without


class Town(BaseModel):
    name: str


class Street(BaseModel):
    name: str
    town: Town


class Member(BaseModel):
    """Who writes."""

    id: int
    email: str
    password: SecretStr | None = None
    street: Street | None = None


class Letter(BaseModel):
    id: int
    text: str


def author(letter) -> Member: ...
def copies(letter) -> list[Member]: ...


def letters(author=author):
    computed = resolve({"author": virtual(author), "copies": virtual(copies)})
    return with_schema(MemoryService(), Letter, result=computed)


class TestModelsOfOtherServices:
    def test_a_computed_record_has_the_type_of_its_service(self):
        for order in (1, -1):
            services = [
                ("letters", letters(), {}),
                ("members", with_schema(MemoryService(), Member), {}),
            ]
            code = code_of(*services[::order])
            assert "author: Member" in lines_of(code, "Letter")
            assert "copies: Member[]" in lines_of(code, "Letter")
            assert "LetterMember" not in code
            assert code.count("export interface Member {") == 1
            assert "street: MemberStreet | null" in lines_of(code, "Member")

    def test_without_such_a_service_it_has_one_of_its_own(self):
        code = code_of(("letters", letters(), {}))
        assert "author: LetterMember" in lines_of(code, "Letter")

    def test_a_record_with_other_properties_is_another_type(self):
        # What a hook hides of the records of the service, the computed property may have.
        members = App().use("members", with_schema(MemoryService(), Member))
        members.use("letters", letters())
        members.service("members").hooks(after=[protect("email")])
        assert "author: LetterMember" in lines_of(typescript(members), "Letter")

    def test_a_record_with_another_model_inside_is_another_type(self):
        other = create_model("Town", name=(int, ...))
        street = create_model("Street", name=(str, ...), town=(other, ...))
        member = create_model("Member", __base__=Member, street=(street | None, None))
        code = code_of(
            ("letters", letters(), {}),
            ("members", with_schema(MemoryService(), member), {}),
        )
        assert "author: LetterMember" in lines_of(code, "Letter")

    def test_data_and_queries_keep_types_of_their_own(self):
        class Envelope(BaseModel):
            id: int
            street: Street

        services = [
            ("envelopes", with_schema(MemoryService(), Envelope), {}),
            ("streets", with_schema(MemoryService(id="name"), Street), {}),
        ]
        code = code_of(*services)
        assert "street: Street" in lines_of(code, "Envelope")
        assert "street: EnvelopeDataStreet" in lines_of(code, "EnvelopeData")
