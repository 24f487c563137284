"""Query strings as two other implementations read and write them: qs in Node, and qs-codec."""

import json
import math
import random
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.requirements import absent, require_node, require_node_modules

from alula.errors import BadRequest
from alula.query import parse, stringify

pytestmark = pytest.mark.slow

ORACLE = Path(__file__).with_name("oracle.mjs")

# Each alphabet leads to other corners: any mixture, contradictions about a few names, long lists.
ANY = ["a", "b", "0", "1", "2", "19", "20", "x", "[", "]", "[", "]", "[]", "[a]", "[b]", "[0]"]
ANY += ["[1]", "[19]", "[20]", "[25]", "[-1]", "[01]", "[toString]", "[$in]", "[99999]", "="]
ANY += ["=", "=", "&", "&", "&", "&a=", "&a[", "&a[]=", "&b=", "+", "é", "ü%C3%BC", "%24", "%25"]
ANY += ["%5B", "%5D", "%5b", "%5d", "%41", "%C3%A9", "%F0%9F%98%80", "%2B", "%26", "%3D", "%00"]
BROKEN = ["%", "%zz", "%FF", "%C3", "%ED%A0%80", "%C0%80", "%u0041", "%%41"]
FEW = ["a", "[0]", "[1]", "[2]", "[]", "[b]", "=", "=x", "=y", "x", "&a", "&a", "&a", "&a[b]"]
FEW += ["&a[]=1", "&a[0]=2", "&a=3", "&a[2]=4", "&a[25]=5", "&[a]=6", "&[a][0]=7", "&[]", "&[0]"]
FEW += ["&0", "&1=8", "&1[b]", "&b[]=9"]
LONG = ["&a=1", "&a[]=2", "&a[3]=4", "&a[21]=5", "&b[c]=6", "&b[c][]=7", "&[]=8"]


USUAL = [(ANY, 16), (FEW, 12), (LONG, 70)]
WITH_BROKEN = [*USUAL, (ANY + BROKEN, 24)]


def strings(alphabets, count):
    """Return query strings, the same in every run."""
    choose = random.Random(count)
    made = []
    for number in range(count):
        pieces, longest = alphabets[number % len(alphabets)]
        made.append("".join(choose.choices(pieces, k=choose.randint(1, longest))))
    return made


def read(querystring, **options):
    """Return what we make of a query string; refusals as a word, for they differ in wording."""
    try:
        return parse(querystring, **options)
    except BadRequest:
        return "refused"


def assert_same(differences):
    """Fail with the shortest differences: (what was given, ours, theirs)."""
    shortest = sorted(differences, key=lambda difference: len(repr(difference[0])))[:5]
    assert not differences, "\n".join(
        f"{given!r}\n  ours:   {ours!r}\n  theirs: {theirs!r}" for given, ours, theirs in shortest
    )


