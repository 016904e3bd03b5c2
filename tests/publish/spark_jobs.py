"""Runs the same jobs by ebb over a snapshot, and by Spark over the publication of the snapshot.

tests/publish/spark_jobs starts the server and calls this; `--help` lists the options.
"""

import argparse
import csv
import datetime
import decimal
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import time
from pathlib import Path

import drawn
import readers
from patient import patient_cluster

SNAPSHOT = "monday"
DAMPING = 0.85
ITERATIONS = 10
# Ranks are sums of floats, and each engine adds them up in an order of its own.
RANK_ERROR_MAX = 1e-9
# Executors of local-cluster, with a core each; a job of ebb gets as many cores.
EXECUTORS = 2
# Ends a hang, and is no measure of speed.
EXECUTORS_LIMIT_S = 120
LOAD_RECORDS = 20_000
LOAD_OPS_PER_S = 500
SCHEMA = [
    "CREATE KEYSPACE lab WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE lab.lines (id bigint PRIMARY KEY, text text)",
    "CREATE TABLE lab.links (source bigint, target bigint, PRIMARY KEY (source, target))",
    "CREATE TABLE lab.trips (id bigint PRIMARY KEY, city text, fare decimal)",
]
PAGE = Path(__file__).parents[2] / "docs/src/guide/more-machines.md"


class Usage:
    """Time and CPU time of a block. The CPU time is that of this process, of its children that end in the
    block, and of the processes `roots` with all processes below them. Other children that run are not counted,
    such as the executors of Spark during a job of ebb."""

    def __init__(self, *roots):
        self.roots = roots

    def __enter__(self):
        self.begin_s, self.begin_cpu_s = time.monotonic(), self.cpu_now_s()
        return self

    def __exit__(self, *_):
        self.seconds = time.monotonic() - self.begin_s
        self.cpu_s = self.cpu_now_s() - self.begin_cpu_s

    def cpu_now_s(self):
        """Returns the CPU time of the processes until now, with that of children that have ended."""
        parents, ticks = {}, {}
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            try:
                with open(f"/proc/{entry.name}/stat", encoding="utf-8", errors="replace") as stat:
                    # The name of the program, in parentheses, may have any characters.
                    fields = stat.read().rpartition(")")[2].split()
            except OSError:
                continue  # It has ended.
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))

        def is_below(pid):
            while pid not in self.roots and pid in parents:
                pid = parents[pid]
            return pid in self.roots

        counted = (of for pid, of in ticks.items() if pid == os.getpid() or is_below(pid))
        return sum(counted) / os.sysconf("SC_CLK_TCK")

    def as_json(self):
        return {"seconds": self.seconds, "cpu_s": self.cpu_s}


def median(usages):
    """Returns the medians of several runs of the same step."""
    return {name: statistics.median(usage[name] for usage in usages) for name in usages[0]}


class Ebb:
    """The commands of ebb, which run in the server."""

    def __init__(self, args):
        self.program, self.data = args.ebb, f"{args.folder}/data"
        self.server_pid = args.server_pid
        self.folder = args.folder

    def __call__(self, *words):
        """Runs a command; returns its report and its usage."""
        command = [self.program, *words, "--data", self.data, "--json"]
        with Usage(self.server_pid) as usage:
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout), usage.as_json()

    def job(self, application, file, *words):
        """Runs an application over the snapshot into a new file."""
        path = Path(self.folder, file)
        path.unlink(missing_ok=True)
        _, usage = self(
            "run", application, "--snapshot", SNAPSHOT, "--cores", str(EXECUTORS),
            "--reduces", str(EXECUTORS), "--output", str(path), *words,
        )
        return path, usage

    def publish(self, lake):
        """Publishes all tables of the snapshot."""
        return self("publish", f"lab@{SNAPSHOT}", str(lake), "--decimal", "12,2")


