"""The table of the benchmarks as SQLAlchemy's ORM has it, for the frameworks that use it."""

import os

from sqlalchemy import BigInteger
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    pass


class Record(Base):
    __tablename__ = "records"

    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str]
    room: Mapped[str]
    read: Mapped[bool]
    created_at: Mapped[int] = mapped_column("createdAt", BigInteger)


url = os.environ["BENCH_SQL"]
driver = "sqlite+aiosqlite" if url.startswith("sqlite") else "postgresql+asyncpg"
engine = create_async_engine(f"{driver}:{url.partition(':')[2]}", pool_size=10)
session_of = async_sessionmaker(engine, expire_on_commit=False)
