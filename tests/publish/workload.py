"""Random statements for tests/publish/rounds: inserts, updates, deletes, expiry, deleted ranges and partitions,
truncations, columns that are dropped and come back, and a type that gets new fields and new names of its fields.
Equal seeds draw equal statements."""

import datetime
import decimal
import uuid
from random import Random

from cassandra.util import Date, Duration, Time

# Few keys, so that most writes hide an older row.
PARTITIONS = 12
ROWS_PER_PARTITION = 40
TTL_S_MAX = 20

EPOCH = datetime.datetime(1970, 1, 1)
WORDS = ["", "ebb", "it's", "h\u00e4llo", "\u4e16\u754c", "\U0001f30a", "a b", '"']


def integer(bits):
    return lambda random: random.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1))


def text(random):
    return f"{random.choice(WORDS)}{random.randrange(100)}"


def duration(random):
    sign = random.choice((-1, 1))
    return Duration(*(sign * random.randrange(limit) for limit in (100, 1000, 10**12)))


def inet(random):
    number = random.randrange(1, 250)
    return random.choice((f"10.0.0.{number}", f"2001:db8::{number:x}", f"::ffff:10.0.0.{number}"))


PLACE = "frozen<place>"

# By the type of CQL, how a value is drawn. Decimals are published as decimal(18, 4).
TYPES = {
    "ascii": lambda random: f"plain {random.randrange(100)}",
    "bigint": integer(64),
    "blob": lambda random: random.randbytes(random.randrange(1, 20)),
    "boolean": lambda random: random.random() < 0.5,
    "date": lambda random: Date(datetime.date(2024, 2, 29) + datetime.timedelta(random.randrange(9999))),
    "decimal": lambda random: decimal.Decimal(random.randrange(-(10**12), 10**12)).scaleb(-4),
    "double": lambda random: random.uniform(-1e300, 1e300),
    "duration": duration,
    "float": lambda random: random.randrange(-1000, 1000) / 4,
    "inet": inet,
    "int": integer(32),
    "smallint": integer(16),
    "text": text,
    "time": lambda random: Time(random.randrange(86_400 * 10**9)),
    "timestamp": lambda random: EPOCH + datetime.timedelta(milliseconds=random.randrange(2 * 10**12)),
    "timeuuid": lambda random: uuid.UUID(int=random.getrandbits(128), version=1),
    "tinyint": integer(8),
    "uuid": lambda random: uuid.UUID(int=random.getrandbits(128), version=4),
    "varint": integer(120),
    "list<int>": lambda random: [random.randrange(100) for _ in range(random.randrange(1, 4))],
    "set<text>": lambda random: {text(random) for _ in range(random.randrange(1, 4))},
    "map<text, int>": lambda random: {text(random): random.randrange(9) for _ in range(3)},
    "tuple<int, text>": lambda random: (random.randrange(100), text(random)),
    PLACE: lambda random: (text(random), random.randrange(100)),
}

SCHEMA = [
    "CREATE KEYSPACE lake WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TYPE lake.place (street text, number int)",
    "CREATE TABLE lake.typed (k int, c int, s text STATIC, "
    + ", ".join(f"v{at:02} {ty}" for at, ty in enumerate(TYPES))
    + ", PRIMARY KEY (k, c))",
    "CREATE TABLE lake.counted (k int PRIMARY KEY, n counter)",
]
# The values of lake.typed, by their columns.
COLUMNS = {f"v{at:02}": ty for at, ty in enumerate(TYPES)}

# The columns of the type that changes.
PLACES = {name for name, ty in COLUMNS.items() if ty == PLACE}
# The type changes once in so many rounds, and gets no more fields than this.
ROUNDS_PER_TYPE = 3
FIELDS_MAX = 6


def first_name(field):
    """The name that a field of the type had at first."""
    return field.partition("_")[0]


