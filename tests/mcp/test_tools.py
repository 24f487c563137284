"""Tools: their names, what agents see of them, and how their arguments are read."""

from __future__ import annotations

from typing import Annotated, TypedDict

import pytest
from pydantic import BaseModel, Field, create_model

from alula import App
from alula.adapters.memory import MemoryService
from alula.errors import BadRequest
from alula.files import LocalFileStore, UploadService
from alula.mcp._tools import Toolbox, read_names
from alula.schema import Validator, validate_data, with_schema


class Todo(BaseModel):
    id: int
    text: str = Field(min_length=1)
    done: bool = False


class Note(BaseModel):
    text: str


class Filters(TypedDict):
    tag: str


class Own:
    """A service of one's own: some of its methods say what they take."""

    async def find(self, params):
        return []

    async def get(self, id: int, params, *, lang: str = "en"):
        """Return a note.

        Args:
            id: For developers.
        """

    async def remove(self, id: None, params):
        return None

    async def patch(self, id, data, params):
        return None

    async def create(self, data: list[Note], params):
        return None

    async def add(self, data, params):
        return None

    async def put(self, data: Note, params, *, blog: int, tag: Annotated[str, Field(max_length=9)]):
        return None

    async def clear(self, data: None, params, *, query: Filters):
        return None


METHODS = ["find", "get", "remove", "patch", "create", "add", "put", "clear"]


def tools_of(app, services):
    toolbox = Toolbox(app, read_names(services))
    toolbox.check()
    return toolbox.tools()


@pytest.fixture
def own():
    app = App().use("blogs/:blog/notes", Own(), methods=METHODS)
    tools = tools_of(app, {"blogs/:blog/notes": METHODS})
    return {name.removeprefix("blogs_notes_"): tool for name, tool in tools.items()}


@pytest.fixture
def todos():
    app = App().use("todos", with_schema(MemoryService(), Todo))
    tools = tools_of(app, {"todos": ["find", "get", "create", "update", "patch", "remove"]})
    return {name.removeprefix("todos_"): tool for name, tool in tools.items()}


# -- names -----------------------------------------------------------------------------------------


def test_names_are_made_of_path_and_method():
    services = {"/blogs/:blog/a.b/": ["find"], "": ("get",), "todos": {"find": "search"}}
    assert read_names(services) == {
        "blogs_a_b_find": ("blogs/:blog/a.b", "find"),
        "get": ("", "get"),
        "search": ("todos", "find"),
    }


@pytest.mark.parametrize(
    ("services", "error", "message"),
    [
        (["todos"], TypeError, "methods by service"),
        ({"todos": "find"}, TypeError, "in a list, not as 'find'"),
        ({}, ValueError, "has no tools"),
        ({"t" * 62: ["get"]}, ValueError, "has 1 to 64 letters"),
        ({"todos": {"find": "a.b"}}, ValueError, "cannot be called 'a.b'"),
        ({"todos": {"find": None}}, ValueError, "cannot be called None"),
        ({"a/b": ["get"], "a_b": ["get"]}, ValueError, "for 'a/b' and 'a_b'"),
    ],
)
def test_a_name_that_is_not_valid_is_refused(services, error, message):
    with pytest.raises(error, match=message):
        read_names(services)


def test_only_what_clients_can_call_is_offered():
    app = App().use("todos", MemoryService(), methods=["find"])
    with pytest.raises(ValueError, match="'notes', which is not registered; there are 'todos'"):
        tools_of(app, {"notes": ["find"]})
    with pytest.raises(ValueError, match="clients cannot call; they can call find"):
        tools_of(app, {"todos": ["remove"]})


def test_uploads_are_no_tools(tmp_path):
    app = App().use("files", UploadService(LocalFileStore(tmp_path), MemoryService()))
    assert "files_find" in tools_of(app, {"files": ["find"]})
    with pytest.raises(ValueError, match="tools cannot send files"):
        tools_of(app, {"files": ["create"]})


# -- what agents see -------------------------------------------------------------------------------


def shown(tool):
    schema = tool.description.input_schema
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    return schema["properties"], schema["required"]