class Spark:
    """Spark with executors of their own, over the published tables."""

    def __init__(self, lake, folder):
        # A worker of local-cluster finds its programs, and makes its folder, below SPARK_HOME.
        self.home = readers.spark_home()
        os.environ |= {"SPARK_HOME": self.home, "SPARK_LOCAL_IP": "127.0.0.1"}
        os.environ.setdefault("SPARK_SCALA_VERSION", "2.12")
        settings = {
            "spark.local.dir": f"{folder}/spark",
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "1024m",
            "spark.sql.shuffle.partitions": str(2 * EXECUTORS),
        }
        self.folder = Path(folder)
        with Usage(os.getpid()) as usage:
            self.session = readers.spark_session(f"file://{lake}", f"local-cluster[{EXECUTORS},1,1024]", settings)
            self.await_executors()
        self.started = usage.as_json()

    def await_executors(self):
        """Waits until all executors run; they start one by one."""
        give_up_s = time.monotonic() + EXECUTORS_LIMIT_S
        status = self.session.sparkContext._jsc.sc().getExecutorMemoryStatus
        # The driver is in the list, too.
        while (executors := status().size() - 1) != EXECUTORS:
            late = f"Spark has {executors} of {EXECUTORS} executors after {EXECUTORS_LIMIT_S} s"
            assert time.monotonic() < give_up_s, late
            time.sleep(0.1)

    def table(self, name):
        return self.session.sql(f"SELECT * FROM ebb.lab.{name} VERSION AS OF '{SNAPSHOT}'")

    def job(self, application):
        """Runs a job into a new folder of CSV files; returns its rows and its usage."""
        path = self.folder / f"spark-{application.__name__}"
        shutil.rmtree(path, ignore_errors=True)
        with Usage(os.getpid()) as usage:
            application(self).write.csv(f"file://{path}", sep="\t")
        # Otherwise the next round would use the cache of this one.
        self.session.catalog.clearCache()
        rows = []
        for part in sorted(path.glob("part-*")):
            with open(part, encoding="utf-8", newline="") as file:
                rows += csv.reader(file, delimiter="\t")
        return rows, usage.as_json()

    def stop(self):
        self.session.stop()
        shutil.rmtree(f"{self.home}/work", ignore_errors=True)


def wordcount(spark):
    from pyspark.sql import functions as f

    # The words of ebb: sequences of letters, digits and characters beyond ASCII.
    words = f.split(f.lower("text"), r"[^0-9a-z\x{80}-\x{10ffff}]+")
    words = spark.table("lines").select(f.explode(words).alias("word")).where("word != ''")
    return words.groupBy("word").count()


def aggregate(spark):
    from pyspark.sql import functions as f

    mean = f.sum("fare").cast("double") / f.count("fare")
    columns = [f.count("*"), f.count("fare"), f.sum("fare"), f.min("fare"), f.max("fare"), mean]
    columns = [column.alias(f"_{at}") for at, column in enumerate(columns)]
    return spark.table("trips").groupBy("city").agg(*columns)


def pagerank(spark):
    """Computes the formula of ebb's `pagerank`: nodes without links share their rank with all nodes."""
    from pyspark.sql import functions as f

    links = spark.table("links").cache()
    out = links.groupBy("source").agg(f.count("*").alias("links")).withColumnRenamed("source", "node")
    ends = links.select(f.col("source").alias("node")).union(links.select("target")).distinct()
    nodes = ends.join(out, "node", "left").na.fill(0, ["links"]).localCheckpoint()
    count = nodes.count()
    ranks = nodes.withColumn("rank", f.lit(1 / count))
    for _ in range(ITERATIONS):
        dangling = ranks.where("links = 0").agg(f.sum("rank")).first()[0] or 0.0
        base = (1 - DAMPING + DAMPING * dangling) / count
        shares = ranks.where("links > 0").select(
            f.col("node").alias("source"), (f.col("rank") / f.col("links")).alias("share")
        )
        shares = links.join(shares, "source").groupBy("target").agg(f.sum("share").alias("share"))
        ranks = nodes.join(shares.withColumnRenamed("target", "node"), "node", "left").select(
            "node",
            "links",
            (f.lit(base) + f.lit(DAMPING) * f.coalesce("share", f.lit(0.0))).alias("rank"),
        )
        # Otherwise each iteration would compute all earlier ones again.
        ranks = ranks.localCheckpoint()
    return ranks.select("node", "rank")


def keyed(rows):
    """Returns the rows by their first field, which must differ."""
    rows = list(rows)
    found = {row[0]: row[1:] for row in rows}
    assert len(found) == len(rows), "several rows have the same key"
    return found


