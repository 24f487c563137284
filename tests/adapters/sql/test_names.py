import pytest

from alula.adapters.sql._names import quoted


@pytest.mark.parametrize(
    ("name", "text"),
    {
        "people": '"people"',
        'a"b': '"a""b"',
        '"; drop table people; --': '"""; drop table people; --"',
        "a b": '"a b"',
        "]": '"]"',
        "ü": '"ü"',
    }.items(),
)
def test_names_are_quoted(name, text):
    assert quoted(name) == text


@pytest.mark.parametrize("name", ["", "a\x00b", "\ud800"])
def test_names_that_no_database_has_are_refused(name):
    with pytest.raises(ValueError, match=r"is not a name|surrogates"):
        quoted(name)


async def test_both_databases_read_a_quoted_name_as_it_is(sql_url):
    from alula.adapters.sql._database import Database

    database = Database(sql_url)
    await database.open()
    name = "we\"ird ]`' name"
    assert await database.fetch(f"select 1 as {quoted(name)}") == [{name: 1}]
    await database.close()