@pytest.fixture(scope="module")
def ask_qs():
    """A function that answers a list of requests by one run of qs in Node."""
    folder = require_node_modules("qs")
    version = json.loads((folder / "qs" / "package.json").read_text(encoding="utf-8"))["version"]
    assert version.startswith("6.17."), "the oracle is qs 6.17, other versions read differently"

    def ask(requests):
        done = subprocess.run(
            [require_node(), ORACLE, folder],
            input="".join(json.dumps(request) + "\n" for request in requests),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(requests)
        return answers

    return ask


# --- qs -----------------------------------------------------------------------------------------


def test_strings_are_read_as_qs_reads_them(ask_qs):
    limits = [20, 20, 20, 20, 100, 3, 2, 1, 0]
    cases = [
        (querystring, limits[number % len(limits)])
        for number, querystring in enumerate(strings(WITH_BROKEN, 12_000))
    ]
    answers = ask_qs(
        [
            # What qs cuts off we refuse; strictDepth has qs refuse the same.
            {
                "parse": querystring,
                "options": {"allowPrototypes": True, "strictDepth": True, "arrayLimit": limit},
            }
            for querystring, limit in cases
        ]
    )
    pairs = [
        ((querystring, limit), read(querystring, array_limit=limit), answer.get("value", "refused"))
        for (querystring, limit), answer in zip(cases, answers, strict=True)
    ]
    assert sum(theirs == "refused" for _, _, theirs in pairs) > 50
    assert_same([pair for pair in pairs if pair[1] != pair[2]])


@pytest.mark.parametrize(
    ("querystring", "ours", "theirs"),
    [
        ("__proto__=1&a=2", {"__proto__": "1", "a": "2"}, {"a": "2"}),
        ("a[__proto__][x]=1", {"a": {"__proto__": {"x": "1"}}}, {"a": {}}),
        ("a=\ud800", {"a": "\ufffd"}, {"a": "\ud800"}),
        ("&" * 998 + "a=1&b=2&c=3", "refused", {"a": "1", "b": "2"}),
        (
            "a[b][c][d][e][f][g]=1",
            "refused",
            {"a": {"b": {"c": {"d": {"e": {"f": {"[g]": "1"}}}}}}},
        ),
        (
            "a[9999999999999998]=1&[a]=2",
            {"a": [{"9999999999999998": "1"}, "2"]},
            {"a": {"9999999999999998": "1", "10000000000000000": "2"}},
        ),
    ],
)
def test_the_differences_to_qs_are_those_of_the_documentation(ask_qs, querystring, ours, theirs):
    assert read(querystring) == ours
    request = {"parse": querystring, "options": {"allowPrototypes": True}}
    assert ask_qs([request]) == [{"value": theirs}]


def test_at_depth_nought_qs_reads_brackets_as_part_of_the_name(ask_qs):
    assert ask_qs([{"parse": "a[b]=1", "options": {"depth": 0}}]) == [{"value": {"a[b]": "1"}}]
    assert read("a[b]=1", depth=0) == "refused"


# --- qs.stringify -------------------------------------------------------------------------------

NAMES = ["a", "b c", "$in", "", "[", "x]", "ü", "😀", "%41", "a&b=c", "+", "-._~", "\0", "\ud800"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = -62135596800000, 253402300799999  # the milliseconds of the years 1 to 9999


def scalar(choose):
    """Return a value, and how oracle.mjs is told of it."""
    kind = choose.randrange(7)
    if kind == 0:
        moment = choose.randint(FIRST, LAST)
        value = EPOCH + timedelta(milliseconds=moment, microseconds=choose.randrange(1000))
        return choose.choice([value, value.replace(tzinfo=None)]), {"$date": moment}
    if kind == 1:
        value = choose.choice([math.inf, -math.inf, math.nan])
        return value, {"$number": str(value).replace("inf", "Infinity").replace("nan", "NaN")}
    value = [
        lambda: choose.uniform(-1, 1) * 10.0 ** choose.randint(-320, 300),
        lambda: float(choose.randint(-(10**6), 10**6)) * 10.0 ** choose.randint(-12, 20),
        lambda: choose.randint(-(2**53), 2**53),
        lambda: choose.choice([True, False, None, 0, -0.0]),
        lambda: "".join(choose.choices(NAMES, k=choose.randrange(4))),
    ][kind - 2]()
    return value, value


def tree(choose, depth):
    """Return a value with everything in it, and how oracle.mjs is told of it."""
    if depth == 0 or choose.random() < 0.4:
        return scalar(choose)
    items = [tree(choose, depth - 1) for _ in range(choose.randrange(4))]
    if choose.random() < 0.5:
        return [ours for ours, _ in items], [theirs for _, theirs in items]
    return mapping_of(choose, items)


def mapping_of(choose, items):
    names = ["".join(choose.choices(NAMES, k=choose.randint(1, 3))) for _ in items]
    ours = dict(zip(names, (ours for ours, _ in items), strict=True))
    return ours, dict(zip(names, (theirs for _, theirs in items), strict=True))


def test_mappings_are_written_as_qs_writes_them(ask_qs):
    choose = random.Random(1)
    trees = [
        mapping_of(choose, [tree(choose, 4) for _ in range(choose.randrange(5))])
        for _ in range(3_000)
    ]
    answers = ask_qs([{"stringify": theirs} for _, theirs in trees])
    triples = [
        (ours, stringify(ours), answer["value"])
        for (ours, _), answer in zip(trees, answers, strict=True)
    ]
    assert_same([triple for triple in triples if triple[1] != triple[2]])
    assert sum(len(written) for _, written, _ in triples) > 100_000


# --- qs-codec -----------------------------------------------------------------------------------

INDEX = re.compile(r"\[(\d+)\]")
EMPTY_THEN_INDEX = re.compile(r"\[\][^\[]*\[(\d+)\]")
ENCODED_BRACKET = re.compile("%5([bd])", re.IGNORECASE)


def spellings(querystring):
    """Return the values of each key, by the name that the key begins with."""
    found = {}
    plain = ENCODED_BRACKET.sub(lambda match: "[" if match[1] in "bB" else "]", querystring)
    for part in plain.split("&"):
        end = part.find("]=") + 1 or part.find("=")
        key, value = (part, "") if end < 0 else (part[:end], part[end + 1 :])
        name = key.partition("[")[0] or key[1:].partition("]")[0]
        if key:
            found.setdefault(name, {}).setdefault(key, []).append(value)
    return found


def differs_in_qs_codec(querystring):
    """Say whether qs-codec 1.6 is known to read this otherwise than qs 6.17.

    All but the first of these need a name that comes by several spellings.
    """
    found = spellings(querystring)
    if "" in found and any(name.isdigit() for name in found):
        return True  # ``[]=1&0=2``: qs reads numbers first
    for keys in found.values():
        first, *_ = keys
        for key, values in keys.items():
            pairs = key[1:].count("[")
            others = [other[1:].count("[") for other in keys if other != key]
            highest = max(map(int, INDEX.findall(key)), default=-1)
            if any(int(index) >= 20 for index in EMPTY_THEN_INDEX.findall(key)):
                return True  # ``a[][20]``: qs lets the empty brackets go, as before an index below
            if key != first and ("" in values or key.isdigit()):
                return True  # ``a[b]=1&a[b]x=``: qs drops an empty value; and numbers first again
            if highest >= 19 and min(others, default=pairs) < pairs:
                return True  # ``a[20]=1&[a]=2``: qs counts on after an index that is too high
            if highest >= 0 and len(values) > 1 and pairs in others:
                return True  # ``a[0]=1&a[0]=2&[a][0]=3``: qs merges lists in lists
    return False


def test_strings_are_read_as_qs_codec_reads_them():
    try:
        import qs_codec
    except ImportError:
        absent("no qs-codec from PyPI: query strings are not compared with it")
    options = qs_codec.DecodeOptions(strict_depth=True)
    compared, differences = 0, []
    for querystring in strings(USUAL, 12_000):
        if differs_in_qs_codec(querystring):
            continue
        compared += 1
        try:
            theirs = qs_codec.decode(querystring, options)
        except IndexError:
            theirs = "refused"
        ours = read(querystring)
        if ours != theirs:
            differences.append((querystring, ours, theirs))
    assert_same(differences)
    assert compared > 5_000