def compare(name, ours, theirs):
    """Checks that two results are equal; returns the largest relative difference of floats."""
    ours, theirs = keyed(ours), keyed(theirs)
    alone = sorted(ours.keys() ^ theirs.keys())
    assert not alone, f"{name}: {len(alone)} rows are in one result only, such as {alone[0]!r}"
    assert ours, f"{name}: the results are empty"
    difference_max = 0.0
    for key, row in ours.items():
        other = theirs[key]
        assert len(row) == len(other), f"{name}: {key!r} has {row} and {other}"
        # Ranks and means are floats, and the last column; all other numbers are exact.
        exact = len(row) if name == "wordcount" else len(row) - 1
        for one, two in zip(row[:exact], other[:exact]):
            equal = decimal.Decimal(one) == decimal.Decimal(two)
            assert equal, f"{name}: {key!r} has {row} and {other}"
        for one, two in zip(map(float, row[exact:]), map(float, other[exact:])):
            assert math.isclose(one, two, rel_tol=RANK_ERROR_MAX), f"{name}: {key!r}: {one}, {two}"
            difference_max = max(difference_max, abs(one - two) / abs(one))
    return difference_max


def ebb_rows(path):
    """Returns the rows of a file that ebb wrote: text, or CSV with a header."""
    with open(path, encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            return list(csv.reader(file))[1:]
        return [line.rstrip("\n").split("\t") for line in file]


# For each job: its function in Spark, the table, and the arguments of ebb's command.
JOBS = [
    (wordcount, "lines", ["words.tsv", "--table", "lab.lines", "--columns", "text"]),
    (aggregate, "trips", ["cities.csv", "--table", "lab.trips", "--by", "city", "--of", "fare"]),
    (pagerank, "links", [
        "ranks.tsv", "--table", "lab.links", "--from", "source", "--to", "target",
        "--iterations", str(ITERATIONS), "--damping", str(DAMPING),
    ]),
]


def fill(ebb, address, megabytes):
    """Makes the tables through CQL, fills them by jobs and creates the snapshot; returns the CSV bytes of
    each table."""
    paths = drawn.draw(ebb.folder, megabytes)
    cluster = patient_cluster(address)
    session = cluster.connect()
    for statement in SCHEMA:
        session.execute(statement)
    for table, path in paths.items():
        ebb("run", "select", "--csv", path, "--output", f"lab.{table}")
    session.execute(f"CREATE SNAPSHOT {SNAPSHOT} ON KEYSPACE lab")
    cluster.shutdown()
    return {table: os.path.getsize(path) for table, path in paths.items()}


def run_jobs(ebb, spark, sizes, rounds):
    """Runs each job by both engines, in turns, and compares the results of each round."""
    jobs, results = [], {}
    for application, table, words in JOBS:
        name = application.__name__
        ours, theirs, difference_max = [], [], 0.0
        for _ in range(rounds):
            path, usage = ebb.job(name, *words)
            ours.append(usage)
            rows, usage = spark.job(application)
            theirs.append(usage)
            results[name] = ebb_rows(path)
            difference_max = max(difference_max, compare(name, results[name], rows))
        jobs.append({
            "name": name, "table": table, "bytes": sizes[table], "result_rows": len(results[name]),
            "difference_max": difference_max, "ebb": median(ours), "spark": median(theirs),
        })
        print(f"{name}: ebb {shown(jobs[-1]['ebb'])}, Spark {shown(jobs[-1]['spark'])}; "
              f"{len(results[name])} equal rows, the largest difference is {difference_max:.1e}")
    return jobs, results


def shown(usage):
    return f"{usage['seconds']:.2f} s ({usage['cpu_s']:.2f} s of CPU)"


def run_queries(folder, results):
    """Runs the DuckDB queries of the page, whose results must be those of the jobs."""
    section = PAGE.read_text(encoding="utf-8").partition("## Queries in DuckDB")[2]
    section = section.partition("\n## ")[0]
    blocks = re.findall(r"```sql\n(.*?)```", section, re.DOTALL)
    # The page has the queries of these jobs in this order.
    names = ["aggregate", "wordcount"]
    assert len(blocks) == len(names), f"{PAGE} has {len(blocks)} queries for DuckDB"
    connection = readers.duckdb_connection()
    # The page names the tables by paths relative to the folder of the lake.
    os.chdir(folder)
    queries = []
    for name, sql in zip(names, blocks):
        with Usage() as usage:
            rows = connection.execute(sql).fetchall()
        rows = [[str(field) for field in row] for row in rows]
        ours = results[name]
        if name == "aggregate":
            # The query has no mean.
            ours = [row[:-1] for row in ours]
            compare_exactly(name, ours, rows)
        else:
            compare(name, ours, rows)
        queries.append({"name": name, **usage.as_json()})
        print(f"DuckDB, {name}: {shown(usage.as_json())}; {len(rows)} equal rows")
    return queries


def compare_exactly(name, ours, theirs):
    """Checks that two results are equal in every column."""
    def exact(rows):
        return {key: [decimal.Decimal(field) for field in row] for key, row in keyed(rows).items()}

    assert exact(ours) == exact(theirs), f"{name}: the rows are not equal"


def measure_load(args, ebb, publish_s):
    """Returns the latencies of point reads at a fixed rate, alone and beside publications."""
    def load(file, seconds):
        command = [
            args.ebb_bench, "ycsb", "--workload", "c", "--cql", args.address,
            "--records", str(LOAD_RECORDS), "--target", str(LOAD_OPS_PER_S),
            "--duration", str(seconds), "--server-pid", str(args.server_pid),
            "--json-file", str(file),
        ]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def latencies(process, file):
        assert process.wait() == 0, "the load failed"
        found = json.loads(Path(file).read_text(encoding="utf-8"))
        unserved = found["operations_unserved"]
        return found["latencies_all"] | {"operations_unserved": unserved}

    folder = Path(args.folder)
    seconds = min(max(10, math.ceil(3 * publish_s)), 120)
    # The first run makes the records.
    latencies(load(folder / "fill.json", 1), folder / "fill.json")
    alone = latencies(load(folder / "alone.json", seconds), folder / "alone.json")
    process = load(folder / "beside.json", seconds)
    publications = 0
    while process.poll() is None:
        lake = folder / f"lake-{publications}"
        ebb.publish(lake)
        shutil.rmtree(lake)
        publications += 1
    beside = latencies(process, folder / "beside.json")
    print(f"load of {LOAD_OPS_PER_S} reads/s for {seconds} s: p99 {alone['p99_us']:.0f} us alone, "
          f"{beside['p99_us']:.0f} us beside {publications} publications")
    return {
        "ops_per_s": LOAD_OPS_PER_S, "seconds": seconds, "publications": publications,
        "alone": alone, "publishing": beside,
    }


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--ebb", "--ebb-bench", "--folder", "--address", "--json-file"):
        parser.add_argument(option, required=True)
    parser.add_argument("--server-pid", type=int, required=True)
    parser.add_argument("--megabytes", type=int, default=64, help="of text [default: 64]")
    parser.add_argument("--rounds", type=int, default=3, help="of each job [default: 3]")
    args = parser.parse_args()
    if args.megabytes < 1 or args.rounds < 1:
        parser.error("--megabytes and --rounds are at least 1")
    for name in ("ebb_bench", "json_file"):
        setattr(args, name, os.path.abspath(getattr(args, name)))
    return args


def main():
    args = arguments()
    decimal.getcontext().prec = 60
    ebb = Ebb(args)
    sizes = fill(ebb, args.address, args.megabytes)
    lake = Path(args.folder, "lake")
    _, published = ebb.publish(lake)
    print(f"publication: {shown(published)}")
    spark = Spark(str(lake), args.folder)
    print(f"start of Spark: {shown(spark.started)}")
    jobs, results = run_jobs(ebb, spark, sizes, args.rounds)
    spark.stop()
    queries = run_queries(args.folder, results)
    load = measure_load(args, ebb, published["seconds"])
    files = [path for path in lake.rglob("*.parquet") if path.is_file()]
    found = {
        "date": datetime.date.today().isoformat(),
        "cores": len(os.sched_getaffinity(0)),
        "versions": readers.versions(),
        "rounds": args.rounds,
        "executors": EXECUTORS,
        "publish": {
            **published, "bytes": sum(sizes.values()),
            "published_bytes": sum(path.stat().st_size for path in files),
        },
        "spark_start": spark.started,
        "jobs": jobs,
        "duckdb": queries,
        "load": load,
    }
    Path(args.json_file).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"the results of ebb, Spark and DuckDB are equal; the numbers are in {args.json_file}")


if __name__ == "__main__":
    main()
