"""Decimals are numbers of the database; whole numbers are ids that paths can name."""

from decimal import Decimal

import pytest
from bson import Decimal128
from bson.codec_options import CodecOptions, TypeRegistry
from pydantic import BaseModel, Field

from alula import App
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.errors import BadRequest, NotFound
from alula.schema import with_schema


class Product(BaseModel):
    price: Decimal
    prices: list[Decimal] = Field(default_factory=list)


@pytest.fixture(params=["memory", "mongodb"])
def products(request, collection):
    """A service of products, with the name of the store."""
    store = MemoryService() if request.param == "memory" else MongoDBService(collection)
    app = App().use("products", with_schema(store, Product))
    return app.service("products")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"price": {"$gt": "9.6"}}, ["10", "10.50"]),
        ({"price": {"$gt": 9.6}}, ["10", "10.50"]),
        ({"price": {"$lte": "10.0"}}, ["9.5", "10"]),
        ({"price": "10.5"}, ["10.50"]),
        ({"price": {"$ne": "10.5"}}, ["9.5", "10"]),
        ({"price": {"$in": ["10.5", "9.50"]}}, ["9.5", "10.50"]),
        ({"prices": "10.5"}, ["10.50"]),
        ({"$or": [{"price": "9.50"}, {"price": {"$nin": ["9.5", "10"]}}]}, ["9.5", "10.50"]),
    ],
)
async def test_decimals_are_compared_as_numbers(products, query, found):
    for price in ("10.50", "9.5", "10"):
        record = await products.create({"price": price, "prices": [price]})
        assert record["price"] == Decimal(price)
        assert type(record["price"]) is Decimal
    records = await products.find(query={**query, "$sort": {"price": 1}})
    assert [str(record["price"]) for record in records] == found


async def test_decimals_are_stored_read_and_changed(products):
    record = await products.create({"price": "1.10"})
    key = record.get("_id", record.get("id"))
    for price in ("2.20", Decimal("2.30")):
        assert (await products.patch(key, {"price": price}))["price"] == Decimal(price)
    assert (await products.update(key, {"price": 5}))["price"] == Decimal(5)
    read = await products.get(key)
    assert (type(read["price"]), read["price"]) == (Decimal, Decimal(5))


async def test_decimals_of_other_programs_and_those_with_too_many_digits(collection):
    await collection.insert_one({"_id": "a", "price": Decimal128("1.50")})
    service = MongoDBService(collection)
    record = await service.get("a")
    assert (type(record["price"]), str(record["price"])) == (Decimal, "1.50")
    assert (await collection.find_one({"_id": "a"}))["price"] == Decimal128("1.50")
    with pytest.raises(BadRequest, match="at most 34 digits"):
        await service.create({"price": Decimal("1" * 35)})


async def test_types_of_the_application_stay(collection):
    registry = TypeRegistry(fallback_encoder=str)
    own = collection.with_options(CodecOptions(type_registry=registry))
    service = MongoDBService(own)
    assert (await service.get_model()).codec_options.type_registry == registry
    record = await service.create({"price": Decimal("1.50")})
    assert record["price"] == "1.50"


@pytest.mark.parametrize("number", [5, -5, 0, 10**17])
async def test_whole_numbers_are_reached_by_path(service, number):
    store = service()
    await store.create({"_id": number, "name": "a"})
    text = str(number)
    assert (await store.get(text))["_id"] == number
    assert (await store.patch(text, {"name": "b"}))["name"] == "b"
    assert (await store.patch(text, {}))["name"] == "b"
    assert (await store.update(text, {"name": "c"})) == {"_id": number, "name": "c"}
    assert (await store.update(text, {"$set": {"name": "d"}}))["name"] == "d"
    assert (await store.remove(text))["name"] == "d"
    for method in (store.get, store.remove):
        with pytest.raises(NotFound):
            await method(text)


async def test_a_text_comes_before_a_number(service):
    store = service()
    await store.create([{"_id": 5, "name": "number"}, {"_id": "5", "name": "text"}],
                       {"adapter": {"multi": True}})  # fmt: skip
    assert (await store.get("5"))["name"] == "text"
    assert (await store.get(5))["name"] == "number"
    assert (await store.remove("5"))["name"] == "text"
    assert (await store.get("5"))["name"] == "number"


@pytest.mark.parametrize("text", ["05", "+5", "-0", "5.0", " 5", "5" * 30, "\u0665"])
async def test_texts_that_are_no_numbers(service, text):
    store = service()
    await store.create({"_id": 5})
    with pytest.raises(NotFound):
        await store.get(text)
