"""Alula with checked queries; ALULA_SCHEMA says by what: "none", "model" or "schema".

Without a check the values of a query are the text that came in, so that service keeps text. All
three then find, sort and answer the same records. They are few, so that the check is seen.
"""

import asyncio
import os

from pydantic import BaseModel

from alula import App
from alula.adapters.memory import MemoryService
from alula.express import error_handler, express, json, not_found, rest, urlencoded
from alula.schema import query_syntax, validate_query

COUNT = 20


class Message(BaseModel):
    id: int
    text: str
    read: bool
    age: int
    createdAt: int  # noqa: N815  # the name on the wire


PROPERTIES = {
    "id": {"type": "integer"},
    "text": {"type": "string"},
    "read": {"type": "boolean"},
    "age": {"type": "integer"},
    "createdAt": {"type": "integer"},
}


def record(number: int, typed: bool) -> dict[str, object]:
    read, age = number % 2 == 0, 20 + number
    return {
        "text": f"message {number}",
        "read": read if typed else str(read).lower(),
        "age": age if typed else str(age),
        "createdAt": number * 7919 % COUNT,
    }


kind = os.environ.get("ALULA_SCHEMA", "none")
app = express(App())
app.use(json(), urlencoded())
app.configure(rest())
app.use("validated", MemoryService(multi=True, paginate={"default": 10, "max": 50}))
new = [record(number, kind != "none") for number in range(COUNT)]
asyncio.run(app.service("validated").create(new))
if kind != "none":
    described = Message if kind == "model" else PROPERTIES
    app.service("validated").hooks(around=[validate_query(query_syntax(described))])
app.use(not_found(), error_handler())
