"""Tests of the computation in pays.py, and of the marks in the book's page. tests/publish/spark_jobs runs
them."""

import unittest
from pathlib import Path

import pays

PAGE = Path(__file__).resolve().parents[2] / "docs/src/guide/more-machines.md"
# Made-up numbers: a byte takes 4 s here, 1 s to be published and 8 s there.
RATES = pays.Rates(
    here_cpu_s_per_byte=4.0,
    publish_cpu_s_per_byte=1.0,
    there_cpu_s_per_byte=8.0,
    start_s=5.0,
    free_cores=2,
    machine_cores=4,
)
USAGE = {"seconds": 1.0, "cpu_s": 2.0}
LATENCIES = {"p50_us": 1.0, "p95_us": 2.0, "p99_us": 3.0, "p999_us": 4.0}
MEASURED = {
    "date": "2000-01-01",
    "cores": 2,
    "versions": {"pyspark": "0"},
    "rounds": 1,
    "publish": {**USAGE, "bytes": 2},
    "spark_start": USAGE,
    "jobs": [{"name": "wordcount", "bytes": 1, "ebb": USAGE, "spark": USAGE}],
    "duckdb": [{"name": "wordcount", **USAGE}],
    "load": {
        "ops_per_s": 1, "seconds": 1, "publications": 1, "alone": LATENCIES, "publishing": LATENCIES,
    },
}


class Places(unittest.TestCase):
    def test_a_goal_that_this_machine_meets_needs_no_publication(self):
        self.assertEqual(RATES.here_s(100), 200)
        self.assertEqual(RATES.place(100, 200), "here")
        self.assertNotEqual(RATES.place(100, 199), "here")

    def test_machines_have_the_time_that_publication_and_start_leave(self):
        self.assertEqual(RATES.publish_s(100), 50)
        # 800 s of CPU time in 100 s need 8 cores.
        self.assertEqual(RATES.machines(100, 155), 2)
        self.assertEqual(RATES.machines(100, 154), 3)
        self.assertEqual(RATES.place(100, 155), "publish: 2 machines")

    def test_no_machines_meet_a_goal_before_the_end_of_the_publication(self):
        self.assertIsNone(RATES.machines(100, 55))
        self.assertEqual(RATES.place(100, 55), "nowhere")

    def test_jobs_that_cost_less_than_the_publication_share_it(self):
        self.assertEqual(RATES.publication_is_cheaper_from(), 1)
        cheap = pays.Rates(0.25, 1.0, 8.0, 5.0, 2, 4)
        self.assertEqual(cheap.publication_is_cheaper_from(), 4)

    def test_rates_are_cpu_time_over_the_bytes_of_their_own_tables(self):
        rates = pays.Rates.of(MEASURED, MEASURED["jobs"][0], 2, 4)
        self.assertEqual((rates.here_cpu_s_per_byte, rates.publish_cpu_s_per_byte), (2.0, 1.0))


class Page(unittest.TestCase):
    def test_the_page_has_a_place_for_every_block(self):
        page = PAGE.read_text(encoding="utf-8")
        texts = pays.blocks(MEASURED, 2, 8)
        filled = pays.filled(page, texts)
        for text in texts.values():
            self.assertIn(f"\n{text}\n", filled)
        self.assertEqual(pays.filled(filled, texts), filled)

    def test_a_page_without_a_mark_is_refused(self):
        with self.assertRaisesRegex(ValueError, "begin jobs"):
            pays.filled("no marks", {"jobs": "text"})


if __name__ == "__main__":
    unittest.main()
