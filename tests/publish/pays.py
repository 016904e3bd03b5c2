"""When publishing pays, computed from the rates that tests/publish/spark_jobs measured.

    pays.py MEASURED              prints every block of the book's page, as Markdown
    pays.py MEASURED PAGE         puts the blocks into the page, between their marks

Options: `--free-cores N`, the cores that the load leaves on the machine of the database (default: all);
`--machine-cores N`, the cores of each other machine (default: 8).

A block of the page is between `<!-- begin NAME -->` and `<!-- end NAME -->`. With B the bytes of a table as
CSV and c the measured CPU seconds per byte:

    here     = B * c(ebb) / free cores
    publish  = B * c(publish) / free cores
    there    = publish + start of Spark + B * c(Spark) / (machines * cores)

`ebb run --dry-run` computes the same from constants in server/jobs/src/advice/spark.rs. After the page has changed,
a test of ebb-jobs fails until they are those of the page.
"""

import argparse
import json
import math
import sys
from dataclasses import dataclass

GB = 10**9
SIZES_GB = [1, 10, 100, 1000]
GOALS_S = {"10 minutes": 600, "1 hour": 3600, "8 hours": 8 * 3600}


@dataclass(frozen=True)
class Rates:
    """The measured rates of one job, and the cores that it would have."""

    here_cpu_s_per_byte: float
    publish_cpu_s_per_byte: float
    there_cpu_s_per_byte: float
    # Seconds until Spark can begin.
    start_s: float
    # Cores that the load leaves on the machine of the database.
    free_cores: float
    # Cores of each other machine.
    machine_cores: int

    @staticmethod
    def of(measured, job, free_cores, machine_cores):
        publish = measured["publish"]
        return Rates(
            here_cpu_s_per_byte=job["ebb"]["cpu_s"] / job["bytes"],
            publish_cpu_s_per_byte=publish["cpu_s"] / publish["bytes"],
            there_cpu_s_per_byte=job["spark"]["cpu_s"] / job["bytes"],
            start_s=measured["spark_start"]["seconds"],
            free_cores=free_cores,
            machine_cores=machine_cores,
        )

    def here_s(self, size_bytes):
        """The time of the job on the machine of the database."""
        return size_bytes * self.here_cpu_s_per_byte / self.free_cores

    def publish_s(self, size_bytes):
        """The time of the publication, which runs on the machine of the database."""
        return size_bytes * self.publish_cpu_s_per_byte / self.free_cores

    def machines(self, size_bytes, goal_s):
        """The least number of other machines that meet the goal; None if no number does."""
        left_s = goal_s - self.publish_s(size_bytes) - self.start_s
        if left_s <= 0:
            return None
        cores = size_bytes * self.there_cpu_s_per_byte / left_s
        return max(1, math.ceil(cores / self.machine_cores))

    def place(self, size_bytes, goal_s):
        """Where the job meets the goal, in words. This machine comes first: it needs no other."""
        if self.here_s(size_bytes) <= goal_s:
            return "here"
        machines = self.machines(size_bytes, goal_s)
        if machines is None:
            return "nowhere"
        return "publish: 1 machine" if machines == 1 else f"publish: {machines:,} machines"

    def publication_is_cheaper_from(self):
        """The least number of such jobs over one snapshot that take at least as much CPU time of the
        database's machine as the publication of the snapshot; None if the job takes none."""
        if self.here_cpu_s_per_byte <= 0:
            return None
        return max(1, math.ceil(self.publish_cpu_s_per_byte / self.here_cpu_s_per_byte))


