"""Paths to services: plain paths, placeholders, encodings, and what it costs."""

import time
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula._routes import RouteTable, decode_segment, percent_decoded, strip_slashes


def table(*paths):
    """Return a table whose values are the paths themselves."""
    routes = RouteTable()
    for path in paths:
        routes.add(path, path)
    return routes


def test_plain_paths_are_found_by_their_very_text():
    routes = table("messages", "users/:id/messages", "")
    assert [routes.find_plain(path) for path in ("messages", "")] == ["messages", ""]
    for path in ("/messages", "messages/", "messages/5", "Messages", "users/:id/messages"):
        assert routes.find_plain(path) is None
    routes.remove("messages")
    assert routes.find_plain("messages") is None


@given(st.lists(st.sampled_from(["", "a", "a/b", "b", "a/:x/c", ":y"]), unique=True), st.data())
def test_slashes_at_the_ends_never_matter(paths, data):
    routes = table(*paths)
    segments = st.sampled_from(["", "a", "b", "c", "5", "%61", "%2F", ":x"])
    path = "/".join(data.draw(st.lists(segments, max_size=5)))
    inside = routes.find(path.strip("/"))
    for before in ("", "/", "//"):
        for behind in ("", "/", "//"):
            assert routes.find(f"{before}{path}{behind}") == inside
    for plain in paths:
        routes.remove(plain)
    assert routes.find(f"/{path}") is None


class TestPlainPaths:
    @pytest.mark.parametrize(
        ("path", "record"),
        [
            ("/messages", None),
            ("messages", None),
            ("/messages/", None),
            ("/messages//", None),
            ("//messages", None),
            ("/messages/5", "5"),
            ("//messages/5", "5"),
            ("/messages/5/", "5"),
            ("/messages/a.b.json", "a.b.json"),
            ("/messages/a+b", "a+b"),
            ("/messages/:id", ":id"),
            ("/messages/$in", "$in"),
            ("/messages/..", ".."),
        ],
    )
    def test_name_the_collection_or_a_record(self, path, record):
        assert table("messages").find(path) == ("messages", record, {})

    @pytest.mark.parametrize(
        "path",
        [
            "/",
            "",
            "/nope",
            "/nope/5",
            "/Messages",
            "/MESSAGES/5",
            "/messages//5",
            "/messages/5/6",
            "/message",
            "/messagess",
            "/messages5",
        ],
    )
    def test_lead_nowhere(self, path):
        assert table("messages").find(path) is None
        assert table("messages", "users/:id/posts").find(path) is None

    def test_with_several_segments(self):
        routes = table("deep/path/echo")
        assert routes.find("/deep/path/echo/1") == ("deep/path/echo", "1", {})
        assert routes.find("/deep/path") is None
        assert routes.find("/deep") is None

    def test_case_matters(self):
        assert table("Mixed/Case").find("/mixed/case") is None
        assert table("Mixed/Case").find("/Mixed/Case")[0] == "Mixed/Case"

    def test_slashes_at_the_ends_of_a_registered_path_do_not_matter(self):
        assert table("//messages/").find("/messages")[0] == "//messages/"

    def test_the_root_has_records_too(self):
        routes = table("/")
        assert routes.find("/") == ("/", None, {})
        assert routes.find("") == ("/", None, {})
        assert routes.find("/5") == ("/", "5", {})
        assert routes.find("/a%20b") == ("/", "a b", {})
        assert routes.find("/5/6") is None

    def test_a_service_wins_over_a_record_of_that_name(self):
        routes = table("users", "users/me")
        assert routes.find("/users/me") == ("users/me", None, {})
        assert routes.find("/users/me/5") == ("users/me", "5", {})
        assert routes.find("/users/you") == ("users", "you", {})

    @pytest.mark.parametrize("name", ["constructor", "__proto__", "toString", "__class__", "get"])
    def test_no_name_is_special(self, name):
        assert table("messages").find(f"/{name}") is None
        assert table("messages").find(f"/messages/{name}")[1] == name
        assert table(name).find(f"/{name}/{name}") == (name, name, {})
        assert table("users/:id/posts").find(f"/users/{name}/posts")[2] == {"id": name}


