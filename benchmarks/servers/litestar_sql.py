"""Litestar with Advanced Alchemy's repositories, as their tutorial has it."""

from typing import Annotated, Any

from advanced_alchemy.extensions.litestar import (
    AsyncSessionConfig,
    SQLAlchemyAsyncConfig,
    SQLAlchemyPlugin,
)
from advanced_alchemy.filters import LimitOffset, OrderBy
from advanced_alchemy.repository import SQLAlchemyAsyncRepository
from litestar import Litestar, get, patch, post
from litestar.di import Provide
from litestar.params import Parameter
from sqlalchemy.ext.asyncio import AsyncSession

from benchmarks.servers.sql_model import Record, engine


class Records(SQLAlchemyAsyncRepository[Record]):
    model_type = Record


async def provide_records(db_session: AsyncSession) -> Records:
    return Records(session=db_session)


def out(record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "text": record.text,
        "room": record.room,
        "read": record.read,
        "createdAt": record.created_at,
    }


@get("/records")
async def find(
    records: Records,
    room: str,
    sort: Annotated[int, Parameter(query="$sort[createdAt]")],
    limit: Annotated[int, Parameter(query="$limit", le=50)] = 10,
    skip: Annotated[int, Parameter(query="$skip")] = 0,
) -> dict[str, Any]:
    order = OrderBy("created_at", "asc" if sort == 1 else "desc")
    page, total = await records.list_and_count(LimitOffset(limit, skip), order, room=room)
    return {"total": total, "limit": limit, "skip": skip, "data": [*map(out, page)]}


@get("/records/{key:int}")
async def get_record(records: Records, key: int) -> dict[str, Any]:
    return out(await records.get(key))


@post("/records")
async def create(records: Records, data: dict[str, Any]) -> dict[str, Any]:
    data["created_at"] = data.pop("createdAt")
    return out(await records.add(Record(**data), auto_commit=True))


@patch("/records/{key:int}")
async def patch_record(records: Records, key: int, data: dict[str, Any]) -> dict[str, Any]:
    return out(await records.update(Record(id=key, **data), auto_commit=True))


config = SQLAlchemyAsyncConfig(
    engine_instance=engine, session_config=AsyncSessionConfig(expire_on_commit=False)
)
app = Litestar(
    [find, get_record, create, patch_record],
    dependencies={"records": Provide(provide_records)},
    plugins=[SQLAlchemyPlugin(config=config)],
    openapi_config=None,
)
