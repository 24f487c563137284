"""`PostgresBus` on a real PostgreSQL: order, catching up, and what happens when it goes away."""

from __future__ import annotations

import asyncio
import logging
import sys
import time

import asyncpg
import pytest
from tests.realtime.processes import processes
from tests.requirements import require_postgresql
from tests.waiting import eventually

from alula.local_postgresql._postgres import Postgres
from alula.realtime._bus import PostgresBus, _postgres


@pytest.fixture
def url(postgresql_schema):
    return postgresql_schema


@pytest.fixture
async def connection(url):
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


async def read(bus, count, after=None):
    """Return so many events, as numbers, and whether a gap was told before or among them."""
    events = bus.events(after and await at(bus, after))
    seen, has_gap = [], False
    try:
        async with asyncio.timeout(30):
            while len(seen) < count:
                _, event, is_behind_gap = await anext(events)
                has_gap = has_gap or is_behind_gap
                if event:
                    seen.append(int(event))
    finally:
        await events.aclose()
    return seen, has_gap


async def at(bus, number):
    """Return the position of an event."""
    return f"{number} {(await position_of(bus)).split()[1]}"


async def position_of(bus):
    events = bus.events()
    try:
        return (await anext(events)).position
    finally:
        await events.aclose()


async def test_events_reach_all_other_processes_in_order(url):
    buses = [PostgresBus(url) for _ in range(3)]
    async with processes(*buses) as (first, second, third):
        first.publish(*range(1_000))
        second.publish("a", "b")
        await eventually(lambda: len(third.received) == 1_002)
        assert [n for n in third.received if isinstance(n, int)] == list(range(1_000))
        await eventually(lambda: first.received == ["a", "b"])


async def test_processes_that_publish_at_once_lose_nothing(url):
    """A reader never passes a number whose transaction has not ended."""
    buses = [PostgresBus(url) for _ in range(4)]
    reader = PostgresBus(url)
    position = await position_of(reader)

    async def publish(bus, start):
        for number in range(start, start + 100, 2):
            await bus.publish_many([b"%d" % number, b"%d" % (number + 1)])
        await bus.close()

    reading = asyncio.ensure_future(read(reader, 400, position.split()[0]))
    await asyncio.gather(*(publish(bus, 100 * n) for n, bus in enumerate(buses)))
    seen, has_gap = await reading
    assert (sorted(seen), has_gap) == (list(range(400)), False)
    for start in range(0, 400, 100):
        of_one = [number for number in seen if start <= number < start + 100]
        assert of_one == sorted(of_one)


async def test_other_tables_are_not_heard(url):
    buses = [PostgresBus(url), PostgresBus(url), PostgresBus(url, table="other_events")]
    async with processes(*buses) as (first, second, third):
        first.publish(1)
        await eventually(lambda: second.received == [1])
        assert third.received == []


async def test_a_process_reads_large_events_one_after_the_other(url, monkeypatch):
    monkeypatch.setattr(_postgres, "_BYTES_AT_ONCE", 1_000)
    bus = PostgresBus(url)
    position = await position_of(bus)
    await bus.publish_many([b"%0999d" % number for number in range(10)])
    assert await read(bus, 10, position.split()[0]) == (list(range(10)), False)
    await bus.close()


async def test_old_events_are_removed_and_their_absence_is_told(url, connection, caplog):
    bus = PostgresBus(url, keep_seconds=600)
    await bus.publish_many([b"1", b"2"])
    await connection.execute("update alula_events set at = at - interval '1 hour'")
    bus._next_removal = 0
    await bus.publish(b"3")
    assert await connection.fetchval("select array_agg(number) from alula_events") == [3]
    assert await read(bus, 1, "2") == ([3], False)
    assert await read(bus, 1, "1") == ([3], True)
    assert "was away for too long, or lost its table" in caplog.text
    await connection.execute("delete from alula_events")
    caplog.clear()
    for number, is_gap in ((1, True), (3, False)):
        events = bus.events(await at(bus, number))
        assert await anext(events) == (await at(bus, 3), b"", is_gap)
        await events.aclose()
    await bus.close()


async def test_events_that_are_removed_while_it_reads_are_a_gap(url, connection):
    bus = PostgresBus(url)
    events = bus.events()
    await anext(events)
    async with connection.transaction():
        await connection.execute("update alula_events_last set last = 2")
        await connection.execute("insert into alula_events values (2, 'two')")
        await connection.execute("notify alula_events")
    assert await anext(events) == (await at(bus, 2), b"two", True)
    await events.aclose()


async def test_a_database_that_is_older_than_the_position_is_a_gap(url):
    bus = PostgresBus(url)
    await bus.publish(b"1")
    events = bus.events(await at(bus, 7))
    assert await anext(events) == (await at(bus, 0), b"", True)
    assert (await anext(events)).event == b"1"
    await events.aclose()
    await bus.close()


async def test_a_late_server_gives_what_others_have_published_meanwhile(url, connection):
    bus, other = PostgresBus(url), PostgresBus(url)
    await other.publish(b"1")
    await connection.execute("update alula_events set at = at - interval '1 minute'")
    bus._begun = time.monotonic() - 20  # as if it had tried for twenty seconds
    assert await position_of(bus) == await at(other, 1)
    await other.publish(b"2")
    assert await read(bus, 1) == ([2], False)
    await other.close()


