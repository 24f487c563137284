"""72 mistakes of beginners, as they write them, and who tells them first.

Each snippet continues `START`: an application with the service ``todos``. `test_beginner_list` runs
them, and shows to a type checker what only that can tell.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["MISTAKES", "START", "Mistake"]

START = """\
from __future__ import annotations

import time
from typing import Any

from pydantic import BaseModel, SecretStr

from alula import App, HookContext, Params, disallow
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.adapters.relations import belongs_to
from alula.adapters.sql import Database, SQLService
from alula.authentication import AuthenticationService, authenticate, hash_password, password_hash
from alula.client import create_client
from alula.client import rest as rest_client
from alula.common_hooks import (
    allow, cache, iff, is_external, only_own, populate, prevent_changes, set_owner, soft_delete,
    stash_before, timestamps, validate,
)
from alula.configuration import load_settings
from alula.express import cors, error_handler, express, json, not_found, rest, serve_static
from alula.realtime import socketio
from alula.schema import resolve, validate_data, virtual, with_schema

SECRET = "of thirty-two characters or more"


class Todo(BaseModel):
    text: str
    done: bool = False


class Todos:
    async def find(self, params: Params) -> list[Any]:
        return []


app = express(App())
app.use(json())
app.configure(rest())
app.use("todos", MemoryService(multi=True))
todos = app.service("todos")
"""


class Mistake(NamedTuple):
    """A mistake.

    Attributes:
        name: What is wrong.
        told: By whom: the type checker in an editor, the application at its start (an error, or a
            warning in the log), or the first call.
        message: A pattern of what it says.
        code: The snippet. For ``call``, its function ``use`` makes the call.
    """

    name: str
    told: Literal["editor", "start", "call"]
    message: str
    code: str


def _of(told: Literal["editor", "start", "call"], text: str) -> list[Mistake]:
    """Return the mistakes of a text: name, message and code, and a line of dashes between them."""
    mistakes = []
    for part in text.strip().split("\n---\n"):
        name, message, code = part.split("\n", 2)
        mistakes.append(Mistake(name, told, message, code))
    return mistakes


_SERVICES = r"""
the class of a service
use an instance: Todos\(\)
app.use("x", Todos)
---
service and path swapped
takes a path first|use\(path, service\)
app.use(Todos(), "x")
---
a path that is taken
something at the path 'todos' already
app.use("todos", Todos())
---
find without params
define it as `async def find\(self, params\)`
class Broken:
    async def find(self):
        return []

app.use("x", Broken())
---
a method that yields
yields; make it `async def` to stream
class Broken:
    def find(self, params):
        yield {}

