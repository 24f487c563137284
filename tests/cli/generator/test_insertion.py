"""Insertion into Python code of the user: in the right place, once, without other changes."""

from __future__ import annotations

import pytest

from alula._cli.generator.insertion import (
    NoPlaceError,
    add_after,
    add_argument,
    add_field,
    add_import,
    add_literal,
    add_statement,
    add_whole_import,
    literal_alias,
)

OWN = {"services", "hooks", "database"}


class TestImports:
    def test_in_the_order_of_the_others(self):
        code = '"""Doc."""\n\nimport alula\n\nfrom services.a import b\nfrom services.m import n\n'
        for module, before in (
            ("services.b.service", "from services.m"),
            ("hooks.x", "from services.a"),
        ):
            new = f"from {module} import name\n"
            assert add_import(code, module, "name", OWN) == code.replace(before, f"{new}{before}")
        new = "from services.z import name\n"
        assert add_import(code, "services.z", "name", OWN) == code + new

    def test_those_of_one_package_stand_together(self):
        code = "import os\n\nimport anyio\nfrom alula.client import a\n\nfrom app import b\n"
        new = "from alula.authentication import c\n"
        expected = code.replace("from alula.client", f"{new}from alula.client")
        assert add_import(code, "alula.authentication", "c", {"app"}) == expected
        new = "from alula.schema import c\n"
        expected = code.replace("import a\n", f"import a\n{new}")
        assert add_import(code, "alula.schema", "c", {"app"}) == expected

    @pytest.mark.parametrize(
        ("code", "expected"),
        [
            ("import os\n\nimport anyio\n", "import os\nfrom typing import Any\n\nimport anyio\n"),
            (
                "import tomllib\nfrom pathlib import Path\n\nfrom alula import App\n",
                "import tomllib\nfrom pathlib import Path\nfrom typing import Any\n\nfrom alula"
                " import App\n",
            ),
            (
                "import sys\nfrom zlib import crc32\n",
                "import sys\nfrom typing import Any\nfrom zlib import crc32\n",
            ),
        ],
    )
    def test_those_of_the_standard_library_stand_together(self, code, expected):
        assert add_import(code, "typing", "Any") == expected

    def test_apart_from_those_of_packages(self):
        code = "import os\n\nfrom alula import App\n\nx = 1\n"
        expected = "import os\n\nfrom alula import App\n\nfrom services.a import b\n\nx = 1\n"
        assert add_import(code, "services.a", "b", OWN) == expected

    @pytest.mark.parametrize(
        ("code", "expected"),
        [
            ("", "\nfrom a import b\n"),
            ('"""Doc."""\nx = 1\n', '"""Doc."""\n\nfrom a import b\nx = 1\n'),
            ("x = 1\n", "\nfrom a import b\nx = 1\n"),
        ],
    )
    def test_where_there_are_none(self, code, expected):
        assert add_import(code, "a", "b") == expected

    @pytest.mark.parametrize(
        ("code", "expected"),
        [
            ("from a import c\n", "from a import b, c\n"),
            ("from a import B, C, c\n", "from a import B, C, b, c\n"),
            ("from a import (\n    c,\n    d,\n)\nx = 1\n", "from a import b, c, d\nx = 1\n"),
            ("from a import c as d\n", "from a import b, c as d\n"),
        ],
    )
    def test_beside_other_names_of_the_module(self, code, expected):
        assert add_import(code, "a", "b") == expected

    def test_a_long_line_is_broken(self):
        names = [f"{letter * 30}" for letter in "cde"]
        added = add_import(f"from a import {', '.join(names)}\n", "a", "b")
        assert added == "from a import (\n    b,\n" + "".join(f"    {n},\n" for n in names) + ")\n"

    def test_remarks_stay(self):
        code = "from a import (\n    c,  # why\n)\n"
        assert add_import(code, "a", "b") == f"{code}from a import b\n"

    def test_a_relative_import_is_another_module(self):
        code = "from .a import c\n"
        assert add_import(code, "a", "b") == f"{code}\nfrom a import b\n"

    @pytest.mark.parametrize("code", ["from a import b\n", "from a import (\n    b,\n    c,\n)\n"])
    def test_what_is_there_stays(self, code):
        assert add_import(code, "a", "b") == code

    def test_under_another_name_it_is_not_there(self):
        assert add_import("from a import b as c\n", "a", "b") == "from a import b, b as c\n"