async def test_tells_what_the_table_keeps(url, monkeypatch):
    bus = PostgresBus(url, keep_seconds=60)
    assert (await bus.recent_events("0 x")).events == []
    await bus.publish_many([b"%d" % number for number in range(100)])
    position = await position_of(bus)
    await bus.publish(b"100")
    recent = await bus.recent_events(position)
    assert [int(event) for event in recent.events] == [*range(100)]
    assert time.time() - 70 < recent.complete_since < time.time() - 50
    bus.max_recent_bytes = 20
    recent = await bus.recent_events(position)
    assert [int(event) for event in recent.events] == [*range(89, 100)]
    assert recent.complete_since > time.time() - 10
    bus.max_recent_bytes = 1_000_000
    monkeypatch.setattr(_postgres, "_MAX_RECENT_EVENTS", 3)
    assert (await bus.recent_events(position)).events == [b"97", b"98", b"99"]
    await bus.close()


async def test_a_quiet_bus_notices_what_it_has_not_heard(url, connection):
    """A network that drops packets swallows notices, too."""
    bus = PostgresBus(url, timeout=0.2)
    events = bus.events()
    await anext(events)
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0.1)
    async with connection.transaction():
        await connection.execute("update alula_events_last set last = 1")
        await connection.execute("insert into alula_events values (1, 'unheard')")
    async with asyncio.timeout(30):
        assert await waiting == (await at(bus, 1), b"unheard", False)
    await events.aclose()


async def test_a_connection_that_ends_is_told_at_once(url, connection):
    bus = PostgresBus(url, timeout=60)
    events = bus.events()
    await anext(events)
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0.1)
    await connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where query like '%as summed%' and pid <> pg_backend_pid()"
    )
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        async with asyncio.timeout(30):
            await waiting


async def test_goes_on_after_the_tables_were_dropped(url, connection):
    async with processes(PostgresBus(url), PostgresBus(url)) as (first, second):
        first.publish(1, 2)
        await eventually(lambda: second.received == [1, 2])
        await connection.execute("drop table alula_events, alula_events_last")
        first.publish(3)
        await eventually(lambda: second.received == [1, 2, 3])
        assert second.gaps == 1  # nobody knows what else was in them


@pytest.mark.parametrize("change", ["made = gen_random_uuid()", "last = 0"])
async def test_a_table_that_is_replaced_while_it_reads_is_an_error(url, connection, change):
    bus = PostgresBus(url)
    await bus.publish(b"1")
    events = bus.events()
    await anext(events)
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0.1)
    await connection.execute("notify alula_events")  # for nothing: it waits again
    await asyncio.sleep(0.1)
    await connection.execute(f"update alula_events_last set {change}; notify alula_events")
    with pytest.raises(ConnectionError, match="its table was replaced"):
        async with asyncio.timeout(30):
            await waiting
    await bus.close()


async def test_a_table_that_was_emptied_is_named(url, connection):
    bus = PostgresBus(url)
    await bus.publish(b"1")
    await connection.execute("truncate alula_events_last")
    with pytest.raises(ConnectionError, match="alula_events_last is empty"):
        await bus.publish(b"2")
    with pytest.raises(ConnectionError, match="alula_events_last is empty"):
        await position_of(bus)
    await connection.execute("drop table alula_events_last, alula_events")
    await bus.publish(b"3")
    await bus.close()


async def test_processes_that_begin_at_once_make_one_table(url):
    buses = [PostgresBus(url) for _ in range(8)]
    await asyncio.gather(*(bus.publish(b"1") for bus in buses))
    assert await read(buses[0], 8, "0") == ([1] * 8, False)
    await asyncio.gather(*(bus.close() for bus in buses))


async def test_a_role_that_may_not_make_tables_is_told(url, connection):
    bus = PostgresBus(f"{url}&default_transaction_read_only=on")
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError, match="CREATE TABLE"):
        await bus.publish(b"1")
    await bus.close()


async def test_nothing_is_lost_or_sent_twice_when_postgresql_is_killed(tmp_path, caplog):
    require_postgresql()
    caplog.set_level(logging.INFO, "alula.realtime.bus")
    server = Postgres(tmp_path)
    await server.start()
    try:
        buses = [PostgresBus(server.url), PostgresBus(server.url)]
        async with processes(*buses) as (first, second):
            first.publish(*range(100))
            server.kill()
            first.publish(*range(100, 200))
            await eventually(lambda: first.relay.state() == "away")
            await server.start()
            await eventually(lambda: len(second.received) >= 200)
            assert second.received == list(range(200))
            await eventually(lambda: first.relay.state() == "ok")
    finally:
        server.kill()


def test_a_wrong_url_or_name_is_refused():
    with pytest.raises(ValueError, match="begins with postgresql://"):
        PostgresBus("redis://localhost")
    with pytest.raises(ValueError, match="table='Events' is not a name"):
        PostgresBus("postgresql://localhost/shop", table="Events")


def test_its_password_is_not_shown():
    bus = PostgresBus("postgresql://ada:secret@localhost:5432/shop?password=secret")
    assert repr(bus) == "PostgresBus('postgresql://localhost:5432/shop')"


def test_without_the_extra_it_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ImportError, match=r"alula\[postgresql\]"):
        PostgresBus("postgresql://localhost/shop")
