"""Measures `ebb publish`: CPU and size beside DuckDB's COPY, publications of changes beside a full one, memory.

A table of readings, partitioned by device and clustered by time, is loaded and published to a folder. Then 1% of
its rows are changed at random, the newest 1% are added, and a tenth expires; each change is published to the same
folder. All commands of ebb but the loads run in `ebb serve`, without other load. CPU time is that of the server and
of the command. It begins when the server rests, so flushes and merges of the loads do not count. README.md has more.
"""

import argparse
import collections
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from cassandra.cluster import Cluster
from cassandra.query import BatchStatement, BatchType

sys.path.append(str(Path(__file__).parents[2] / "tests/publish"))
import readers  # noqa: E402

DEVICES = 20_000
TABLE = "lab.readings"
SCHEMA = [
    "CREATE KEYSPACE lab WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    f"CREATE TABLE {TABLE} (device int, taken_at timestamp, kind text, city text, reading double, price decimal, "
    "note text, PRIMARY KEY (device, taken_at))",
]
DECIMAL = "12,2"
# The mean bytes of the values of a row, for the number of rows. main() counts them exactly.
ROW_BYTES = 93
# The server rests if it uses at most this part of a core for RESTS_S seconds.
REST_CORES = 0.05
RESTS_S = 3
REST_LIMIT_S = 1800
BATCH_ROWS = 100
BATCHES_AT_ONCE = 32
# DuckDB compresses at the level of ebb.
ZSTD_LEVEL = 3


def rows_of(first, last, seed, where="true"):
    """Returns the SQL of the readings numbered `first` to `last` (exclusive) of each device. The seed changes the
    values, not the keys."""
    return f"""
        SELECT device::INTEGER AS device,
            make_timestamptz(1767225600000000 + 60000000 * number + 1000 * device) AS taken_at,
            'kind' || (h % 8) AS kind,
            'city' || (h // 8 % 500) AS city,
            (h // 7 % 1000000) / 1000.0 AS reading,
            ((h // 11 % 10000000) / 100)::DECIMAL(12, 2) AS price,
            md5((h + 1)::VARCHAR)[:20] || ' ' || md5((h // 4000)::VARCHAR)[:39] AS note
        FROM (
            SELECT device, number, (hash(device * 1000003 + number + {seed}) >> 2)::BIGINT AS h
            FROM range({DEVICES}) d(device), range({first}, {last}) n(number)
        )
        WHERE {where}"""


def cpu_s(pid):
    """Returns the CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_bytes(pid):
    """Returns the anonymous resident memory of a process. Pages of mapped files are not counted."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"^RssAnon:\s+(\d+) kB$", text, re.MULTILINE).group(1)) * 1024


def children_cpu_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class PeakMemory:
    """The most anonymous memory of a process while a block runs, looked at every 20 ms."""

    def __init__(self, pid):
        self.pid, self.over = pid, threading.Event()

    def __enter__(self):
        self.before_bytes = self.most_bytes = memory_bytes(self.pid)
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.over.wait(0.02):
            self.most_bytes = max(self.most_bytes, memory_bytes(self.pid))

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class Ebb:
    """A database, and a server over it except during a load."""

    def __init__(self, program, folder):
        self.program, self.folder = program, Path(folder)
        self.data = self.folder / "data"
        self.server = None

    def start(self):
        log = open(self.folder / "server.log", "a", encoding="utf-8")
        command = [self.program, "serve", "--data", self.data, "--cql", "127.0.0.1:0"]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.server.stdout.readline()
        prefix = "listening for CQL on "
        if not line.startswith(prefix):
            sys.exit(f"ebb serve did not start; its log is {log.name}")
        self.address = line.removeprefix(prefix).strip()

    def stop(self):
        if self.server:
            self.server.terminate()
            self.server.wait()
            self.server.stdout.close()
            self.server = None

    def execute(self, *statements):
        host, _, port = self.address.rpartition(":")
        with Cluster([host], port=int(port)) as cluster:
            session = cluster.connect()
            for statement in statements:
                session.execute(statement, timeout=60)

    def await_rest(self):
        """Waits until flushes and merges are done."""
        give_up_s = time.monotonic() + REST_LIMIT_S
        rested = 0
        while rested < RESTS_S:
            if time.monotonic() > give_up_s:
                sys.exit(f"the server does not rest within {REST_LIMIT_S} s")
            before_s = cpu_s(self.server.pid)
            time.sleep(1)
            rested = rested + 1 if cpu_s(self.server.pid) - before_s <= REST_CORES else 0

    def load(self, db, sql, *options):
        """Loads the rows of a query, by a Parquet file, while the server is stopped. `options` are those of
        DuckDB's COPY."""
        file = self.folder / "rows.parquet"
        db.execute(f"COPY ({sql}) TO '{file}' ({', '.join(['FORMAT parquet', *options])})")
        self.stop()
        subprocess.run([self.program, "load", "--data", self.data, "--table", TABLE, file], check=True,
                       stdout=subprocess.DEVNULL)
        file.unlink()
        self.start()

    def insert_expiring(self, db, sql, ttl_s):
        """Writes the rows of a query through CQL: `ebb load` writes rows that never expire."""
        host, _, port = self.address.rpartition(":")
        rows = db.execute(f"SELECT * REPLACE (epoch_ms(taken_at) AS taken_at) FROM ({sql}) ORDER BY device, taken_at")
        with Cluster([host], port=int(port)) as cluster:
            session = cluster.connect()
            insert = session.prepare(f"INSERT INTO {TABLE} (device, taken_at, kind, city, reading, price, note) "
                                     f"VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL {ttl_s}")
            sent = collections.deque()
            while chunk := rows.fetchmany(BATCH_ROWS):
                batch = BatchStatement(BatchType.UNLOGGED)
                for row in chunk:
                    batch.add(insert, row)
                sent.append(session.execute_async(batch, timeout=60))
                if len(sent) > BATCHES_AT_ONCE:
                    sent.popleft().result()
            for request in sent:
                request.result()

    def publish(self, snapshot, lake, *words):
        """Creates a snapshot and publishes it. Returns time, CPU time, the bytes that were written, and memory."""
        self.await_rest()
        run = [self.program, "snapshot", "create", "--data", self.data, "--keyspace", "lab", snapshot]
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
        before = bytes_of(lake)
        run = [self.program, "publish", "--data", self.data, f"lab@{snapshot}", lake, "--decimal", DECIMAL, "--json"]
        begin_s, begin_cpu_s = time.monotonic(), cpu_s(self.server.pid) + children_cpu_s()
        with PeakMemory(self.server.pid) as memory:
            done = subprocess.run([*run, *words], check=True, stdout=subprocess.PIPE, text=True)
        return {
            "seconds": time.monotonic() - begin_s,
            "cpu_s": cpu_s(self.server.pid) + children_cpu_s() - begin_cpu_s,
            # Files are never changed, and within a publication only those of the publication are removed.
            "written_bytes": sum(size for path, size in bytes_of(lake).items() if path not in before),
            "memory_bytes": memory.most_bytes - memory.before_bytes,
            "notes": json.loads(done.stdout).get("notes"),
        }


def bytes_of(folder):
    """Returns the size of each file below a folder, which may not exist yet."""
    return {path: path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()}


def iceberg(lake):
    return f"iceberg_scan('{lake}/lab/readings')"


def copy_by_duckdb(table_file, out, row_group_rows):
    """Copies DuckDB's own table to a Parquet file, in a process of its own. Returns time, CPU time and size."""
    sql = (f"COPY readings TO '{out}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL {ZSTD_LEVEL}, "
           f"ROW_GROUP_SIZE {row_group_rows})")
    script = (f"import duckdb; db = duckdb.connect({str(table_file)!r}, read_only=True); "
              f"db.execute('SET threads = {os.cpu_count()}'); db.execute('SET enable_progress_bar = false'); "
              f"db.execute({sql!r})")
    begin_s, begin_cpu_s = time.monotonic(), children_cpu_s()
    subprocess.run([sys.executable, "-c", script], check=True)
    usage = {"seconds": time.monotonic() - begin_s, "cpu_s": children_cpu_s() - begin_cpu_s,
             "bytes": Path(out).stat().st_size}
    Path(out).unlink()
    return usage


def connect():
    db = readers.duckdb_connection()
    db.execute(f"SET threads = {os.cpu_count()}")
    db.execute("SET enable_progress_bar = false")
    return db


def check(db, lake, rows):
    """The published table has as many rows as the table of ebb should have."""
    found = db.execute(f"SELECT count(*) FROM {iceberg(lake)}").fetchone()[0]
    assert found == rows, f"{lake} has {found} rows instead of {rows}"


def full(args, ebb, db):
    """Compares full publications with DuckDB's COPY of the same rows, in turn."""
    rounds, ours, theirs = args.rounds, [], []
    table_file, row_group_rows = ebb.folder / "readings.duckdb", None
    for number in range(rounds):
        lake = ebb.folder / f"full{number}"
        ours.append(ebb.publish(f"full{number}", lake, "--full", "--pin-max", "0s"))
        files = f"'{lake}/lab/readings/data/**/*.parquet'"
        if row_group_rows is None:
            # Groups of as many rows as ebb's have. DuckDB cuts at multiples of its vectors of 2,048 rows.
            row_group_rows = db.execute(f"SELECT median(row_group_num_rows) FROM parquet_metadata({files}) "
                                        "WHERE column_id = 0").fetchone()[0]
            row_group_rows = max(1, round(row_group_rows / 2048)) * 2048
            db.execute(f"ATTACH '{table_file}' AS own")
            db.execute(f"CREATE TABLE own.readings AS SELECT * FROM read_parquet({files})")
            db.execute("DETACH own")
        ours[-1]["data_bytes"] = sum(size for path, size in bytes_of(lake).items() if path.suffix == ".parquet")
        theirs.append(copy_by_duckdb(table_file, ebb.folder / "copy.parquet", row_group_rows))
        shutil.rmtree(lake)
    table_file.unlink()
    return {"row_group_rows": row_group_rows, "ebb": ours, "duckdb": theirs}


def changes(args, ebb, db, per_device, expire_s):
    """Publishes a full table and then changes to one folder: 1% at random, the newest 1%, a tenth that expires."""
    lake = ebb.folder / "lake"
    rows = DEVICES * per_device
    kept = "device % 10 != 0"
    live_rows = rows - rows // 10
    found = {"first": ebb.publish("first", lake)}
    check(db, lake, rows)
    if args.publications == 1:
        return found
    newest = max(1, per_device // 100)
    ebb.load(db, rows_of(0, per_device, 1, f"{kept} AND hash(h) % 90 = 0"))
    found["random"] = ebb.publish("random", lake)
    check(db, lake, rows)
    # No rows of the devices whose rows expire, so that afterwards exactly a tenth of the rows goes.
    ebb.load(db, rows_of(per_device, per_device + newest, 0, kept))
    found["newest"] = ebb.publish("newest", lake)
    added = DEVICES * 9 // 10 * newest
    check(db, lake, rows + added)
    left_s = expire_s - time.time()
    assert left_s > 0, f"rows expired {-left_s:.0f} s too early: give a larger --ttl"
    print(f"waiting {left_s:.0f} s for rows to expire", flush=True)
    time.sleep(left_s + 2)
    found["expired"] = ebb.publish("expired", lake)
    check(db, lake, live_rows + added)
    fresh = ebb.folder / "fresh"
    if args.publications > 4:
        for number in range(4, args.publications):
            print(f"publication {number + 1} of {args.publications}", flush=True)
            ebb.load(db, rows_of(0, per_device, number, f"{kept} AND hash(h) % 90 = 0"))
            found["last"] = ebb.publish(f"more{number}", lake)
        ebb.publish("fresh", fresh, "--pin-max", "0s")
        scan = "SELECT count(*), sum(price), sum(reading), max(note), min(city) FROM "
        for name, folder in [("scan_many_s", lake), ("scan_fresh_s", fresh)] * max(args.rounds, 3):
            begin_s = time.monotonic()
            db.execute(scan + iceberg(folder)).fetchall()
            found.setdefault(name, []).append(time.monotonic() - begin_s)
    return found


def print_results(found):
    rows, value_bytes = found["rows"], found["value_bytes"]
    def middle(runs, name):
        return statistics.median(run[name] for run in runs)
    if both := found.get("full"):
        ours, theirs = both["ebb"], both["duckdb"]
        for name, runs in [("ebb publish", ours), ("DuckDB COPY", theirs)]:
            rate = value_bytes / 1e6 / middle(runs, "cpu_s")
            print(f"{name}: {middle(runs, 'seconds'):.1f} s, {middle(runs, 'cpu_s'):.1f} CPU s, "
                  f"{rate:.0f} MB of values per CPU second")
        ratio = middle(theirs, "cpu_s") / middle(ours, "cpu_s")
        print(f"rate per CPU second / DuckDB's: {ratio:.2f}")
        print(f"size / DuckDB's: {middle(ours, 'data_bytes') / middle(theirs, 'bytes'):.3f}")
        print(f"memory above the resting server: {max(run['memory_bytes'] for run in ours) / 1e6:.0f} MB")
    if published := found.get("changes"):
        first = published["first"]
        print(f"first publication of {rows} rows: {first['written_bytes'] / 1e6:.1f} MB, {first['cpu_s']:.1f} CPU s, "
              f"memory {first['memory_bytes'] / 1e6:.0f} MB")
        for name in ["random", "newest", "expired", "last"]:
            if step := published.get(name):
                print(f"{name}: bytes / first {step['written_bytes'] / first['written_bytes']:.4f}, "
                      f"CPU / first {step['cpu_s'] / first['cpu_s']:.3f}, {step['seconds']:.1f} s")
        if many := published.get("scan_many_s"):
            fresh = statistics.median(published["scan_fresh_s"])
            print(f"full scan after all publications / of a fresh one: {statistics.median(many) / fresh:.2f} "
                  f"({fresh:.2f} s)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ebb", default="target/release/ebb", help="the program")
    parser.add_argument("--gigabytes", type=float, default=1, help="bytes of values in the table [default: 1]")
    parser.add_argument("--rounds", type=int, default=3, help="full publications and copies by DuckDB, in turn; "
                        "0 leaves them out [default: 3]")
    parser.add_argument("--publications", type=int, default=4, help="publications to one folder; those beyond the "
                        "fourth change 1%% at random each; 0 leaves them out, 1 makes the first one only [default: 4]")
    parser.add_argument("--ttl", type=int, default=300, help="seconds after which a tenth of the rows expires; the "
                        "three publications before must be done by then [default: 300]")
    parser.add_argument("--dir", help="folder for database and publications [default: a temporary one]")
    parser.add_argument("--json-file", help="writes all measurements to this file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        per_device = max(100, round(args.gigabytes * 1e9 / ROW_BYTES / DEVICES))
        ebb, db = Ebb(Path(args.ebb).resolve(), folder), connect()
        found = {"rows": DEVICES * per_device, "cpus": os.cpu_count()}
        try:
            ebb.start()
            ebb.execute(*SCHEMA)
            ebb.load(db, rows_of(0, per_device, 0))
            # An int, a timestamp, a double, and a decimal as 8 bytes.
            values = db.execute("SELECT avg(28 + length(kind) + length(city) + length(note)) FROM "
                                f"({rows_of(0, 1, 0)})").fetchone()[0]
            found["value_bytes"] = values * found["rows"]
            if args.rounds:
                found["full"] = full(args, ebb, db)
            expire_s = None
            if args.publications > 1:
                ebb.insert_expiring(db, rows_of(0, per_device, 0, "device % 10 = 0"), args.ttl)
                expire_s = time.time() + args.ttl
            if args.publications:
                found["changes"] = changes(args, ebb, db, per_device, expire_s)
        finally:
            ebb.stop()
    print_results(found)
    if args.json_file:
        Path(args.json_file).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
