"""The plugin that writes results, and their comparison, notice tests that do not run."""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
EXPECTED = """
tests | standard | 2
left out | standard/test_one.py::test_left_out | a reason
"""
PASSES = "def test_passes():\n    pass\n\ndef test_left_out():\n    raise ValueError\n"


def results(work, files):
    """Returns the results that the plugin writes for these files of a suite."""
    suite = work / "tests" / "integration" / "standard"
    suite.mkdir(parents=True)
    for name, text in files.items():
        (suite / name).write_text(text)
    (work / "expected.txt").write_text(EXPECTED)
    settings = {
        "SUITES_RESULTS": str(work / "results.json"),
        "SUITES_EXPECTED": str(work / "expected.txt"),
        "PYTHONPATH": str(HERE),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    options = ["-p", "plugin", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, "tests/integration/standard"],
        cwd=work,
        env=os.environ | settings,
        stdout=subprocess.DEVNULL,
    )
    return json.loads((work / "results.json").read_text())


def compared(work, results):
    """Returns the exit code and the output of the comparison of results."""
    (work / "expected.txt").write_text(EXPECTED)
    (work / "results.json").write_text(json.dumps(results))
    compare = [sys.executable, HERE / "compare.py", work / "expected.txt", work / "results.json"]
    ended = subprocess.run(compare, capture_output=True, text=True)
    return ended.returncode, ended.stdout


def test_results_that_all_pass_are_accepted(tmp_path):
    written = results(tmp_path, {"test_one.py": PASSES})
    assert sorted(it["outcome"] for it in written.values()) == ["left out", "passed"]
    assert compared(tmp_path, written)[0] == 0


def test_a_file_that_cannot_be_imported_fails(tmp_path):
    files = {"test_one.py": PASSES, "test_two.py": "import a_module_that_is_not_there\n"}
    written = results(tmp_path, files)
    assert written["tests/integration/standard/test_two.py"]["outcome"] == "failed"
    status, printed = compared(tmp_path, written)
    assert status == 1 and "a_module_that_is_not_there" in printed


def test_a_test_that_was_not_run_fails(tmp_path):
    ends = "import pytest\n\ndef test_ends_all():\n    pytest.exit('the end')\n\n"
    written = results(tmp_path, {"test_one.py": ends + PASSES})
    missing = "tests/integration/standard/test_one.py::test_passes"
    assert written[missing]["outcome"] == "missing"
    status, printed = compared(tmp_path, written)
    assert status == 1 and f"FAILS: {missing}" in printed


def test_fewer_results_than_tests_fail(tmp_path):
    written = results(tmp_path, {"test_one.py": PASSES})
    del written["tests/integration/standard/test_one.py::test_passes"]
    written["tests/integration/standard/test_one.py::test_left_out"] = {"outcome": "passed"}
    status, printed = compared(tmp_path, written)
    assert status == 1 and "standard: 1 results of 2 tests" in printed
