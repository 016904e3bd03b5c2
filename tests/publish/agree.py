"""Engines that read Iceberg tables have the rows of a SELECT at the snapshot that was published.

    agree.py EBB DATA LAKE ADDRESS ENGINE...
"""

import datetime
import decimal
import json
import math
import subprocess
import sys
import uuid

from cassandra.util import Date, Duration, Time

import readers
from patient import patient_cluster
from values import plain

ROWS = 2000
# Every type but counter, with a value; decimals are published as decimal(18, 4).
TYPES = {
    "ascii": "plain",
    "bigint": -(2**63),
    "blob": b"\x00\xff",
    "boolean": True,
    "date": Date(datetime.date(2024, 2, 29)),
    "decimal": decimal.Decimal("-12345.6789"),
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
    "varint": -(2**100),
}
NESTED = {
    "list<int>": [3, 1, 2],
    "set<text>": {"b", "a"},
    "map<text, int>": {"one": 1, "two": 2},
    "tuple<int, text>": (1, "one"),
    "frozen<place>": ("Main", 7),
}
SCALARS = [f"c_{name}" for name in TYPES if name != "duration"]
ALL = [f"c_{name}" for name in TYPES] + [f"n_{at}" for at in range(len(NESTED))]
KEYS = ["k", "c"]

ebb, data, lake, address, *engines = sys.argv[1:]
table = f"{lake}/lake/typed"


def rows_of(rows, columns):
    """Returns the values of rows, each a dict, in the order of their keys."""
    found = [[plain(row[name]) for name in KEYS + columns] for row in rows]
    return sorted(found, key=lambda row: (int(row[0]), int(row[1])))


cluster = patient_cluster(address)
session = cluster.connect()
session.execute(
    "CREATE KEYSPACE lake WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
)
session.set_keyspace("lake")
session.execute("CREATE TYPE place (street text, number int)")
columns = [f"c_{name} {name}" for name in TYPES]
columns += [f"n_{at} {ty}" for at, ty in enumerate(NESTED)]
session.execute(
    f"CREATE TABLE typed (k int, c int, s text STATIC, {', '.join(columns)}, PRIMARY KEY (k, c))"
)
session.execute("CREATE TABLE counted (k int PRIMARY KEY, n counter)")
# Engines disagree about the place of NaN among numbers. CQL and DuckDB have it above all others.
session.execute("CREATE TABLE numbers (k int PRIMARY KEY, d double, f float)")
NUMBERS = [1.0, 2.0, math.nan, -0.0, None]
for k, number in enumerate(NUMBERS):
    session.execute("INSERT INTO numbers (k, d, f) VALUES (%s, %s, %s)", [k, number, number])
names = KEYS + ALL
marks = ", ".join("?" for _ in names)
insert = session.prepare(f"INSERT INTO typed ({', '.join(names)}) VALUES ({marks})")
values = list(TYPES.values()) + list(NESTED.values())


def fill(keys):
    for at in keys:
        # Every third value is null; which ones differs from row to row.
        row = [None if (at + place) % 3 == 0 else value for place, value in enumerate(values)]
        session.execute(insert, [at % 50, at] + row)
    for k in range(50):
        session.execute(f"UPDATE typed SET s = 'static {k}' WHERE k = {k}")
        session.execute(f"UPDATE counted SET n = n + {k} WHERE k = {k}")


def publish(snapshot):
    command = [ebb, "publish", f"lake@{snapshot}", lake, "--data", data]
    subprocess.run(command + ["--decimal", "18,4", "--json"], check=True, stdout=subprocess.PIPE)


fill(range(ROWS))
session.execute("DELETE FROM typed WHERE k = 7")
session.execute("DELETE FROM typed WHERE k = 8 AND c < 500")
session.execute("CREATE SNAPSHOT monday ON KEYSPACE lake")
fill(range(ROWS, ROWS + 100))
publish("monday")
session.execute("CREATE SNAPSHOT tuesday ON KEYSPACE lake")
session.execute("DELETE FROM typed WHERE k = 9")
publish("tuesday")

expected = {}
for snapshot in ("monday", "tuesday"):
    selected = []
    for row in session.execute(f'SELECT * FROM "lake@{snapshot}".typed'):
        row = row._asdict()
        # The names of a tuple's components in the published tables, as in Spark.
        pair = row["n_3"]
        row["n_3"] = None if pair is None else {"_1": pair[0], "_2": pair[1]}
        selected.append(row)
    expected[snapshot] = selected
