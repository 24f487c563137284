"""The tables. Their services are closed to clients, who use the interface of RealWorld."""

from sqlalchemy import (
    JSON,
    Column,
    DateTime,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()


def _to(column: str) -> ForeignKey:
    return ForeignKey(column, ondelete="CASCADE")


users = Table(
    "users",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("username", Text, nullable=False, unique=True),
    Column("email", Text, nullable=False, unique=True),
    Column("password", Text, nullable=False),
    Column("bio", Text),
    Column("image", Text),
)

follows = Table(
    "follows",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("follower_id", _to("users.id"), key="followerId", nullable=False),
    Column("author_id", _to("users.id"), key="authorId", nullable=False, index=True),
    UniqueConstraint("followerId", "authorId"),
)

articles = Table(
    "articles",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("slug", Text, nullable=False, unique=True),
    Column("title", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("tag_list", JSON, key="tagList", nullable=False),
    Column("favorites_count", Integer, key="favoritesCount", nullable=False, server_default="0"),
    Column("created_at", DateTime(timezone=True), key="createdAt", nullable=False),
    Column("updated_at", DateTime(timezone=True), key="updatedAt", nullable=False),
    Column("author_id", _to("users.id"), key="authorId", nullable=False, index=True),
)

# Each tag of each article once, to find the articles of a tag.
tags = Table(
    "tags",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("article_id", _to("articles.id"), key="articleId", nullable=False, index=True),
    Column("name", Text, nullable=False, index=True),
)

favorites = Table(
    "favorites",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("user_id", _to("users.id"), key="userId", nullable=False),
    Column("article_id", _to("articles.id"), key="articleId", nullable=False, index=True),
    UniqueConstraint("userId", "articleId"),
)

comments = Table(
    "comments",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("body", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), key="createdAt", nullable=False),
    Column("updated_at", DateTime(timezone=True), key="updatedAt", nullable=False),
    Column("article_id", _to("articles.id"), key="articleId", nullable=False, index=True),
    Column("author_id", _to("users.id"), key="authorId", nullable=False),
)
