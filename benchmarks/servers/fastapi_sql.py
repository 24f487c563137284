"""FastAPI with SQLAlchemy's ORM, as its tutorial has it with SQLModel."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from benchmarks.servers.sql_model import Record, session_of

app = FastAPI()


class New(BaseModel):
    model_config = ConfigDict(from_attributes=True, populate_by_name=True)

    text: str
    room: str
    read: bool
    created_at: int = Field(alias="createdAt")


class Stored(New):
    id: int


class Changes(BaseModel):
    text: str | None = None


class Page(BaseModel):
    total: int
    limit: int
    skip: int
    data: list[Stored]


async def open_session() -> AsyncIterator[AsyncSession]:
    async with session_of() as session:
        yield session


Session = Annotated[AsyncSession, Depends(open_session)]


@app.get("/records")
async def find(
    session: Session,
    room: str,
    sort: Annotated[int, Query(alias="$sort[createdAt]")],
    limit: Annotated[int, Query(alias="$limit", le=50)] = 10,
    skip: Annotated[int, Query(alias="$skip")] = 0,
) -> Page:
    matching = Record.room == room
    total = await session.scalar(select(func.count()).select_from(Record).where(matching))
    order = Record.created_at.asc() if sort == 1 else Record.created_at.desc()
    page = select(Record).where(matching).order_by(order).limit(limit).offset(skip)
    data = [Stored.model_validate(record) for record in await session.scalars(page)]
    return Page(total=total or 0, limit=limit, skip=skip, data=data)


@app.get("/records/{key}")
async def get(session: Session, key: int) -> Stored:
    record = await session.get(Record, key)
    if record is None:
        raise HTTPException(404)
    return Stored.model_validate(record)


@app.post("/records", status_code=201)
async def create(session: Session, new: New) -> Stored:
    record = Record(**new.model_dump())
    session.add(record)
    await session.commit()
    return Stored.model_validate(record)


@app.patch("/records/{key}")
async def patch(session: Session, key: int, changes: Changes) -> Stored:
    record = await session.get(Record, key)
    if record is None:
        raise HTTPException(404)
    for name, value in changes.model_dump(exclude_unset=True).items():
        setattr(record, name, value)
    await session.commit()
    return Stored.model_validate(record)
