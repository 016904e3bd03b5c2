"""Python's cassandra-driver: metadata, types, prepared statements, paging, concurrency."""

import datetime
import decimal
import ipaddress
import os
import uuid

from cassandra import InvalidRequest
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import BatchStatement, BatchType, SimpleStatement
from cassandra.util import Date, Duration, OrderedMapSerializedKey, SortedSet, Time

from patient import patient_cluster

ROWS = 100_000

cluster = patient_cluster(
    f"{os.environ['CQL_HOST']}:{os.environ['CQL_PORT']}",
    protocol_version=int(os.environ["CQL_PROTOCOL"]),
)
session = cluster.connect()

# Metadata.
session.execute("DROP KEYSPACE IF EXISTS py")
session.execute(
    "CREATE KEYSPACE py WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
)
session.set_keyspace("py")
session.execute("CREATE TABLE pairs (pk int, ck int, v text, PRIMARY KEY (pk, ck)) "
                "WITH CLUSTERING ORDER BY (ck DESC)")
table = cluster.metadata.keyspaces["py"].tables["pairs"]
assert [column.name for column in table.partition_key] == ["pk"]
assert [column.name for column in table.clustering_key] == ["ck"]
assert "CLUSTERING ORDER BY (ck DESC)" in table.export_as_string()
assert len(cluster.metadata.all_hosts()) == 1
assert next(iter(cluster.metadata.all_hosts())).host_id is not None

# Every type, written and read.
TYPES = {
    "ascii": "plain",
    "bigint": -(2**63),
    "blob": b"\x00\xff",
    "boolean": True,
    "date": Date(datetime.date(2024, 2, 29)),
    "decimal": decimal.Decimal("-12345678901234567890.123456789"),
    "double": 1.5e300,
    "duration": Duration(1, 2, 3),
    "float": 0.5,
    "inet": "::1",
    "int": -(2**31),
    "smallint": -(2**15),
    "text": "h\u00e4llo \u4e16\u754c \U0001f30a",
    "time": Time(86_399_999_999_999),
    "timestamp": datetime.datetime(2024, 2, 29, 12, 30, 15, 123000),
    "timeuuid": uuid.UUID("13814000-1dd2-11b2-8000-000000000000"),
    "tinyint": -128,
    "uuid": uuid.UUID("550e8400-e29b-41d4-a716-446655440000"),
    "varchar": "",
    "varint": -(2**100),
    "list<int>": [3, 1, 2],
    "set<text>": SortedSet(["a", "b"]),
    "map<text, bigint>": {"a": 1, "b": 2},
    "frozen<list<frozen<set<int>>>>": [SortedSet([1]), SortedSet([2, 3])],
    "tuple<int, text, boolean>": (1, "one", None),
}
columns = ", ".join(f"c{i} {name}" for i, name in enumerate(TYPES))
session.execute(f"CREATE TABLE types (id int PRIMARY KEY, {columns})")
names = ", ".join(f"c{i}" for i in range(len(TYPES)))
marks = ", ".join("?" for _ in TYPES)
insert = session.prepare(f"INSERT INTO types (id, {names}) VALUES (?, {marks})")
session.execute(insert, [1, *TYPES.values()])
session.execute(insert, [2] + [None] * len(TYPES))
select = session.prepare(f"SELECT {names} FROM types WHERE id = ?")
row = session.execute(select, [1]).one()
for (name, wrote), read in zip(TYPES.items(), row):
    if isinstance(read, OrderedMapSerializedKey):
        read = dict(read)
    if name == "inet":
        wrote, read = ipaddress.ip_address(wrote), ipaddress.ip_address(read)
    assert read == wrote, (name, wrote, read)
assert all(value is None for value in session.execute(select, [2]).one())

# Concurrent writes, then paging over all rows.
insert = session.prepare("INSERT INTO pairs (pk, ck, v) VALUES (?, ?, ?)")
written = [(i % 100, i, f"value {i}") for i in range(ROWS)]
results = execute_concurrent_with_args(session, insert, written, concurrency=100)
assert all(result.success for result in results)
for page_rows in (1_000, 4_999):
    statement = SimpleStatement("SELECT pk, ck, v FROM pairs", fetch_size=page_rows)
    rows = list(session.execute(statement))
    assert len(rows) == ROWS, len(rows)
    assert {tuple(row) for row in rows} == set(written)
partition = [row.ck for row in session.execute("SELECT ck FROM pairs WHERE pk = 7")]
assert partition == sorted(partition, reverse=True) and len(partition) == ROWS // 100
# A paging state stays valid after a reconnect.
first = session.execute(SimpleStatement("SELECT pk, ck FROM pairs", fetch_size=100))
state, seen = first.paging_state, {tuple(row) for row in first.current_rows}
session.shutdown()
session = cluster.connect("py")
statement = SimpleStatement("SELECT pk, ck FROM pairs", fetch_size=5_000)
rest = [tuple(row) for row in session.execute(statement, paging_state=state)]
assert len(rest) + len(seen) == ROWS and not seen.intersection(rest)

# Batches, updates, deletions, TTL and timestamps.
batch = BatchStatement(batch_type=BatchType.UNLOGGED)
for ck in range(20):
    batch.add(insert, (1000, ck, "batch"))
session.execute(batch)
assert len(session.execute("SELECT ck FROM pairs WHERE pk = 1000").all()) == 20
session.execute("DELETE FROM pairs WHERE pk = 1000 AND ck >= 5 AND ck < 15")
assert len(session.execute("SELECT ck FROM pairs WHERE pk = 1000").all()) == 10
session.execute("UPDATE pairs USING TIMESTAMP 1 SET v = 'old' WHERE pk = 1000 AND ck = 1")
assert session.execute("SELECT v FROM pairs WHERE pk = 1000 AND ck = 1").one().v == "batch"
session.execute("INSERT INTO pairs (pk, ck, v) VALUES (1001, 1, 'goes') USING TTL 1000")
ttl = session.execute("SELECT ttl(v) FROM pairs WHERE pk = 1001 AND ck = 1").one()[0]
assert 990 < ttl <= 1000, ttl

# A snapshot stays as it was.
session.execute("CREATE SNAPSHOT monday ON KEYSPACE py")
session.execute("DELETE FROM pairs WHERE pk = 7")
assert session.execute("SELECT count(*) FROM pairs WHERE pk = 7").one()[0] == 0
then = "SELECT count(*) FROM pairs USING SNAPSHOT monday WHERE pk = 7"
assert session.execute(then).one()[0] == ROWS // 100
named = 'SELECT count(*) FROM "py@monday".pairs WHERE pk = 7'
assert session.execute(named).one()[0] == ROWS // 100
session.execute("DROP SNAPSHOT monday ON KEYSPACE py")

# Errors have the codes that drivers know.
try:
    session.execute("SELECT nothing FROM pairs")
    raise AssertionError("there is no such column")
except InvalidRequest as error:
    assert "nothing" in str(error), error

cluster.shutdown()
print(f"Python cassandra-driver: {len(TYPES)} types, {ROWS} rows: passed")