class TestPlaceholders:
    def test_take_the_value_of_their_segment(self):
        routes = table("users/:userId/messages")
        assert routes.find("/users/7/messages") == (
            "users/:userId/messages",
            None,
            {"userId": "7"},
        )
        assert routes.find("/users/7/messages/3")[1] == "3"
        assert routes.find("/users/7/messages/3")[2] == {"userId": "7"}

    def test_several_in_one_path(self):
        routes = table("orgs/:org/repos/:repo/issues")
        match = routes.find("/orgs/acme/repos/site/issues/12")
        assert match[1:] == ("12", {"org": "acme", "repo": "site"})
        assert routes.find("/orgs/acme/repos/site/issues/12/more") is None

    def test_never_take_nothing(self):
        routes = table("users/:userId/messages", ":anything/x")
        assert routes.find("/users//messages") is None
        assert routes.find("/users//messages/5") is None

    def test_stand_beside_the_plain_service_of_that_name(self):
        routes = table("users", "users/:userId/messages")
        assert routes.find("/users/7") == ("users", "7", {})
        assert routes.find("/users") == ("users", None, {})
        assert routes.find("/users/7/messages")[2] == {"userId": "7"}
        assert routes.find("/users/7/other") is None

    def test_two_names_at_one_place(self):
        routes = table("users/:id/posts", "users/:userId/messages")
        assert routes.find("/users/7/posts")[2] == {"id": "7"}
        assert routes.find("/users/7/messages")[2] == {"userId": "7"}

    def test_a_fixed_segment_wins_and_leads_back_where_it_leads_nowhere(self):
        routes = table("users/me/posts", "users/:id/posts", "users/:id/likes")
        assert routes.find("/users/me/posts") == ("users/me/posts", None, {})
        assert routes.find("/users/7/posts")[2] == {"id": "7"}
        assert routes.find("/users/me/likes")[2] == {"id": "me"}

    def test_a_whole_path_wins_over_a_record(self):
        routes = table("a/:x", "a/:x/b")
        assert routes.find("/a/1/b") == ("a/:x/b", None, {"x": "1"})
        assert routes.find("/a/1/c") == ("a/:x", "c", {"x": "1"})

    def test_at_the_beginning(self):
        routes = table(":tenant/messages")
        assert routes.find("/acme/messages/5") == (":tenant/messages", "5", {"tenant": "acme"})

    def test_one_alone(self):
        routes = table(":anything")
        assert routes.find("/x") == (":anything", None, {"anything": "x"})
        assert routes.find("/x/5") == (":anything", "5", {"anything": "x"})
        assert routes.find("/") is None


class TestEncodings:
    @pytest.mark.parametrize(
        ("sent", "record"),
        [
            ("a%20b", "a b"),
            ("a%2Fb", "a/b"),
            ("a%2fb", "a/b"),
            ("%C3%BC", "ü"),
            ("100%25", "100%"),
            ("a%3Fb%23c", "a?b#c"),
            ("a%00b", "a\x00b"),
            ("%2E%2E%2Fpeople", "../people"),
            ("ü", "ü"),
            # What can not be decoded stays as it was sent.
            ("%FF", "%FF"),
            ("%C3", "%C3"),
            ("%zz", "%zz"),
            ("100%", "100%"),
            ("%", "%"),
        ],
    )
    def test_ids_and_values_are_decoded_one_by_one(self, sent, record):
        routes = table("messages", "users/:id/posts")
        assert routes.find(f"/messages/{sent}") == ("messages", record, {})
        assert routes.find(f"/users/{sent}/posts")[2] == {"id": record}
        assert routes.find(f"/users/{sent}/posts/{sent}")[1] == record

    def test_an_encoded_slash_divides_nothing(self):
        routes = table("messages", "deep/path")
        assert routes.find("/messages%2F5") is None
        assert routes.find("/deep%2Fpath") is None

    def test_encoded_names_of_services(self):
        routes = table("größe", "deep path/x")
        assert routes.find("/gr%C3%B6%C3%9Fe/5") == ("größe", "5", {})
        assert routes.find("/gr%c3%b6%c3%9fe") == ("größe", None, {})
        assert routes.find("/deep%20path/x") == ("deep path/x", None, {})

    def test_lone_surrogates_stay_as_they_are(self):
        assert decode_segment("\udcff%41") == "\udcff%41"
        assert table("messages").find("/messages/\udcff%41")[1] == "\udcff%41"

    def test_strip_slashes(self):
        assert strip_slashes("//a//b//") == "a//b"
        assert strip_slashes("/") == ""


class TestRegistering:
    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ("messages", "messages"),
            ("messages", "/messages/"),
            ("users/:id/posts", "users/:id/posts"),
            ("users/:id/posts", "users/:userId/posts"),
            ("/", ""),
        ],
    )
    def test_two_of_one_shape_are_refused(self, first, second):
        routes = table(first)
        with pytest.raises(ValueError, match="there is something at the path"):
            routes.add(second, "other")
        assert routes.find(first.replace(":id", "1"))[0] == first

    @pytest.mark.parametrize("path", [":", "users/:", "users/:/posts"])
    def test_a_placeholder_needs_a_name(self, path):
        with pytest.raises(ValueError, match="a placeholder without a name"):
            table(path)

    def test_placeholders_need_different_names(self):
        with pytest.raises(ValueError, match="two placeholders of one name"):
            table("users/:id/posts/:id")

    def test_what_is_refused_leaves_nothing(self):
        routes = RouteTable()
        with pytest.raises(ValueError, match="placeholder"):
            routes.add("users/:/posts", 1)
        assert routes.find("/users") is None
        assert routes.find("/users/5/posts") is None


