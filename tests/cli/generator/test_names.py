"""Names that become folders, modules, classes and paths."""

from __future__ import annotations

import pytest

from alula._cli.generator import names
from alula._cli.terminal import UsageError


@pytest.mark.parametrize("name", ["chat", "chat-rooms", "chat_rooms", "a1", "x" * names.MAX_LENGTH])
def test_good_names(name):
    assert names.check_application(name) == names.check_service(name) == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *[(name, "cannot be the name") for name in ("", "Chat", "1a", "a b", "a--b", "-a", "a-")],
        *[(name, "cannot be the name") for name in ("../chat", "/chat", "a/b", ".", "a.b", "é")],
        *[(name, "a keyword of Python") for name in ("class", "import", "match", "async")],
        ("x" * (names.MAX_LENGTH + 1), "too long"),
    ],
)
def test_bad_names(name, reason):
    for check in (names.check_application, names.check_service):
        with pytest.raises(UsageError, match=reason) as caught:
            check(name)
        assert repr(name) in str(caught.value)
    with pytest.raises(UsageError, match=reason):
        names.check_function("a hook", name)


@pytest.mark.parametrize(
    "name", ["alula", "pydantic", "typing-extensions", "typing_extensions", "fastapi", "pytest"]
)
def test_an_application_has_no_name_of_a_package_that_it_needs(name):
    with pytest.raises(UsageError, match=f"'{name}' is the name of a package"):
        names.check_application(name)
    assert names.check_service(name) == name


def test_services_is_not_a_service():
    assert names.check_application("services") == "services"
    with pytest.raises(UsageError, match="'services' is the folder"):
        names.check_service("services")


def test_built_in_names_are_refused():
    assert names.check_function("a hook", "check-quota") == "check_quota"
    with pytest.raises(UsageError, match="is a built-in name of Python"):
        names.check_function("a hook", "print")


@pytest.mark.parametrize(
    ("path", "found"),
    [("messages", "messages"), ("/api/v1/rooms/", "api/v1/rooms"), ("a/b/c.d", "a/b/c.d")],
)
def test_good_paths(path, found):
    assert names.check_path(path) == found


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        *[
            (path, "cannot be a path")
            for path in ("", "a//b", "a/:b", "../a", "a/..", "a b", 'a"', "a\n")
        ],
        *[(path, "the application itself uses") for path in ("docs", "/health")],
        ("a/" * 30 + "a", "too long"),
    ],
)
def test_bad_paths(path, reason):
    with pytest.raises(UsageError, match=reason):
        names.check_path(path)


@pytest.mark.parametrize(
    ("several", "one"),
    [
        ("messages", "message"),
        ("chat-rooms", "chat_room"),
        ("stories", "story"),
        ("boxes", "box"),
        ("matches", "match"),
        ("dishes", "dish"),
        ("classes", "class"),
        ("staff", "staff"),
        ("news", "new"),
        ("status", "status"),
        ("address", "address"),
        ("ties", "tie"),
    ],
)
def test_singular(several, one):
    assert names.singular(several) == one


def test_cases():
    assert names.class_name("chat_room") == "ChatRoom"
    assert names.class_name("field") == "FieldRecord"
    assert names.class_name("memory_service") == "MemoryServiceRecord"
    assert names.class_name("express_application") == "ExpressApplicationRecord"
    assert names.camel_case("due_date") == "dueDate"
    assert names.camel_case("text") == "text"