class Workload:
    """The statements of one seed, each with its values."""

    def __init__(self, seed):
        self.random = Random(seed)
        # Of its own, so that changes of the type leave the other statements as they are.
        self.type_random = Random(f"type {seed}")
        self.rounds = self.type_changes = 0
        # The names of the fields of lake.place. Those with even numbers are texts, the others integers.
        self.fields = ["street", "number"]
        # By column, how often it was dropped: a column that came back is another one.
        self.drops = {name: 0 for name in COLUMNS}
        self.dropped = set()

    def columns(self):
        """The columns that are there, each with the number of its drops."""
        return {name: self.drops[name] for name in COLUMNS if name not in self.dropped}

    def round(self, writes):
        """The statements of a round. Most rounds only write."""
        specials = {}
        if self.random.random() < 0.4:
            specials[self.random.randrange(writes)] = self.schema_change
        if self.random.random() < 0.15:
            specials[self.random.randrange(writes)] = self.truncation
        self.rounds += 1
        changes_type = self.rounds % ROUNDS_PER_TYPE == 0
        change_at = self.type_random.randrange(writes) if changes_type else None
        for at in range(writes):
            if at in specials:
                yield specials[at]()
            if at == change_at:
                yield self.type_change()
            yield self.write()

    def schema_change(self):
        """Drops a column, or adds one of those that were dropped."""
        if self.dropped and self.random.random() < 0.5:
            name = self.random.choice(sorted(self.dropped))
            self.dropped.remove(name)
            return f"ALTER TABLE lake.typed ADD {name} {COLUMNS[name]}", []
        name = self.random.choice(sorted(self.columns()))
        self.dropped.add(name)
        self.drops[name] += 1
        return f"ALTER TABLE lake.typed DROP {name}", []

    def type_change(self):
        """Adds a field to the type, or gives one of its fields another name, in turn."""
        self.type_changes += 1
        count = len(self.fields)
        if self.type_changes % 2 == 1 and count < FIELDS_MAX:
            self.fields.append(f"f{count}")
            return f"ALTER TYPE lake.place ADD f{count} {'int' if count % 2 else 'text'}", []
        at = self.type_random.randrange(count)
        before = self.fields[at]
        self.fields[at] = f"{first_name(before)}_{self.type_changes}"
        return f"ALTER TYPE lake.place RENAME {before} TO {self.fields[at]}", []

    def truncation(self):
        return "TRUNCATE lake.typed", []

    def value(self, name):
        """A value of a column."""
        value = TYPES[COLUMNS[name]](self.random)
        return self.with_new_fields(value) if name in PLACES else value

    def with_new_fields(self, place):
        """A value of the type as it was at first, with values of the fields that were added."""
        random = self.type_random
        new = range(len(place), len(self.fields))
        return place + tuple(random.randrange(100) if at % 2 else text(random) for at in new)

    def write(self):
        kinds = {
            self.insert: 8, self.update: 4, self.delete_row: 3, self.delete_cell: 1, self.delete_range: 1,
            self.delete_partition: 0.2, self.static: 1, self.count: 2,
        }
        (kind,) = self.random.choices(list(kinds), list(kinds.values()))
        return kind()

    def key(self):
        return [self.random.randrange(PARTITIONS), self.random.randrange(ROWS_PER_PARTITION)]

    def expiry(self):
        """The clause of a time to live in a third of the writes, and its value."""
        if self.random.random() < 0.33:
            return " USING TTL ?", [self.random.randrange(1, TTL_S_MAX)]
        return "", []

    def insert(self):
        columns = self.columns()
        values = [
            None if self.random.random() < 0.3 else self.value(name) for name in columns
        ]
        names = ", ".join(["k", "c", *columns])
        marks = ", ".join("?" * (len(columns) + 2))
        clause, ttl = self.expiry()
        return f"INSERT INTO lake.typed ({names}) VALUES ({marks}){clause}", self.key() + values + ttl

    def update(self):
        name = self.random.choice(sorted(self.columns()))
        value = self.value(name)
        clause, ttl = self.expiry()
        statement = f"UPDATE lake.typed{clause} SET {name} = ? WHERE k = ? AND c = ?"
        return statement, ttl + [value] + self.key()

    def delete_row(self):
        return "DELETE FROM lake.typed WHERE k = ? AND c = ?", self.key()

    def delete_cell(self):
        name = self.random.choice(sorted(self.columns()))
        return f"DELETE {name} FROM lake.typed WHERE k = ? AND c = ?", self.key()

    def delete_range(self):
        k, c = self.key()
        end = c + self.random.randrange(1, 15)
        return "DELETE FROM lake.typed WHERE k = ? AND c >= ? AND c < ?", [k, c, end]

    def delete_partition(self):
        return "DELETE FROM lake.typed WHERE k = ?", self.key()[:1]

    def static(self):
        clause, ttl = self.expiry()
        statement = f"UPDATE lake.typed{clause} SET s = ? WHERE k = ?"
        return statement, ttl + [text(self.random)] + self.key()[:1]

    def count(self):
        k = self.key()[0]
        return "UPDATE lake.counted SET n = n + ? WHERE k = ?", [self.random.randrange(-5, 10), k]
