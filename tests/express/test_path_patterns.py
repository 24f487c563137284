"""Path patterns: what they cover, and what they read out of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.express._routing import Pattern


@pytest.mark.parametrize(
    ("pattern", "path", "params"),
    [
        ("/", "/", {}),
        ("/users", "/users", {}),
        ("/users", "/users/", {}),
        ("/users", "//users", {}),
        ("/a/b", "/a//b", {}),
        ("/users/:id/posts", "///users//5///posts//", {"id": "5"}),
        ("/users/:id", "///users/5", {"id": "5"}),
        ("users/", "/users", {}),
        ("/users/:id", "/users/5", {"id": "5"}),
        ("/users/:id", "/users/5/", {"id": "5"}),
        ("/users/:id/posts/:post", "/users/a/posts/b", {"id": "a", "post": "b"}),
        ("/users/:id", "/users/a%2Fb", {"id": "a/b"}),
        ("/users/:id", "/users/caf%C3%A9", {"id": "café"}),
        ("/users/:id", "/users/%FF", {"id": "%FF"}),
        ("/users/:id", "/users/:id", {"id": ":id"}),
        ("/café/:id", "/caf%C3%A9/1", {"id": "1"}),
        ("/a b", "/a%20b", {}),
        ("/files/*", "/files/a/b%20c.txt", {"*": "a/b c.txt"}),
        ("/files/*", "/files", {"*": ""}),
        ("/:kind/*", "/img/1/2", {"kind": "img", "*": "1/2"}),
        ("*", "/any/thing", {"*": "any/thing"}),
        ("/*", "/", {"*": ""}),
    ],
)
def test_a_route_covers_the_whole_path(pattern, path, params):
    found = Pattern(pattern, whole=True).match(path)
    assert found is not None
    assert found[0] == params


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/", "/users"),
        ("/users", "/"),
        ("/users", "/users/5"),
        ("/users", "/usersandmore"),
        ("/users", "/Users"),
        ("/users/:id", "/users"),
        ("/users/:id", "/users//"),
        ("/users/:id", "/users/5/posts"),
        ("/a/:id/b", "/a//b"),
        ("/a/b", "/a%2Fb"),
        ("/files/*", "/file"),
        ("/files", "/%66ile"),
    ],
)
def test_a_route_leaves_other_paths_alone(pattern, path):
    assert Pattern(pattern, whole=True).match(path) is None


@pytest.mark.parametrize(
    ("pattern", "path", "prefix", "params"),
    [
        ("/api", "/api", "/api", {}),
        ("/api", "/api/users/5", "/api", {}),
        ("/api/", "/api/users", "/api", {}),
        ("/api", "/api//users", "/api", {}),
        ("/api", "//api/users", "//api", {}),
        ("/api/admin", "/api//admin", "/api//admin", {}),
        ("/api/admin", "//%61pi///admin//5", "//%61pi///admin", {}),
        ("/api/:name", "/api//a/b", "/api//a", {"name": "a"}),
        ("/api/files/*", "/api//files//a", "/api//files", {"*": "/a"}),
        ("/:tenant", "///acme/users", "///acme", {"tenant": "acme"}),
        ("/*", "//a", "", {"*": "a"}),
        ("/:tenant", "/acme/users", "/acme", {"tenant": "acme"}),
        ("/:tenant/v1", "/a%20b/v1/users", "/a%20b/v1", {"tenant": "a b"}),
        ("/café", "/caf%C3%A9/x", "/caf%C3%A9", {}),
        ("/files/*", "/files/a/b", "/files", {"*": "a/b"}),
    ],
)
def test_a_mount_covers_a_prefix_as_it_was_sent(pattern, path, prefix, params):
    assert Pattern(pattern, whole=False).match(path) == (params, prefix)


@pytest.mark.parametrize("path", ["/", "//", "/apis", "/ap", "/v1/api", "/%61pis", "/a//pi"])
def test_a_mount_leaves_other_paths_alone(path):
    assert Pattern("/api", whole=False).match(path) is None


@pytest.mark.parametrize(
    "path",
    ["/a/*/b", "/a*", "/users/{id}", "/users/:id?", "/flights/:from-:to", "/items:batch", "/a(b)?",
     "/:", "/:1", "/**"],
)  # fmt: skip
def test_what_other_frameworks_write_is_refused_and_not_taken_literally(path):
    with pytest.raises(ValueError, match="a segment is text or a placeholder"):
        Pattern(path, whole=True)


@given(st.lists(st.text(st.characters(exclude_characters="/:*?(){}%", codec="ascii"), min_size=1)))
def test_a_plain_path_matches_itself_and_nothing_longer(segments):
    path = "/" + "/".join(segments)
    assert Pattern(path, whole=True).match(path) == ({}, path.rstrip("/"))
    assert Pattern(path, whole=True).match(f"{path.rstrip('/')}/more") is None
    assert Pattern(path, whole=False).match(f"{path.rstrip('/')}/more") == ({}, path.rstrip("/"))