assert len(expected["monday"]) < len(expected["tuesday"])


def metadata(of):
    with open(f"{of}/metadata/version-hint.text", encoding="ascii") as hint:
        return f"{of}/metadata/v{hint.read()}.metadata.json"


def tag(of, name):
    with open(metadata(of), encoding="utf-8") as root:
        return json.load(root)["refs"][name]["snapshot-id"]


def check(engine, rows, snapshot, columns=None):
    columns = columns or ALL
    found, right = rows_of(rows, columns), rows_of(expected[snapshot], columns)
    assert len(found) == len(right), f"{engine}: {len(found)} rows at {snapshot}, not {len(right)}"
    for one, other in zip(found, right):
        assert one == other, f"{engine} at {snapshot}: {one}, and the SELECT returns {other}"
    print(f"{engine}: {len(found)} rows at {snapshot} with {len(columns)} columns are those of the SELECT")


def pyiceberg():
    from pyiceberg.table import StaticTable

    opened = StaticTable.from_metadata(metadata(table))
    for snapshot in expected:
        scan = opened.scan(snapshot_id=opened.metadata.refs[snapshot].snapshot_id)
        check("PyIceberg", scan.to_arrow().to_pylist(), snapshot)
    statics = StaticTable.from_metadata(metadata(f"{lake}/lake/typed_static")).scan().to_arrow()
    assert sorted(statics["s"].to_pylist()) == sorted(f"static {k}" for k in range(50))
    counted = StaticTable.from_metadata(metadata(f"{lake}/lake/counted")).scan().to_arrow()
    assert sum(counted["n"].to_pylist()) == 2 * sum(range(50))


def duckdb():
    connection = readers.duckdb_connection()
    scan = connection.execute(f"SELECT * FROM iceberg_scan('{table}')")
    check("DuckDB", scan.to_arrow_table().to_pylist(), "tuesday")
    monday = f"iceberg_scan('{table}', snapshot_from_id = {tag(table, 'monday')})"
    count = connection.execute(f"SELECT count(*) FROM {monday}").fetchone()[0]
    assert count == len(expected["monday"]), f"DuckDB: {count} rows at monday"
    numbers = f"iceberg_scan('{lake}/lake/numbers')"
    for column in ("d", "f"):
        for condition, right in (("> 5", 2), ("= 'nan'", 2), ("IS NULL", 4)):
            where = f"WHERE {column} {condition}"
            found = connection.execute(f"SELECT k FROM {numbers} {where}").fetchall()
            assert found == [(right,)], f"DuckDB: {found} {where}, and not {right}"
        greatest = connection.execute(f"SELECT max({column}) FROM {numbers}").fetchone()[0]
        assert math.isnan(greatest), f"DuckDB: the greatest {column} is {greatest}"


def polars():
    import polars as engine

    scan = engine.scan_iceberg(metadata(table)).select(KEYS + SCALARS)
    check("Polars", scan.collect().to_dicts(), "tuesday", SCALARS)


def chdb():
    # ClickHouse reads below its working directory only.
    code = (
        "import chdb; print(chdb.query(\"SELECT count(), sum(c), countIf(c_text IS NULL) "
        "FROM icebergLocal('lake/typed')\", 'CSV'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=lake, check=True, stdout=subprocess.PIPE, text=True
    )
    rows = expected["tuesday"]
    right = [len(rows), sum(row["c"] for row in rows), sum(row["c_text"] is None for row in rows)]
    found = [int(number) for number in done.stdout.strip().split(",")]
    assert found == right, f"chDB: {found}, and the SELECT gives {right}"
    print(f"chDB: {found[0]} rows at tuesday")


def spark():
    engine = readers.spark_session(f"file://{lake}", "local[2]")
    for snapshot in expected:
        found = engine.sql(f"SELECT * FROM ebb.lake.typed VERSION AS OF '{snapshot}'").collect()
        check("Spark", [row.asDict(recursive=True) for row in found], snapshot)
    latest = engine.sql("SELECT count(*) FROM ebb.lake.typed").collect()[0][0]
    assert latest == len(expected["tuesday"])
    engine.stop()


READERS = {"pyiceberg": pyiceberg, "duckdb": duckdb, "polars": polars, "chdb": chdb, "spark": spark}
for name in engines:
    READERS[name]()
cluster.shutdown()
print("all engines have the rows of the SELECT")