class TestRemoving:
    @pytest.mark.parametrize("path", ["messages", "deep/path", "users/:id/posts", "/", ":x"])
    def test_what_was_removed_is_gone_and_can_come_back(self, path):
        routes = table(path)
        request = path.replace(":id", "7").replace(":x", "7")
        assert routes.find(request)[0] == path
        routes.remove(path)
        assert routes.find(request) is None
        assert routes.find(request + "/%35") is None
        routes.add(path, "new")
        assert routes.find(request)[0] == "new"

    def test_neighbours_stay(self):
        routes = table("a", "a/b", "a/:x/b", "a/:x/c", "a/b/c")
        routes.remove("a/b")
        routes.remove("a/:x/b")
        assert routes.find("/a/b") == ("a", "b", {})
        assert routes.find("/a/1/c")[2] == {"x": "1"}
        assert routes.find("/%61/b/c")[0] == "a/b/c"
        assert routes.find("/a/1/b") is None

    def test_what_leads_to_neighbours_stays(self):
        """Also where only the tree knows the way: for encoded paths and placeholders."""
        routes = table("a", "a/b/c", "x/:id/y", "x/z")
        routes.remove("a/b/c")
        routes.remove("x/z")
        assert routes.find("/%61") == ("a", None, {})
        assert routes.find("/x/1/y")[2] == {"id": "1"}

    @pytest.mark.parametrize("path", ["nope", "messages/x", ":x", ":x/y", "messages/:id", "/"])
    def test_removing_what_is_not_there_changes_nothing(self, path):
        routes = table("messages")
        routes.remove(path)
        assert routes.find("/messages/5") == ("messages", "5", {})

    def test_nothing_stays_behind(self):
        """An application may register a service per tenant, and take it away again, for years."""
        routes = table("messages")
        before = repr(routes._tree)
        for number in range(3):
            for path in (f"tenant{number}/x", f"tenant{number}/:id/x", f":t/{number}"):
                routes.add(path, number)
                routes.remove(path)
        assert repr(routes._tree) == before


def test_matches_share_no_values():
    """What a hook writes into ``params.route`` must not reach the next request."""
    routes = table("messages", "users/:id/posts")
    for path in ("/messages", "/messages/5", "/users/7/posts"):
        routes.find(path)[2]["leak"] = "x"
        assert "leak" not in routes.find(path)[2]


segments = st.text(
    st.characters(codec="utf-8", exclude_characters="/{"), min_size=1, max_size=8
).filter(lambda text: not text.startswith(":"))


@given(st.lists(segments, min_size=1, max_size=4), segments)
def test_every_encoded_path_comes_back(names, record):
    def encode(text):
        return "".join(f"%{byte:02X}" for byte in text.encode())

    routes = table("/".join(names))
    found = routes.find("/" + "/".join(encode(name) for name in [*names, record]))
    assert found == ("/".join(names), record, {})


@given(st.text())
def test_any_path_is_answered(path):
    routes = table("messages", "users/:id/posts", ":a/:b/:c")
    match = routes.find(path)
    assert match is None or match[0] in {"messages", "users/:id/posts", ":a/:b/:c"}


@given(st.lists(st.sampled_from(["%", "%4", "%41", "%c3", "%C3%A9", "%zz", "é", "a", "%0a"])))
def test_texts_are_decoded_as_by_the_standard_library(pieces):
    text = "".join(pieces)
    assert percent_decoded(text) == unquote_to_bytes(text)


def seconds_for(routes, paths):
    """Return the least time of several rounds: the others measure the machine."""

    def once():
        begin = time.perf_counter()
        for path in paths:
            routes.find(path)
        return time.perf_counter() - begin

    return min(once() for _ in range(20))


@pytest.mark.parametrize("shape", ["service{}", "service{}/:id/posts", ":x/service{}"])
def test_ten_thousand_services_cost_what_one_costs(shape):
    few, many = RouteTable(), RouteTable()
    few.add(shape.format(5000), 1)
    for number in range(10_000):
        many.add(shape.format(number), number)
    path = shape.format(5000).replace(":id", "7").replace(":x", "7")
    paths = [path, path + "/1", path + "/%41"] * 20
    assert seconds_for(many, paths) < 5 * seconds_for(few, paths)


def test_a_path_of_any_length_is_answered_quickly():
    """Neither deep recursion nor a search that grows with every combination."""
    routes = RouteTable()
    for bits in range(2**6):
        shape = "/".join(f":x{i}" if bits >> i & 1 else "a" for i in range(6))
        routes.add(shape + "/end", bits)
    assert routes.find("/a" * 50_000) is None
    begin = time.process_time()
    assert routes.find("/a/a/a/a/a/a/nope/nope") is None
    assert time.process_time() - begin < 0.5


def test_the_braces_of_other_frameworks_are_refused_and_not_taken_literally():
    with pytest.raises(ValueError, match="a placeholder is written :name here"):
        RouteTable().add("users/{id}/posts", "value")
