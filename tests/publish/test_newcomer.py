"""Tests of how newcomer.py reads the page and the results."""

import unittest

import newcomer

PAGE = f"""# Page

```sh
another --command
```

{newcomer.SECTION}

Words.

```sh
ebb snapshot create monday
ebb publish lake
pip install --quiet one==1 two==2
spark-sql --first \\
  --second \\
  -e "SELECT"
```

## Next

```sh
and another
```
"""


class Newcomer(unittest.TestCase):
    def test_the_section_has_the_commands_and_a_backslash_continues_one(self):
        found = newcomer.commands(PAGE)
        self.assertEqual(found[0], "ebb snapshot create monday")
        self.assertEqual(found[3], 'spark-sql --first \\\n  --second \\\n  -e "SELECT"')
        self.assertEqual(len(found), 4)

    def test_another_number_of_commands_is_refused(self):
        for page in (PAGE.replace("ebb publish lake\n", ""), PAGE.replace(newcomer.SECTION, "## Other")):
            with self.assertRaises(AssertionError):
                newcomer.commands(page)

    def test_the_book_has_four_commands_with_locked_packages(self):
        install = newcomer.commands(newcomer.PAGE.read_text(encoding="utf-8"))[2]
        self.assertEqual(newcomer.unlocked(install, newcomer.LOCKED.read_text(encoding="utf-8")), [])

    def test_packages_of_other_versions_are_found(self):
        install = "pip install --quiet one==1 two==2"
        self.assertEqual(newcomer.unlocked(install, "# Comment\none==1\ntwo==2.1\n"), ["two==2"])

    def test_the_largest_sums_come_first_and_ties_by_name(self):
        sums = {"f": 5, "e": 9, "d": 9, "c": 1, "b": 2, "a": 3}
        totals = ["customer,rows,total_sum\n"] + [f"{name},2,{total}\n" for name, total in sums.items()]
        rows = newcomer.top(totals)
        self.assertEqual(rows, [("d", 2, 9), ("e", 2, 9), ("f", 2, 5), ("a", 2, 3), ("b", 2, 2)])
        text = "".join(f"{customer}\t{orders}\t{spent}\n" for customer, orders, spent in rows)
        self.assertEqual(newcomer.printed_rows(text), rows)


if __name__ == "__main__":
    unittest.main()
