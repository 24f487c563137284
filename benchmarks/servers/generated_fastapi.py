"""What a FastAPI developer writes for signed-in users and their messages, by the tutorials.

The ORM of SQLAlchemy with asyncpg, JSON web tokens, the user read for each request, pages with a
total. ``python -m benchmarks.servers.generated_fastapi`` makes the tables.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import jwt
from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError
from fastapi import Depends, FastAPI, HTTPException, Query
from fastapi.security import OAuth2PasswordBearer
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import DateTime, ForeignKey, func, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

SECRET = os.environ["BENCH_SECRET"]
ALGORITHM = "HS256"
engine = create_async_engine(
    os.environ["BENCH_SQL"].replace("postgresql://", "postgresql+asyncpg://"), pool_size=10
)
session_of = async_sessionmaker(engine, expire_on_commit=False)
hasher = PasswordHasher()
token_of = OAuth2PasswordBearer(tokenUrl="authentication")
app = FastAPI()


class Base(DeclarativeBase):
    pass


class User(Base):
    __tablename__ = "users"

    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str] = mapped_column(unique=True)
    password: Mapped[str]


class Message(Base):
    __tablename__ = "messages"

    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), index=True)


class Credentials(BaseModel):
    email: str = Field(pattern=r"^[^@\s]+@[^@\s]+$")
    password: str = Field(min_length=8)


class NewMessage(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, max_length=2000)


class ShownMessage(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: int
    text: str
    created_at: datetime
    user_id: int


class Page(BaseModel):
    total: int
    limit: int
    skip: int
    data: list[ShownMessage]


async def open_session() -> AsyncIterator[AsyncSession]:
    async with session_of() as session:
        yield session


Session = Annotated[AsyncSession, Depends(open_session)]


async def current_user(session: Session, token: Annotated[str, Depends(token_of)]) -> User:
    try:
        claims = jwt.decode(token, SECRET, algorithms=[ALGORITHM])
    except jwt.PyJWTError:
        raise HTTPException(401) from None
    user = await session.get(User, int(claims["sub"]))
    if user is None:
        raise HTTPException(401)
    return user


SignedIn = Annotated[User, Depends(current_user)]


@app.post("/users", status_code=201)
async def register(credentials: Credentials, session: Session) -> dict[str, Any]:
    user = User(email=credentials.email, password=hasher.hash(credentials.password))
    session.add(user)
    await session.commit()
    return {"id": user.id, "email": user.email}


@app.post("/authentication", status_code=201)
async def sign_in(credentials: Credentials, session: Session) -> dict[str, str]:
    user = await session.scalar(select(User).where(User.email == credentials.email))
    try:
        hasher.verify(user.password if user else "", credentials.password)
    except VerifyMismatchError:
        user = None
    if user is None:
        raise HTTPException(401)
    claims = {"sub": str(user.id), "exp": datetime.now(UTC) + timedelta(days=1)}
    return {"accessToken": jwt.encode(claims, SECRET, ALGORITHM)}


@app.get("/messages")
async def find(
    session: Session,
    user: SignedIn,
    limit: Annotated[int, Query(alias="$limit", le=100)] = 10,
    skip: Annotated[int, Query(alias="$skip")] = 0,
) -> Page:
    total = await session.scalar(select(func.count()).select_from(Message))
    page = select(Message).order_by(Message.id).limit(limit).offset(skip)
    data = [ShownMessage.model_validate(message) for message in await session.scalars(page)]
    return Page(total=total or 0, limit=limit, skip=skip, data=data)


@app.get("/messages/{message_id}", response_model=ShownMessage)
async def get(message_id: int, session: Session, user: SignedIn) -> Message:
    message = await session.get(Message, message_id)
    if message is None:
        raise HTTPException(404)
    return message


@app.post("/messages", status_code=201, response_model=ShownMessage)
async def create(new: NewMessage, session: Session, user: SignedIn) -> Message:
    message = Message(text=new.text, created_at=datetime.now(UTC), user_id=user.id)
    session.add(message)
    await session.commit()
    return message


@app.patch("/messages/{message_id}", response_model=ShownMessage)
async def patch(message_id: int, new: NewMessage, session: Session, user: SignedIn) -> Message:
    message = await session.get(Message, message_id)
    if message is None or message.user_id != user.id:
        raise HTTPException(404)
    message.text = new.text
    await session.commit()
    return message


async def create_tables() -> None:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)


if __name__ == "__main__":
    asyncio.run(create_tables())
