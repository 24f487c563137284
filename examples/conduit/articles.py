"""Articles with their tags, favorites and comments."""

import re
import secrets
from collections.abc import Iterable
from typing import Any

from examples.conduit import tables
from examples.conduit.errors import not_found
from examples.conduit.schemas import (
    Article,
    ArticleChanges,
    ArticleSummary,
    Comment,
    Limit,
    ManyArticles,
    ManyComments,
    NewArticle,
    NewComment,
    Offset,
    OneArticle,
    OneComment,
    Profile,
    TagNames,
)
from examples.conduit.users import profile_of
from sqlalchemy import ColumnElement, and_, select

from alula import App, Params, Record, answers
from alula.adapters.sql import Database, transaction
from alula.authentication import authenticate
from alula.common_hooks import utc_now
from alula.errors import Forbidden
from alula.express import ExpressApplication

Condition = ColumnElement[bool]


def slug_of(title: str) -> str:
    """Return a slug of its own for an article, even with a title that another one has."""
    words = re.sub(r"\W+", "-", title.lower()).strip("-")
    return f"{words[:100]}-{secrets.token_hex(4)}"


class _Articles:
    app: App

    async def setup(self, app: App, _: str) -> None:
        self.app = app

    async def find_article(self, slug: str, **params: Any) -> Record:
        found = await self.app.service("articles").find(query={"slug": slug, "$limit": 1}, **params)
        if not found["data"]:
            raise not_found("article")
        return found["data"][0]

    async def find_own(self, slug: str, params: Params) -> Record:
        article = await self.find_article(slug, sql=params.sql)
        if article["authorId"] != params.user["id"]:
            raise Forbidden(
                "Only its author may change an article", errors={"article": "forbidden"}
            )
        return article

    async def profiles(self, ids: Iterable[int], params: Params) -> dict[int, Profile]:
        """Return the profiles of authors by their ids."""
        wanted = {"$in": sorted({*ids})}
        followed: set[int] = set()
        if params.get("user") is not None:
            query = {"followerId": params.user["id"], "authorId": wanted}
            follows = await self.app.service("follows").find(query=query)
            followed = {follow["authorId"] for follow in follows}
        authors = await self.app.service("users").find(query={"id": wanted})
        return {
            author["id"]: profile_of(author, following=author["id"] in followed)
            for author in authors
        }

    async def views(self, articles: list[Record], params: Params) -> list[Record]:
        """Return articles as clients get them: with authors, and what the caller likes."""
        profiles = await self.profiles([article["authorId"] for article in articles], params)
        liked: set[int] = set()
        if params.get("user") is not None:
            ids = [article["id"] for article in articles]
            query = {"userId": params.user["id"], "articleId": {"$in": ids}}
            # In the transaction of the call, if there is one.
            favorites = await self.app.service("favorites").find(query=query, sql=params.sql)
            liked = {favorite["articleId"] for favorite in favorites}
        kept = ("slug", "title", "description", "body", "tagList", "createdAt", "updatedAt")
        return [
            {
                **{name: article[name] for name in kept if name in article},
                "favorited": article["id"] in liked,
                "favoritesCount": article["favoritesCount"],
                "author": profiles[article["authorId"]],
            }
            for article in articles
        ]

    async def one(self, article: Record, params: Params) -> OneArticle:
        [view] = await self.views([article], params)
        return OneArticle(article=Article(**view))

    async def page(
        self, where: Condition | None, limit: int, offset: int, params: Params
    ) -> ManyArticles:
        """Return the newest articles that meet a condition, without their bodies."""
        query = {"$sort": {"id": -1}, "$limit": limit, "$skip": offset}
        page = await self.app.service("articles").find(query=query, sql={"where": where})
        for article in page["data"]:
            del article["body"]
        shown = [ArticleSummary(**view) for view in await self.views(page["data"], params)]
        return ManyArticles(articles=shown, articlesCount=page["total"])


class Articles(_Articles):
    """``/articles`` and ``/articles/:slug``."""

    async def find(
        self,
        params: Params,
        *,
        author: str | None = None,
        tag: str | None = None,
        favorited: str | None = None,
        limit: Limit = 20,
        offset: Offset = 0,
    ) -> ManyArticles:
        """Return the articles of an author, with a tag, or that a user likes."""
        articles = tables.articles.c
        conditions: list[Condition] = []
        if author is not None:
            written = select(tables.users.c.id).where(tables.users.c.username == author)
            conditions.append(articles.authorId.in_(written))
        if tag is not None:
            tagged = select(tables.tags.c.articleId).where(tables.tags.c.name == tag)
            conditions.append(articles.id.in_(tagged))
        if favorited is not None:
            liked = (
                select(tables.favorites.c.articleId)
                .join(tables.users, tables.users.c.id == tables.favorites.c.userId)
                .where(tables.users.c.username == favorited)
            )
            conditions.append(articles.id.in_(liked))
        where = and_(*conditions) if conditions else None
        return await self.page(where, limit, offset, params)

    async def get(self, id: str, params: Params) -> OneArticle:
        """Return one article."""
        return await self.one(await self.find_article(id), params)

    async def create(self, data: NewArticle, params: Params) -> OneArticle:
        """Publish an article."""
        now = utc_now()
        new = {
            **data.article.model_dump(),
            "slug": slug_of(data.article.title),
            "authorId": params.user["id"],
            "createdAt": now,
            "updatedAt": now,
        }
        article = await self.app.service("articles").create(new, sql=params.sql)
        await self._tag(article, params)
        return await self.one(article, params)

    async def update(self, id: str, data: ArticleChanges, params: Params) -> OneArticle:
        """Change some properties of one's own article."""
        article = await self.find_own(id, params)
        changes = {**data.article.model_dump(exclude_unset=True), "updatedAt": utc_now()}
        if changes.get("title", article["title"]) != article["title"]:
            changes["slug"] = slug_of(changes["title"])
        changed = await self.app.service("articles").patch(article["id"], changes, sql=params.sql)
        if "tagList" in changes:
            query = {"articleId": article["id"]}
            await self.app.service("tags").remove(None, query=query, sql=params.sql)
            await self._tag(changed, params)
        return await self.one(changed, params)

    async def remove(self, id: str, params: Params) -> None:
        """Remove one's own article; comments and favorites go with it."""
        article = await self.find_own(id, params)
        await self.app.service("articles").remove(article["id"], sql=params.sql)

    async def _tag(self, article: Record, params: Params) -> None:
        rows = [{"articleId": article["id"], "name": name} for name in {*article["tagList"]}]
        if rows:
            await self.app.service("tags").create(rows, sql=params.sql)


