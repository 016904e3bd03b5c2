"""acsylla, which is the C++ driver under Python's asyncio: metadata, types, prepared statements,
batches, IF, counters, paging, errors, concurrency."""

import asyncio
import datetime
import decimal
import os

import acsylla

ROWS = 20_000
TYPES = {
    "ascii": "plain",
    "bigint": -(2**63),
    "blob": b"\x00\xff",
    "boolean": True,
    "date": datetime.date(2024, 2, 29),
    "decimal": decimal.Decimal("-12345678901234567890.123456789"),
    "double": 1.5e300,
    "float": 0.5,
    "inet": "::1",
    "int": -(2**31),
    "smallint": -(2**15),
    "text": "h\u00e4llo \u4e16\u754c \U0001f30a",
    "timestamp": datetime.datetime(2024, 2, 29, 12, 30, 15, tzinfo=datetime.timezone.utc),
    "timeuuid": "13814000-1dd2-11b2-8000-000000000000",
    "tinyint": -128,
    "uuid": "550e8400-e29b-41d4-a716-446655440000",
    "list<int>": [3, 1, 2],
    "set<text>": {"a", "b"},
    "map<text, bigint>": {"a": 1, "b": 2},
    "tuple<int, text>": (1, "one"),
}


async def main():
    cluster = acsylla.create_cluster(
        [os.environ["CQL_HOST"]],
        port=int(os.environ["CQL_PORT"]),
        # These limits only end a hang.
        connect_timeout=60.0,
        request_timeout=60.0,
    )
    session = await cluster.create_session()
    await session.query("DROP KEYSPACE IF EXISTS acsylla")
    await session.query(
        "CREATE KEYSPACE acsylla WITH replication = "
        "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    await session.use_keyspace("acsylla")

    # Every type, written and read.
    columns = ", ".join(f"c{i} {name}" for i, name in enumerate(TYPES))
    await session.query(f"CREATE TABLE types (id int PRIMARY KEY, {columns})")
    names = ", ".join(f"c{i}" for i in range(len(TYPES)))
    marks = ", ".join("?" for _ in TYPES)
    insert = await session.create_prepared(f"INSERT INTO types (id, {names}) VALUES (?, {marks})")
    for id, values in (1, TYPES.values()), (2, [None] * len(TYPES)):
        statement = insert.bind()
        statement.bind_list([id, *values])
        await session.execute(statement)
    select = await session.create_prepared(f"SELECT {names} FROM types WHERE id = ?")
    for id, values in (1, list(TYPES.values())), (2, [None] * len(TYPES)):
        statement = select.bind()
        statement.bind(0, id)
        row = (await session.execute(statement)).first()
        for name, wrote, read in zip(TYPES, values, row.as_tuple()):
            assert read == wrote, (name, wrote, read)

    # Concurrent writes, then paging over all rows.
    await session.query("CREATE TABLE pairs (pk int, ck int, v text, PRIMARY KEY (pk, ck))")
    insert = await session.create_prepared("INSERT INTO pairs (pk, ck, v) VALUES (?, ?, ?)")

    async def write(number):
        statement = insert.bind()
        statement.bind_list([number % 100, number, f"value {number}"])
        await session.execute(statement)

    for start in range(0, ROWS, 1000):
        await asyncio.gather(*(write(start + number) for number in range(1000)))
    statement = acsylla.create_statement("SELECT pk, ck FROM pairs", page_size=997)
    found, pages = set(), 0
    while True:
        result = await session.execute(statement)
        found.update(row.as_tuple() for row in result)
        pages += 1
        if not result.has_more_pages():
            break
        statement.set_page_state(result.page_state())
    assert found == {(number % 100, number) for number in range(ROWS)}
    assert pages >= ROWS // 997

    # Batches, IF, counters, errors.
    batch = acsylla.create_batch_logged()
    for number in range(3):
        statement = insert.bind()
        statement.bind_list([1000, number, "in a batch"])
        batch.add_statement(statement)
    await session.execute_batch(batch)
    result = await session.query("SELECT count(*) FROM pairs WHERE pk = 1000")
    assert result.first().column_value_by_index(0) == 3
    for expected in (True, False):
        text = "INSERT INTO pairs (pk, ck) VALUES (2000, 1) IF NOT EXISTS"
        result = await session.query(text)
        assert result.first().column_value("[applied]") is expected
    await session.query("CREATE TABLE visits (page text PRIMARY KEY, n counter)")
    add = "UPDATE visits SET n = n + 1 WHERE page = 'home'"
    await asyncio.gather(*(session.query(add) for _ in range(100)))
    result = await session.query("SELECT n FROM visits")
    assert result.first().column_value("n") == 100
    try:
        await session.query("SELECT nothing FROM pairs")
    except acsylla.errors.CassException as error:
        assert "Undefined column name nothing" in str(error), error
    else:
        raise AssertionError("no error")

    tables = session.get_metadata().get_tables("acsylla")
    assert {*tables} == {"types", "pairs", "visits"}, tables
    await session.close()
    print(f"acsylla: {len(TYPES)} types, {ROWS} rows in {pages} pages")


asyncio.run(main())
