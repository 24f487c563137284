"""A default of the id would be the id of all new records."""

from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from alula import App
from alula.adapters.memory import MemoryService
from alula.schema import SchemaError, with_schema


class Zero(BaseModel):
    id: int = 0


class Empty(BaseModel):
    key: Annotated[str, Field(alias="_id")] = ""


class Later(BaseModel):
    id: int | None = None
    name: str


class Made(BaseModel):
    id: str = Field(default_factory=lambda: "a")


@pytest.mark.parametrize(
    ("model", "id"),
    [(Zero, "id"), (Empty, "_id"), ({"properties": {"id": {"default": 5}}}, "id")],
)
def test_a_value_as_default_is_refused(model, id):
    with pytest.raises(SchemaError, match="so every new record would have this id"):
        with_schema(MemoryService(id=id), model)


@pytest.mark.parametrize(
    "model",
    [Later, Made, {"properties": {"id": True, "name": {}}}, {"properties": {"id": {}, "name": {}}}],
)
async def test_ids_that_are_made_later(model):
    app = App().use("notes", with_schema(MemoryService(start_id=7), model))
    record = await app.service("notes").create({"name": "Ada"} if model is not Made else {})
    assert record["id"] == ("a" if model is Made else 7)