def test_an_adapter_is_described_by_the_model_of_its_records(todos):
    sentences = {name: tool.description.description for name, tool in todos.items()}
    assert sentences == {
        "find": "Find records of Todo.",
        "get": "Get one record of Todo by its id.",
        "create": "Create a record of Todo.",
        "update": "Replace a record of Todo by its id.",
        "patch": "Change properties of a record of Todo by its id.",
        "remove": "Remove a record of Todo by its id.",
    }
    hints = {name: tool.description.annotations.read_only_hint for name, tool in todos.items()}
    assert [name for name, hint in hints.items() if hint] == ["find", "get"]
    assert todos["find"].description.output_schema is None


def test_arguments_of_an_adapter(todos):
    properties, required = shown(todos["find"])
    words = properties["query"]["description"]
    assert words.startswith("Fields: id: integer; text: string; done: boolean.")
    assert required == []
    text = {"minLength": 1, "type": "string"}
    data = {"type": "object", "properties": {"id": {"type": "integer"}, "text": text}}
    done = {"type": "boolean"}
    properties, required = shown(todos["create"])
    data["properties"]["done"] = {**done, "default": False}
    assert (properties, required) == ({"data": {**data, "required": ["text"]}}, ["data"])
    properties, required = shown(todos["patch"])
    data["properties"]["done"] = done
    assert properties == {"id": {"type": "integer"}, "data": data}
    assert required == ["id", "data"]
    properties, required = shown(todos["get"])
    assert (list(properties), required) == (["id", "query"], ["id"])
    assert properties["query"]["description"].startswith('{"$select": ["id"]}')
    assert list(shown(todos["remove"])[0]) == ["id"]


def test_a_tool_of_a_large_model_is_short():
    """The grammar of queries has 17 KB for 20 fields, and each request to a model has all tools."""
    model = create_model("Thing", id=(int, ...), **{f"field_{at}": (str, ...) for at in range(19)})
    app = App().use("things", with_schema(MemoryService(), model))
    (tool,) = tools_of(app, {"things": ["find"]}).values()
    assert len(tool.description.model_dump_json(by_alias=True, exclude_none=True)) < 1_000


def test_an_adapter_without_a_schema():
    app = App().use("todos", MemoryService())
    tools = tools_of(app, {"todos": ["find", "get", "patch"]})
    assert tools["todos_find"].description.description == "Find records of todos."
    assert shown(tools["todos_get"])[0]["id"] == {"type": "string"}
    assert shown(tools["todos_patch"])[0]["data"] == {"type": "object"}
    assert shown(tools["todos_find"])[0]["query"]["description"].startswith("Conditions")
    assert tools["todos_find"].read({}).query == {"$limit": 20}


def test_what_methods_of_a_service_declare(own):
    assert own["get"].description.description == "Return a note."
    assert own["put"].description.description == "Call put of blogs/:blog/notes."
    text = {"type": "string"}
    note = {"type": "object", "properties": {"text": text}, "required": ["text"]}
    blog = {"blog": text}
    assert {name: shown(tool) for name, tool in own.items()} == {
        "find": ({**blog, "query": {"type": "object"}}, ["blog"]),
        "get": (
            {**blog, "id": {"type": "integer"}, "lang": {**text, "default": "en"}},
            ["blog", "id"],
        ),
        "remove": (blog, ["blog"]),
        "patch": ({**blog, "id": text, "data": {"type": "object"}}, ["blog", "id", "data"]),
        "create": ({**blog, "data": {"type": "array", "items": note}}, ["blog", "data"]),
        "add": ({**blog, "data": {"type": "object"}}, ["blog"]),
        "put": (
            {"blog": {"type": "integer"}, "data": note, "tag": {**text, "maxLength": 9}},
            ["blog", "data", "tag"],
        ),
        "clear": (
            {
                **blog,
                "query": {
                    "type": "object",
                    "properties": {"tag": text},
                    "required": ["tag"],
                },
            },
            ["blog", "query"],
        ),
    }


