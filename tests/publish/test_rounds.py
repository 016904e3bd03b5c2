"""The statements of workload.py, the forms of values.py, and what rounds.py compares. tests/publish/rounds runs
them."""

import datetime
import decimal
import re
import unittest
from collections import Counter, namedtuple
from random import Random

from cassandra.util import Duration

import lake
import rounds
from values import NO_DURATION, checksum, difference, plain, with_nulls
from workload import COLUMNS, PLACES, Workload, first_name


class Statements(unittest.TestCase):
    def test_a_seed_draws_the_same_statements(self):
        drawn = [[list(workload.round(50)) for _ in range(5)] for workload in (Workload(7), Workload(7))]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0][0], list(Workload(8).round(50)))

    def test_twenty_rounds_have_every_kind_and_name_only_columns_that_are_there(self):
        workload, kinds, there = Workload(rounds.SEED), Counter(), set(COLUMNS)
        for _ in range(20):
            for statement, values in workload.round(rounds.WRITES):
                kinds[re.sub(r"v\d\d.*", "", statement)] += 1
                kinds["TTL"] += "TTL" in statement
                self.assertEqual(statement.count("?"), len(values), statement)
                named = set(re.findall(r"v\d\d", statement))
                if statement.startswith("ALTER TABLE lake.typed ADD"):
                    there |= named
                self.assertLessEqual(named, there, statement)
                if statement.startswith("ALTER TABLE lake.typed DROP"):
                    there -= named
            self.assertEqual(there, set(workload.columns()))
        for kind in ("ALTER TABLE lake.typed ADD ", "ALTER TABLE lake.typed DROP ", "TRUNCATE lake.typed", "TTL"):
            self.assertGreater(kinds[kind], 0, kind)
        deletes = [kind for kind in kinds if kind.startswith("DELETE")]
        self.assertEqual(len(deletes), 4, deletes)
        changes = [kind.split()[3] for kind in kinds if kind.startswith("ALTER TYPE lake.place ")]
        self.assertEqual(Counter(changes), {"ADD": 3, "RENAME": 3})

    def test_a_column_that_comes_back_is_another_one(self):
        workload = Workload(1)
        while not workload.dropped:
            workload.schema_change()
        (name,) = workload.dropped
        self.assertNotIn(name, workload.columns())
        while name in workload.dropped:
            workload.schema_change()
        self.assertGreater(workload.columns()[name], 0)


    def test_a_changed_type_has_values_of_all_its_fields_and_their_first_names_do_not_change(self):
        workload = Workload(3)
        (column,) = PLACES
        for _ in range(11):
            fields = list(workload.fields)
            statement, _ = workload.type_change()
            self.assertEqual(len(workload.value(column)), len(workload.fields))
            first = [first_name(field) for field in workload.fields]
            self.assertEqual(first, ["street", "number", "f2", "f3", "f4", "f5"][: len(first)])
            self.assertNotEqual(fields, workload.fields, statement)


class Values(unittest.TestCase):
    def test_equal_values_of_the_driver_and_of_engines_have_one_form(self):
        place = namedtuple("place", "street number")
        moment = datetime.datetime(2024, 2, 29, 12, 30)
        for ours, theirs in [
            (10, decimal.Decimal("10.0000")),
            (b"\x00\xff", bytearray(b"\x00\xff")),
            (moment, moment.replace(tzinfo=datetime.timezone.utc)),
            (Duration(1, 2, 3), {"months": 1, "days": 2, "nanoseconds": 3}),
            (place("Main", 7), {"street": "Main", "number": 7}),
            ({"b": 2, "a": 1}, [("a", 1), ("b", 2)]),
        ]:
            self.assertEqual(plain(ours), plain(theirs))
        self.assertNotEqual(plain(10), plain("1E+1"))
        self.assertNotEqual(plain(1), plain(True))

    def test_values_without_parts_are_null_where_nothing_else_is(self):
        for value in ([], [["_1", None], ["_2", None]], NO_DURATION, None):
            self.assertIsNone(with_nulls(value))
        for value in (["1"], [["a", "0"]], [["_1", None], ["_2", "x"]], "", "0"):
            self.assertEqual(with_nulls(value), value)

    def test_a_row_too_many_one_too_few_and_an_old_value_are_differences(self):
        right = [["1", "a"], ["2", "b"]]
        self.assertIsNone(difference(right, right))
        for found in ([["1", "a"]], [*right, ["3", "c"]], [["1", "a"], ["2", "old"]]):
            self.assertIsNotNone(difference(found, right))
            self.assertNotEqual(checksum(found, ["k", "v"]), checksum(right, ["k", "v"]))


class Publishers(unittest.TestCase):
    def test_some_publishers_write_all_rows_and_most_what_changed(self):
        random = Random(rounds.SEED)
        drawn = Counter(tuple(rounds.extent(random)) for _ in range(100))
        self.assertEqual(set(drawn), {(), ("--full",)})
        self.assertGreater(drawn[()], drawn[("--full",)])


class Comparison(unittest.TestCase):
    def test_rows_are_in_the_order_of_their_keys(self):
        rows = [{"k": 10, "c": 1, "v": "x"}, {"k": 9, "c": 2, "v": "y"}, {"k": 9, "c": 1, "v": "z"}]
        found = rounds.sorted_rows(rows, ["k", "c", "v"], plain)
        self.assertEqual([row[2] for row in found], ["z", "y", "x"])

    def test_tuples_have_the_names_of_their_parts(self):
        place = namedtuple("place", "street number")("Main", 7)
        row = rounds.with_parts({"k": 1, "t": (1, None), "p": place})
        self.assertEqual(row, {"k": 1, "t": {"_1": 1, "_2": None}, "p": place})

    def test_a_struct_is_the_same_by_the_type_of_before_and_by_the_present_one(self):
        before = {"k": 1, "c": 1, "p": {"street": "Main", "number": 7}}
        after = {"k": 1, "c": 1, "p": {"street_2": "Main", "number": 7, "f2": None}}
        other = {"k": 1, "c": 1, "p": {"street_2": "Main", "number": 7, "f2": "new"}}
        columns = ["k", "c", "p"]
        rows = [rounds.sorted_rows([row], columns, plain, {"p"}) for row in (before, after, other)]
        self.assertEqual(rows[0], rows[1])
        self.assertNotEqual(rows[0], rows[2])
        exact = [rounds.sorted_rows([row], columns, plain) for row in (before, after)]
        self.assertNotEqual(exact[0], exact[1])
        self.assertIsNone(rounds.by_first_names(None))

    def test_only_metadata_has_a_version(self):
        self.assertEqual(lake.version_of("lake/t/metadata/v12.metadata.json"), 12)
        for name in ("lake/t/metadata/version-hint.text", "lake/t/metadata/v12.metadata.json#1"):
            self.assertIsNone(lake.version_of(name))


if __name__ == "__main__":
    unittest.main()