class Feed(_Articles):
    """``/articles/feed``."""

    async def find(self, params: Params, *, limit: Limit = 20, offset: Offset = 0) -> ManyArticles:
        """Return the articles of the authors whom the caller follows."""
        follows = tables.follows.c
        followed = select(follows.authorId).where(follows.followerId == params.user["id"])
        where = tables.articles.c.authorId.in_(followed)
        return await self.page(where, limit, offset, params)


class Favorite(_Articles):
    """``/articles/:slug/favorite``."""

    @answers(200)
    async def create(self, _: None, params: Params, *, slug: str) -> OneArticle:
        """Like an article."""
        return await self._set(slug, params, liked=True)

    async def remove(self, _: None, params: Params, *, slug: str) -> OneArticle:
        """Like an article no longer."""
        return await self._set(slug, params, liked=False)

    async def _set(self, slug: str, params: Params, *, liked: bool) -> OneArticle:
        # The lock keeps another call from counting at the same time.
        locked = {**params.sql, "lock": "update"}
        article = await self.find_article(slug, sql=locked)
        favorites = self.app.service("favorites")
        favorite = {"articleId": article["id"], "userId": params.user["id"]}
        is_liked = bool(await favorites.find(query=favorite, sql=params.sql))
        if is_liked != liked:
            if liked:
                await favorites.create(favorite, sql=params.sql)
            else:
                await favorites.remove(None, query=favorite, sql=params.sql)
            more = {"$inc": {"favoritesCount": 1 if liked else -1}}
            article = await self.app.service("articles").patch(article["id"], more, sql=params.sql)
        return await self.one(article, params)


class Comments(_Articles):
    """``/articles/:slug/comments``."""

    async def find(self, params: Params, *, slug: str) -> ManyComments:
        """Return the comments on an article."""
        article = await self.find_article(slug)
        query = {"articleId": article["id"], "$sort": {"id": 1}}
        found = await self.app.service("comments").find(query=query)
        return ManyComments(comments=await self._views(found, params))

    async def create(self, data: NewComment, params: Params, *, slug: str) -> OneComment:
        """Comment on an article."""
        article = await self.find_article(slug)
        now = utc_now()
        new = {
            **data.comment.model_dump(),
            "articleId": article["id"],
            "authorId": params.user["id"],
            "createdAt": now,
            "updatedAt": now,
        }
        comment = await self.app.service("comments").create(new)
        return OneComment(comment=(await self._views([comment], params))[0])

    async def remove(self, id: int, params: Params, *, slug: str) -> None:
        """Remove one's own comment."""
        article = await self.find_article(slug)
        query = {"id": id, "articleId": article["id"]}
        found = await self.app.service("comments").find(query=query)
        if not found:
            raise not_found("comment")
        if found[0]["authorId"] != params.user["id"]:
            raise Forbidden("Only its author may", errors={"comment": "forbidden"})
        await self.app.service("comments").remove(found[0]["id"])

    async def _views(self, comments: list[Record], params: Params) -> list[Comment]:
        profiles = await self.profiles([comment["authorId"] for comment in comments], params)
        return [
            Comment(
                **{name: comment[name] for name in ("id", "body", "createdAt", "updatedAt")},
                author=profiles[comment["authorId"]],
            )
            for comment in comments
        ]


class Tags(_Articles):
    """``/tags``."""

    async def find(self, _: Params) -> TagNames:
        """Return the names of all tags."""
        found = await self.app.service("tags").find(query={"$select": ["name"]})
        return TagNames(tags=sorted({tag["name"] for tag in found}))


def add_articles(app: ExpressApplication, database: Database) -> None:
    """Register the services of articles."""
    signed_in, may_sign_in = authenticate("jwt"), authenticate("jwt", optional=True)
    together = transaction(database)

    app.use("api/articles/feed", Feed(), methods=["find"])
    app.service("api/articles/feed").hooks(around=[signed_in])
    app.use("api/articles", Articles(), methods=["find", "get", "create", "update", "remove"])
    app.service("api/articles").hooks(
        around={
            **{method: [may_sign_in] for method in ("find", "get")},
            **{method: [signed_in, together] for method in ("create", "update", "remove")},
        }
    )
    app.use("api/articles/:slug/favorite", Favorite(), methods=["create", "remove"])
    app.service("api/articles/:slug/favorite").hooks(around=[signed_in, together])
    app.use("api/articles/:slug/comments", Comments(), methods=["find", "create", "remove"])
    app.service("api/articles/:slug/comments").hooks(
        around={
            "find": [may_sign_in],
            "create": [signed_in],
            "remove": [signed_in],
        }
    )
    app.use("api/tags", Tags(), methods=["find"])