def table(head, rows):
    """A table in Markdown. All columns but the first are aligned to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def block_jobs(measured, _):
    """Time and CPU time of each step."""
    def row(name, usage, size_bytes):
        rate = f"{size_bytes / 1e6 / usage['cpu_s']:.1f}" if usage["cpu_s"] > 0 else ""
        return [name, f"{usage['seconds']:.1f}", f"{usage['cpu_s']:.1f}", rate]

    publish = measured["publish"]
    rows = [row("publication of all tables", publish, publish["bytes"])]
    rows.append([*row("start of Spark", measured["spark_start"], 0)[:3], ""])
    for job in measured["jobs"]:
        rows.append(row(f"{job['name']}, ebb", job["ebb"], job["bytes"]))
        rows.append(row(f"{job['name']}, Spark", job["spark"], job["bytes"]))
    rows += [[f"{query['name']}, DuckDB", f"{query['seconds']:.1f}", f"{query['cpu_s']:.1f}", ""]
             for query in measured["duckdb"]]
    versions = ", ".join(f"{name} {version}" for name, version in measured["versions"].items())
    head = ["step", "seconds", "CPU seconds", "MB of CSV per CPU second"]
    return (
        f"Measured on {measured['date']}, {measured['cores']} cores, {versions}; medians of "
        f"{measured['rounds']} rounds of each job.\n\n{table(head, rows)}"
    )


def block_pays(measured, rates):
    """Where each job meets which goal."""
    rows = []
    for name, of in rates.items():
        for size in SIZES_GB:
            places = [of.place(size * GB, goal_s) for goal_s in GOALS_S.values()]
            rows.append([f"{name}, {size:,} GB", *places])
    any_rates = next(iter(rates.values()))
    return (
        f"Computed for {any_rates.free_cores:g} free cores here and machines of "
        f"{any_rates.machine_cores} cores.\n\n{table(['job', *GOALS_S], rows)}"
    )


def block_costs(measured, rates):
    """What the load's machine pays for a publication and for the jobs themselves."""
    rows = []
    for name, of in rates.items():
        jobs = of.publication_is_cheaper_from()
        rows.append([
            name,
            f"{GB * of.publish_cpu_s_per_byte:,.1f}",
            f"{GB * of.here_cpu_s_per_byte:,.1f}",
            "never" if jobs is None else f"{jobs:,}",
        ])
    head = ["job", "CPU seconds to publish a GB", "to run it here", "publishing costs less from jobs"]
    return table(head, rows)


def block_load(measured, _):
    """Latencies of the load with and without a publication."""
    load = measured["load"]
    names = {"p50_us": "p50 us", "p95_us": "p95 us", "p99_us": "p99 us", "p999_us": "p99.9 us"}
    rows = [
        [label, *(f"{load[state][name]:,.0f}" for name in names)]
        for label, state in (("alone", "alone"), ("beside publications", "publishing"))
    ]
    return (
        f"{load['ops_per_s']} reads per second for {load['seconds']} s; {load['publications']} "
        f"publications, one after the other.\n\n{table(['load', *names.values()], rows)}"
    )


BLOCKS = {"jobs": block_jobs, "pays": block_pays, "costs": block_costs, "load": block_load}


def blocks(measured, free_cores, machine_cores):
    """Every block of the page, by its name."""
    rates = {
        job["name"]: Rates.of(measured, job, free_cores, machine_cores) for job in measured["jobs"]
    }
    return {name: block(measured, rates) for name, block in BLOCKS.items()}


def filled(page, texts):
    """The page with the texts between their marks."""
    for name, text in texts.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"the page needs the marks {begin} and {end} once")
        before, _, rest = page.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"the page has {end} before {begin}")
        page = f"{before}{begin}\n{text}\n{end}{after}"
    return page


def positive(text):
    number = float(text)
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError("it is not a positive number")
    return number


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("measured")
    parser.add_argument("page", nargs="?")
    parser.add_argument("--free-cores", type=positive)
    parser.add_argument("--machine-cores", type=int, default=8, choices=range(1, 1025), metavar="N")
    args = parser.parse_args()
    with open(args.measured, encoding="utf-8") as file:
        measured = json.load(file)
    texts = blocks(measured, args.free_cores or measured["cores"], args.machine_cores)
    if args.page is None:
        print("\n\n".join(f"{name}:\n\n{text}" for name, text in texts.items()))
        return
    with open(args.page, encoding="utf-8") as file:
        page = file.read()
    try:
        page = filled(page, texts)
    except ValueError as error:
        sys.exit(f"{args.page}: {error}")
    with open(args.page, "w", encoding="utf-8") as file:
        file.write(page)


if __name__ == "__main__":
    main()