def test_a_docstring_of_an_own_method_of_an_adapter_counts():
    class Todos(MemoryService):
        async def find(self, params):
            """Search the todos."""
            return await super().find(params)

    tools = tools_of(App().use("todos", Todos()), {"todos": ["find"]})
    assert tools["todos_find"].description.description == "Search the todos."


def test_a_service_of_another_application_is_described_by_its_own_docstrings():
    inner = App().use("notes", Own(), methods=["get"])
    app = App().use("notes", inner.service("notes"))
    (tool,) = tools_of(app, {"notes": ["get"]}).values()
    assert tool.description.description == "Return a note."


def test_a_property_of_any_type_stays_in_a_patch():
    schema = {"$id": "Note", "type": "object", "properties": {"any": True, "at": {"default": 1}}}

    class Notes:
        async def patch(self, id, data, params):
            return data

    app = App().use("notes", Notes())
    app.service("notes").hooks(before=[validate_data(Validator(schema))])
    (tool,) = tools_of(app, {"notes": ["patch"]}).values()
    assert shown(tool)[0]["data"]["properties"] == {"any": True, "at": {}}


def test_a_placeholder_keeps_its_name():
    app = App().use("users/:id/todos", MemoryService())
    tools = tools_of(app, {"users/:id/todos": ["get"]})
    tool = tools["users_todos_get"]
    assert list(shown(tool)[0]) == ["id", "id_", "query"]
    assert tool.read({"id": "7", "id_": 3})[0] == 3


# -- what they send --------------------------------------------------------------------------------


def test_arguments_become_those_of_a_call(own, todos):
    assert own["get"].read({"blog": 7, "id": 1, "lang": "de"}) == (
        1,
        None,
        {"lang": "de"},
        {"blog": "7"},
    )
    assert own["get"].read({"blog": "7", "id": 1}).query == {}
    assert own["find"].read({"blog": "7"}).query == {}
    assert own["add"].read({"blog": "7"}).data == {}
    assert own["create"].read({"blog": "7", "data": [{"text": "a"}]}).data == [{"text": "a"}]
    assert own["clear"].read({"blog": "7", "query": {"tag": "a"}}).query == {"tag": "a"}
    assert own["remove"].read({"blog": "7"}).id is None
    assert todos["find"].read({"query": {"done": False}}).query == {"$limit": 20, "done": False}
    assert todos["find"].read({"query": {"$limit": 3}}).query == {"$limit": 3}
    assert todos["get"].read({"id": 1}).query == {}


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("find", {"q": {}}, "unknown argument 'q'; this tool takes query"),
        ("find", {"query": []}, "A query has to be an object"),
        ("patch", {"data": {}}, "missing: id"),
        ("get", {"id": None}, "'id' has to be a string or a number"),
        ("get", {"id": True}, "'id' has to be a string or a number"),
        ("get", {"id": ""}, "'id' has to be a string or a number"),
        ("create", {"data": [{"text": "a"}]}, "one record at a time"),
    ],
)
def test_wrong_arguments_are_explained(todos, method, arguments, message):
    with pytest.raises(BadRequest, match=message):
        todos[method].read(arguments)


def test_a_tool_without_arguments_says_so():
    class Clock:
        async def now(self, data: None, params):
            return None

    tools = tools_of(App().use("clock", Clock(), methods=["now"]), {"clock": ["now"]})
    with pytest.raises(BadRequest, match="this tool takes no arguments"):
        tools["clock_now"].read({"zone": "UTC"})


# -- kept until something changes ------------------------------------------------------------------


async def test_descriptions_are_kept_until_services_or_hooks_change():
    app = App().use("todos", MemoryService()).use("notes", MemoryService())
    toolbox = Toolbox(app, read_names({"todos": ["find"], "notes": ["find"]}))
    first = toolbox.tools()
    assert toolbox.tools() is first
    assert first["todos_find"].description is first["todos_find"].description
    app.service("todos").hooks(before=[lambda context: None])
    assert toolbox.tools() is not first
    await app.unuse("notes")
    assert list(toolbox.tools()) == ["todos_find"]
    app.use("notes", MemoryService(), methods=["get"])
    assert list(toolbox.tools()) == ["todos_find"]