class TestImportsOfModules:
    @pytest.mark.parametrize(
        ("code", "expected"),
        [
            ("import os\n\nimport pytest\n", "import os\nimport secrets\n\nimport pytest\n"),
            ("import sys\n", "import secrets\nimport sys\n"),
            (
                "import os\nfrom abc import ABC\n",
                "import os\nimport secrets\nfrom abc import ABC\n",
            ),
            ("import os\n", "import os\nimport secrets\n"),
            ('"""Doc."""\n', '"""Doc."""\n\nimport secrets\n'),
            ("import os, secrets\n", "import os, secrets\n"),
        ],
    )
    def test_in_the_order_of_the_others(self, code, expected):
        assert add_whole_import(code, "secrets") == expected


class TestStatements:
    CODE = '''
def add_services(app):
    """Register them."""
    app.configure(add_a)  # the first


# the end
'''

    def test_at_the_end_of_the_function(self):
        added = add_statement(self.CODE, "add_services", "app.configure(add_b)")
        line = "    app.configure(add_a)  # the first\n"
        assert added == self.CODE.replace(line, f"{line}    app.configure(add_b)\n")

    def test_once(self):
        assert add_statement(self.CODE, "add_services", "app.configure( add_a )") == self.CODE

    def test_also_where_it_stands_deeper(self):
        code = "def f(app):\n    if app:\n        app.use(x)\n"
        assert add_statement(code, "f", "app.use(x)") == code

    def test_before_a_return(self):
        code = "async def f(app):\n\tapp.use(a)\n\treturn app\n"
        expected = "async def f(app):\n\tapp.use(a)\n\tapp.use(b)\n\treturn app\n"
        assert add_statement(code, "f", "app.use(b)") == expected

    def test_behind_what_takes_several_lines(self):
        code = "def f(app):\n    app.use(\n        a,\n    )\n\n\nx = 1\n"
        expected = "def f(app):\n    app.use(\n        a,\n    )\n    app.use(b)\n\n\nx = 1\n"
        assert add_statement(code, "f", "app.use(b)") == expected

    def test_the_ends_of_lines_stay(self):
        code = "def f(app):\r\n    app.use(a)\r\n"
        assert add_statement(code, "f", "app.use(b)") == f"{code}    app.use(b)\r\n"

    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            ("", "it has no function f at the top level"),
            ("class A:\n    def f(self):\n        pass\n", "it has no function f"),
            ("def f(app): pass\n", "all of the function f is on one line"),
            ("def f(app:\n", "it has a syntax error in line 1"),
        ],
    )
    def test_where_there_is_no_place(self, code, reason):
        with pytest.raises(NoPlaceError, match=reason):
            add_statement(code, "f", "app.use(b)")


class TestFields:
    CODE = "class Settings(Base):\n    a: int\n    b: int = 1  # why\n\n    def c(self): ...\n"

    def test_behind_the_last(self):
        line = "    b: int = 1  # why\n"
        expected = self.CODE.replace(line, f"{line}    d: str = f(1)\n")
        assert add_field(self.CODE, "Settings", "d: str = f(1)") == expected

    def test_as_far_to_the_right_as_the_others(self):
        assert add_field("class A:\n\ta: int\n", "A", "b: int") == (
            "class A:\n\ta: int\n\tb: int\n"
        )

    def test_once(self):
        assert add_field(self.CODE, "Settings", "a: str") == self.CODE

    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            ("x = 1", "it has no class Settings"),
            ("class Other: ...", "it has no class Settings"),
            ("class Settings:\n    x = 1\n", "the class Settings has no field yet"),
        ],
    )
    def test_where_there_is_no_place(self, code, reason):
        with pytest.raises(NoPlaceError, match=reason):
            add_field(code, "Settings", "a: int")