app.use("x", Broken())
---
methods as a string
give a list: \['find'\]
app.use("x", Todos(), methods="find")
---
a method that the service does not have
lists the method `archive`, but Todos has none
app.use("x", Todos(), methods=["archive"])
---
options as a mapping
options are keywords
app.use("x", Todos(), {"methods": ["find"]})
---
FastAPI's placeholder
written :name
app.use("users/{user}/todos", Todos())
---
a misspelt service
did you mean 'todos'
app.service("todo")
---
a service as an attribute
the service is at app.service\('todos'\)
app.todos
"""

_WEB = r"""
run without express
app = express\(App\(\)\)
App().run(3030)
---
the class App
write express\(App\(\)\)
express(App)
---
no rest()
write app.configure\(rest
app = express(App()).use("x", Todos())
---
json without brackets
write app\.use\(json\(\)\), with brackets
app.use(json)
---
rest by use
app\.configure\(rest\(\)\)
app.use(rest())
---
json by configure
app.use\(
app.configure(json())
---
rest twice
rest\(\) is configured already
app.configure(rest())
---
middleware without next
middleware takes \(req, res, next\)
app.use(lambda req: None)
---
a route without a slash
neither a route nor a setting
app.get("hello", lambda req, res: res.send("Hello"))
---
a route as a decorator
not as a decorator
@app.get("/hello")
def hello(req, res):
    res.send("Hello")
---
a handler without arguments
a handler \(req, res\)
app.get("/hello", lambda: "Hello")
---
an origin with a slash
is not an origin as browsers send it
app.use(cors(origins=["http://localhost:3000/"]))
---
cookies for all origins
would let every page on the web act for your users
app.use(cors(origins="*", credentials=True))
---
a folder that does not exist
there is no folder
app.use(serve_static("no/such/folder"))
---
a port as text
not a string: 3030
app.run("3030")
"""

_HOOKS = r"""
a misspelt method of hooks
there is no such method; it has find, get, create
todos.hooks(before={"craete": [lambda context: None]})
---
methods in place of types
use around, before, after, error
todos.hooks({"create": [lambda context: None]})
---
an around hook without next
expected a function of \(context, next\)
todos.hooks(around=[lambda context: None])
---
a hook that was called
expected a function of \(context\)
def check(context):
    pass

todos.hooks(before=[check(None)])
---
authenticate without brackets
write authenticate\("jwt"\)
todos.hooks(around=[authenticate])
---
authenticate without a strategy
needs at least one strategy
todos.hooks(around=[authenticate()])
---
a misspelt strategy of a hook
authenticate\('jtw'\) of service 'todos': no strategy is registered as 'jtw'
app.use("users", MemoryService())
app.use("authentication", AuthenticationService(app, secret=SECRET))
todos.hooks(around=[authenticate("jtw")])
---
set_owner before authenticate
set_owner of service 'todos' would run before `authenticate`
todos.hooks(around=[set_owner("userId"), authenticate("jwt")])
---
roles before authenticate
allow of service 'todos' would run before `authenticate` for `remove`
todos.hooks(before={"remove": [allow("admin"), authenticate("jwt")]})
---
only_own for create
would have no effect for `create`
todos.hooks(before={"create": [only_own("userId")]})
---
a check of data for find
would have no effect for `find`
todos.hooks(before={"find": [validate_data(Todo)]})
---
a hash of what find returns
would have no effect for `find`
todos.hooks(before={"find": [hash_password("password")]})
---
timestamps behind the method
register it as before or around hook
todos.hooks(after=[timestamps()])
---
a time in place of a function
give a function that returns the time
todos.hooks(before=[timestamps(now=time.time())])
---
populate after create
would have no effect for `create`
todos.hooks(after={"create": [populate({"user": belongs_to("users", "userId")})]})
---
a misspelt provider
did you mean 'external'
todos.hooks(before=[disallow("externl")])
---
a condition that is a value
True is not a function of \(context\)
todos.hooks(before=[iff(True, lambda context: None)])
"""

_DATA = r"""
the class of an adapter
takes a service, such as MemoryService\(\)
with_schema(MemoryService, Todo)
---
a resolver for a misspelt property
did you mean 'text'
with_schema(MemoryService(), Todo, data=resolve({"txt": lambda value: value}))
---
a mapping in place of resolve
takes what resolve\(\{...\}\) returns
with_schema(MemoryService(), Todo, data={"text": str.strip})
---
a misspelt keyword of JSON Schema
did you mean 'minLength'
with_schema(MemoryService(), {"properties": {"text": {"type": "string", "minLenght": 3}}})
---
a required property that is misspelt
'txt' is required, but is not among the properties: id, text
with_schema(MemoryService(), {"properties": {"text": {}}, "required": ["txt"]})
---
a misspelt hidden property
did you mean 'text'
with_schema(MemoryService(), Todo, hidden=["txt"])
---
a misspelt option of pages
it may have default, max
MemoryService(paginate={"defualt": 10})
---
a misspelt operator
records in memory can be tested for
MemoryService(operators=["$regx"])
---
a relation to a misspelt service
no service at 'todo'; did you mean 'todos'
app.use("x", MemoryService(relations={"todo": belongs_to("todo", "todoId")}))
---
a file in place of the address of a database
use "postgresql:
Database("todos.sqlite")
---
the name of a collection
the model of a MongoDBService is a string
app.use("x", MongoDBService("todos"))
"""

_SIGN_IN_AND_EVENTS = r"""
a short secret
HS256 needs 32
app.use("users", MemoryService())
app.use("authentication", AuthenticationService(app, secret="secret"))
---
no service for users
there is no service at 'users'
app.use("authentication", AuthenticationService(app, secret=SECRET))
---
a misspelt event
did you mean 'created'
todos.on("craeted", lambda data, context: None)
---
a listener of one argument
listeners are called with \(data, context\)
todos.on("created", lambda data: None)
---
a misspelt event of a publisher
did you mean 'created'
app.publish("crated", lambda data, context: None)
---
socketio without brackets
write app.configure\(socketio\(\)\)
app.configure(socketio)
---
no publisher
no service has a publisher
app.configure(socketio())
---
an instance of the settings
the class itself
load_settings(Todo(text=""), ".")
"""

_EDITOR = r"""
a call that is not awaited
must be used|unused-coroutine
async def use() -> None:
    todos.create({"text": "Hello"})
---
a misspelt keyword of a call
Unexpected keyword argument "qurey"
async def use() -> None:
    await todos.find(qurey={"done": True})
---
a misspelt attribute of the context
has no attribute "dta"
def check(context: HookContext) -> None:
    print(context.dta)
"""

_CALL = r"""
conditions in place of params
query=\{'done': ...\}
async def use():
    await todos.find({"done": True})
---
a misspelt method
has no method `creat`; it has find
async def use():
    await todos.creat({"text": "Hello"})
---
a record in place of an id
id is a single value
async def use():
    await todos.get({"id": 1})
---
a misspelt operator of a query
\$gth
async def use():
    await todos.find(query={"age": {"$gth": 5}})
---
data that a hook returns
context.data = ...
todos.hooks(before=[lambda context: {**context.data, "done": False}])

async def use():
    await todos.create({"text": "Hello"})
---
a record that is a model
not a value Todo; write .model_dump\(\)
async def use():
    await todos.create(Todo(text="Hello"))
---
a misspelt property of params
qurey
todos.hooks(before=[lambda context: print(context.params.qurey)])

async def use():
    await todos.find()
"""

MISTAKES = [
    *_of("start", _SERVICES),
    *_of("start", _WEB),
    *_of("start", _HOOKS),
    *_of("start", _DATA),
    *_of("start", _SIGN_IN_AND_EVENTS),
    *_of("editor", _EDITOR),
    *_of("call", _CALL),
]
