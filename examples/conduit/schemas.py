"""What clients send and get: each object is in an envelope with its name: ``{"user": {...}}``."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field


def _check_length(password: str) -> str:
    if len(password) < 8:
        raise ValueError("is too short (8 characters at least)")
    return password


Text = Annotated[str, Field(min_length=1, max_length=1_000)]
LongText = Annotated[str, Field(min_length=1, max_length=100_000)]
Password = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_check_length)]
Email = Annotated[str, Field(min_length=1, max_length=254)]
# An empty text deletes it, as null does.
Optional = Annotated[str | None, BeforeValidator(lambda value: value or None)]


class _NewUser(BaseModel):
    username: Text
    email: Email
    password: Password


class NewUser(BaseModel):
    """``POST /users``."""

    user: _NewUser


class _Login(BaseModel):
    email: Email
    password: Text


class Login(BaseModel):
    """``POST /users/login``."""

    user: _Login


class _UserChanges(BaseModel):
    # The defaults are never used: what is missing stays as it is. None would allow null.
    username: Text = ""
    email: Email = ""
    password: Password = ""
    bio: Optional = None
    image: Optional = None


class UserChanges(BaseModel):
    """``PUT /user``."""

    user: _UserChanges


class _NewArticle(BaseModel):
    title: Text
    description: Text
    body: LongText
    tagList: list[Text] = Field([], max_length=50)  # noqa: N815  # the name on the wire


class NewArticle(BaseModel):
    """``POST /articles``."""

    article: _NewArticle


class _ArticleChanges(BaseModel):
    title: Text = ""
    description: Text = ""
    body: LongText = ""
    tagList: list[Text] = Field([], max_length=50)  # noqa: N815  # the name on the wire


class ArticleChanges(BaseModel):
    """``PUT /articles/:slug``."""

    article: _ArticleChanges


class _NewComment(BaseModel):
    body: LongText


class NewComment(BaseModel):
    """``POST /articles/:slug/comments``."""

    comment: _NewComment


Limit = Annotated[int, Field(ge=1, le=100, description="How many articles at most.")]
Offset = Annotated[int, Field(ge=0, description="How many articles to skip.")]


class Account(BaseModel):
    """What users see of themselves."""

    email: str
    username: str
    bio: str | None
    image: str | None
    token: str


class OneAccount(BaseModel):
    user: Account


class Profile(BaseModel):
    """What everybody may see of a user."""

    username: str
    bio: str | None
    image: str | None
    following: bool


class OneProfile(BaseModel):
    profile: Profile


class ArticleSummary(BaseModel):
    """An article without its body."""

    slug: str
    title: str
    description: str
    tagList: list[str]  # noqa: N815  # the name on the wire
    createdAt: datetime  # noqa: N815  # as above
    updatedAt: datetime  # noqa: N815  # as above
    favorited: bool
    favoritesCount: int  # noqa: N815  # as above
    author: Profile


class Article(ArticleSummary):
    body: str


class OneArticle(BaseModel):
    article: Article


class ManyArticles(BaseModel):
    articles: list[ArticleSummary]
    articlesCount: int  # noqa: N815  # the name on the wire


class Comment(BaseModel):
    id: int
    body: str
    createdAt: datetime  # noqa: N815  # the name on the wire
    updatedAt: datetime  # noqa: N815  # as above
    author: Profile


class OneComment(BaseModel):
    comment: Comment


class ManyComments(BaseModel):
    comments: list[Comment]


class TagNames(BaseModel):
    tags: list[str]
