"""Word count and sort by ebb and its peers; see README.md."""

import argparse
import hashlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

# Of several ways to say it in each engine, the fastest.
DUCKDB = r"""
import duckdb, sys
text, out, cores = sys.argv[1], sys.argv[2], int(sys.argv[3])
db = duckdb.connect()
db.execute(f"SET threads TO {cores}")
db.execute(r'''
  COPY (
    SELECT word, count(*) AS n FROM (
      SELECT unnest(string_split_regex(lower(line), '[^0-9a-z\x{80}-\x{10ffff}]+')) AS word
      FROM read_csv('TEXT', columns={'line': 'VARCHAR'}, header=false, quote='',
                    escape='', delim=chr(1), auto_detect=false)
    ) WHERE word != '' GROUP BY word
  ) TO 'OUT' (HEADER false, DELIMITER '\t')
'''.replace("TEXT", text).replace("OUT", out))
"""

POLARS = r"""
import os, sys
text, out, cores = sys.argv[1], sys.argv[2], sys.argv[3]
os.environ["POLARS_MAX_THREADS"] = cores
import polars as pl
lines = pl.scan_csv(text, has_header=False, separator="\x01", quote_char=None,
                    new_columns=["line"])
words = lines.select(
    pl.col("line").str.to_lowercase().str.extract_all(r"[^\x00-/:-@\[-`{-\x7f]+"))
counts = words.explode("line").drop_nulls().group_by("line").len()
counts.sink_csv(out, include_header=False, separator="\t")
"""

PYSPARK = """
import os, sys, glob, shutil
text, out, cores = sys.argv[1], sys.argv[2], sys.argv[3]
from pyspark.sql import SparkSession, functions as f
spark = (SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false")
         .config("spark.driver.memory", "2g")
         .config("spark.sql.shuffle.partitions", cores).getOrCreate())
spark.sparkContext.setLogLevel("ERROR")
lines = spark.read.text(text)
words = lines.select(f.explode(f.split(f.lower("value"), r"[^0-9a-z\\x{80}-\\x{10ffff}]+"))
                     .alias("word")).where("word != ''")
words.groupBy("word").count().write.csv(out + ".parts", sep="\\t")
with open(out, "wb") as whole:
    for part in sorted(glob.glob(out + ".parts/part-*")):
        with open(part, "rb") as rows:
            shutil.copyfileobj(rows, whole)
shutil.rmtree(out + ".parts")
"""


def timed(command, env=None):
    """Wall and CPU seconds of a process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    wall_s = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{command} failed:\n{done.stderr[-4000:]}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": wall_s, "cpu_s": cpu_s}


def digest(path, ordered):
    """Of the rows of a file; in their order, or in any."""
    with open(path, "rb") as rows:
        if ordered:
            return hashlib.file_digest(rows, "sha256").hexdigest()
        lines = sorted(line.rstrip(b"\r\n") for line in rows)
    return hashlib.sha256(b"\n".join(lines)).hexdigest()


def prepare(args):
    """Text and records, once; the text in a table with a snapshot."""
    folder = args.dir
    folder.mkdir(parents=True, exist_ok=True)
    records, text, data = folder / "records.txt", folder / "text.txt", folder / "data"
    rows = int(args.gigabytes * 1e9 / 101)
    if not records.exists():
        drawn = folder / "drawn.txt"
        drawn.unlink(missing_ok=True)
        subprocess.run(
            [args.ebb, "run", "select", "--generate", str(rows), "--output", str(drawn)], check=True)
        with open(drawn, "rb") as lines, open(records, "wb") as to, open(text, "wb") as words:
            for line in lines:
                key, value = line.rstrip(b"\n").split(b"\t")
                to.write(key + b" " + value[:89] + b"\n")
                words.write(value + b"\n")
        drawn.unlink()
    if not data.exists():
        ebb = [args.ebb, "load", "--data", str(data), "--table", "app.lines"]
        subprocess.run(ebb + [str(text)], check=True)
        snapshot = [args.ebb, "snapshot", "create", "--data", str(data), "--keyspace", "app", "s"]
        subprocess.run(snapshot, check=True)
    return records, text, data


def word_counts(args, text, data, out):
    """How each engine is started that is there."""
    cores = str(args.cores)
    commands = {
        "ebb": [args.ebb, "run", "wordcount", "--data", str(data), "--table", "app.lines",
                "--snapshot", "s", "--cores", cores, "--output", str(out),
                "--splits", str(4 * args.cores), "--reduces", cores],
    }
    for name, script in [("duckdb", DUCKDB), ("polars", POLARS), ("pyspark", PYSPARK)]:
        found = subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True)
        if found.returncode == 0:
            commands[name] = [sys.executable, "-c", script, str(text), str(out), cores]
        else:
            print(f"{name} cannot be imported: left out", file=sys.stderr)
    return commands


def sorts(args, records, out):
    """ebb's tasks together get 256 MiB, as GNU sort's buffer does."""
    cores = str(args.cores)
    return {
        "ebb": [args.ebb, "run", "sort", "--text", str(records), "--cores", cores,
                "--spill-dir", str(args.dir / "spill"), "--output", str(out), "--memory", "256MiB",
                "--reduces", str(4 * args.cores), "--splits", str(8 * args.cores)],
        "gnu sort": ["sort", "-S", "256M", "--parallel", cores, "-T", str(args.dir),
                     "-o", str(out), str(records)],
    }


def compare(name, commands, out, rounds, ordered):
    """Runs the engines in turns; their medians, and that their rows are equal."""
    env = {**os.environ, "LC_ALL": "C"}
    runs, digests = {engine: [] for engine in commands}, {}
    for _ in range(rounds):
        for engine, command in commands.items():
            out.unlink(missing_ok=True)
            os.sync()
            runs[engine].append(timed(command, env))
            digests[engine] = digest(out, ordered)
    out.unlink(missing_ok=True)
    if len(set(digests.values())) != 1:
        sys.exit(f"{name}: the rows differ: {digests}")
    median = lambda engine, what: statistics.median(run[what] for run in runs[engine])
    results = {}
    print(f"\n{name:12} {'wall s':>8} {'CPU s':>8} {'ebb is faster by':>18}")
    for engine in commands:
        wall_s, cpu_s = median(engine, "wall_s"), median(engine, "cpu_s")
        ratio = wall_s / median("ebb", "wall_s")
        results[engine] = {"wall_s": wall_s, "cpu_s": cpu_s, "over_ebb": ratio,
                           "runs": runs[engine]}
        print(f"{engine:12} {wall_s:8.2f} {cpu_s:8.2f} {ratio:18.2f}")
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ebb", default="target/release/ebb")
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["wordcount", "sort"])
    parser.add_argument("--json-file", dest="json", type=Path)
    args = parser.parse_args()
    args.ebb = str(Path(args.ebb).resolve())
    if shutil.which("sort") is None:
        sys.exit("there is no GNU sort")
    records, text, data = prepare(args)
    out = args.dir / "out.tsv"
    results = {"gigabytes": args.gigabytes, "cores": args.cores, "rounds": args.rounds}
    if args.only != "sort":
        commands = word_counts(args, text, data, out)
        results["wordcount"] = compare("word count", commands, out, args.rounds, False)
    if args.only != "wordcount":
        sorted_out = args.dir / "sorted.txt"
        commands = sorts(args, records, sorted_out)
        results["sort"] = compare("sort", commands, sorted_out, args.rounds, True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
