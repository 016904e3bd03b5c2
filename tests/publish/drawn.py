"""Random input of tests/publish/spark_jobs, from a fixed seed: text, links and trips, as CSV files."""

import numpy

SEED = 1
WORDS_PER_LINE = 12
VOCABULARY = 20_000
CITIES = 100
# Number of rows that are in memory as Python's numbers at a time.
ROWS_PER_CHUNK = 100_000
STEMS = ["Ebb", "flow", "TIDE", "moon", "shore", "x86", "spring", "Neap"]
# Separators of words: no characters of words, and none that CSV must quote.
GAPS = [" ", " ", " ", "-", " _ "]


def draw(folder, megabytes):
    """Writes the files, the text with about `megabytes`, and returns their paths by table."""
    random = numpy.random.default_rng(SEED)
    paths = {table: f"{folder}/{table}.csv" for table in ("lines", "links", "trips")}
    # About 100 bytes in a line, and 12 in a link.
    write(paths["lines"], "id,text", lines(random, megabytes * 10_000))
    write(paths["links"], "source,target", links(random, megabytes * 20_000))
    write(paths["trips"], "id,city,fare", trips(random, megabytes * 10_000))
    return paths


def write(path, head, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{head}\n")
        file.writelines(f"{row}\n" for row in rows)


def lines(random, count):
    """Yields lines of words; a few words are frequent, and most are rare."""
    vocabulary = [f"{STEMS[n % len(STEMS)]}{n}" for n in range(VOCABULARY)]
    for first in range(0, count, ROWS_PER_CHUNK):
        rows = min(ROWS_PER_CHUNK, count - first)
        ranks = random.zipf(1.3, (rows, WORDS_PER_LINE)) % VOCABULARY
        gaps = random.integers(len(GAPS), size=rows)
        for at, (row, gap) in enumerate(zip(ranks.tolist(), gaps.tolist())):
            yield f"{first + at},{GAPS[gap].join(vocabulary[rank] for rank in row)}"


def links(random, count):
    """Yields links without duplicates. A twentieth of the nodes have no links, and a few nodes are the targets
    of many."""
    nodes = max(count // 8, 20)
    sources = random.integers(nodes, size=count)
    sources += sources % 20 == 0
    targets = random.zipf(1.5, count) % nodes
    # A link as one number. A source is at most `nodes`, a target less.
    pairs = numpy.unique(sources * nodes + targets)
    for first in range(0, len(pairs), ROWS_PER_CHUNK):
        for pair in pairs[first : first + ROWS_PER_CHUNK].tolist():
            yield f"{pair // nodes},{pair % nodes}"


def trips(random, count):
    """Yields trips with a city and a fare. A hundredth of them have no fare."""
    for first in range(0, count, ROWS_PER_CHUNK):
        rows = min(ROWS_PER_CHUNK, count - first)
        cities = random.integers(CITIES, size=rows).tolist()
        cents = random.integers(300, 20_000, size=rows).tolist()
        has_fare = (random.random(rows) >= 0.01).tolist()
        for at in range(rows):
            fare = f"{cents[at] // 100}.{cents[at] % 100:02}" if has_fare[at] else ""
            yield f"{first + at},city {cities[at]},{fare}"