class TestArguments:
    CODE = 'x = 1\ntable = Table(\n    "users",\n    Column("id"),  # why\n    Column("a"),\n)\n'

    def test_behind_the_last(self):
        line = '    Column("a"),\n'
        expected = self.CODE.replace(line, f'{line}    Column("b", key="c"),\n')
        assert add_argument(self.CODE, "table", 'Column("b", key="c")') == expected

    def test_once(self):
        assert add_argument(self.CODE, "table", "Column( 'a' )") == self.CODE

    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            ("", r"it has no call table = \.\.\.\(\.\.\.\) at the top level"),
            ("table = x\nother = Table(\n    1,\n)\n", "it has no call table"),
            ("table = Table(1, 2)\n", "table is not a call with a line for each argument"),
            ("table = Table(\n    1,\n    2)\n", "table is not a call with a line for each"),
            ("table = Table(\n    1,\n    2\n)\n", "table is not a call with a line for each"),
        ],
    )
    def test_where_there_is_no_place(self, code, reason):
        with pytest.raises(NoPlaceError, match=reason):
            add_argument(code, "table", "3")


class TestLiterals:
    HEAD = "from typing import Literal, TypeAlias\n\n"
    ONE = f'{HEAD}Path: TypeAlias = Literal[\n    "a",\n]\nOther: TypeAlias = list[Path]\n'

    def test_behind_the_others(self):
        expected = self.ONE.replace('"a",\n', '"a",\n    "b/:c",\n')
        assert add_literal(self.ONE, "Path", "b/:c") == expected

    @pytest.mark.parametrize("written", ['Literal["a"]', "Literal['a',]", 'Literal[\n"a"]'])
    def test_however_it_is_written(self, written):
        code = f"{self.HEAD}Path: TypeAlias = {written}\n"
        assert add_literal(code, "Path", "b") == (
            f'{self.HEAD}Path: TypeAlias = Literal[\n    "a",\n    "b",\n]\n'
        )
        assert add_literal(code, "Path", "a") == code

    def test_the_first(self):
        code = "from typing import TypeAlias\n\nPath: TypeAlias = str\n"
        assert literal_alias("Path", []) in code
        assert add_literal(code, "Path", "a") == f'{self.HEAD}Path: TypeAlias = Literal["a"]\n'

    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            ("x = 1", "it has no Path"),
            ("Path: TypeAlias = int", r"Path is not Literal\[...\]"),
            ("Path: TypeAlias", r"Path is not Literal\[...\]"),
            ('Path: TypeAlias = Literal["a", "b"]  # more', "a comment inside"),
            ("Path: TypeAlias = Literal[A, B]", r"not Literal\[...\] of texts"),
            ("def f(:", "a syntax error in line 1"),
        ],
    )
    def test_where_there_is_no_place(self, code, reason):
        with pytest.raises(NoPlaceError, match=reason):
            add_literal(code, "Path", "c")


class TestBehindAStatement:
    def test_behind_it(self):
        code = "import os\n\nx = ( 1 )  # one\ny = 2\n"
        assert add_after(code, "x = 1", "z = 3") == "import os\n\nx = ( 1 )  # one\nz = 3\ny = 2\n"

    def test_once(self):
        assert add_after("x = 1\nz = 3\n", "x = 1", "z = 3") == "x = 1\nz = 3\n"

    def test_several_in_a_function(self):
        code = "def f():\n    x = 1\n    return x\n"
        new = "# why\ny = 2\nz = 3"
        expected = "def f():\n    x = 1\n    # why\n    y = 2\n    z = 3\n    return x\n"
        assert add_after(code, "x = 1", new) == expected
        assert add_after(expected, "x = 1", new) == expected

    def test_where_it_is_not_there(self):
        with pytest.raises(NoPlaceError, match="not contain x = 1"):
            add_after("x = 2\n", "x = 1", "z = 3")
