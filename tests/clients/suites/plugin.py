"""A plugin of pytest: leaves tests of the suites out, and writes a file of results."""

import json
import os
import sys
import types

import expected

# The suites import a module of ccm that its release on PyPI lacks. They need no content of it, because they
# start no cluster.
if "ccmlib.hcd_cluster" not in sys.modules:
    absent = types.ModuleType("ccmlib.hcd_cluster")
    absent.HcdCluster = type("HcdCluster", (), {})
    sys.modules["ccmlib.hcd_cluster"] = absent

LINES = expected.read(os.environ["SUITES_EXPECTED"])
# "1" runs only the tests marked "alone", "" all others, "any" both.
ALONE = os.environ.get("SUITES_ALONE", "")
RESULTS = {}


def pytest_collection_modifyitems(config, items):
    now, later = [], []
    for item in items:
        word = expected.find(LINES, item.nodeid)[0]
        if word == "left out":
            RESULTS[item.nodeid] = {"outcome": "left out"}
        is_now = word != "left out" and (ALONE == "any" or (word == "alone") == (ALONE == "1"))
        if is_now:
            # Replaced by the result of the test.
            RESULTS[item.nodeid] = {"outcome": "missing", "why": "it did not end"}
        (now if is_now else later).append(item)
    config.hook.pytest_deselected(items=later)
    items[:] = now


def pytest_collectreport(report):
    # A file or a class that cannot be collected: its tests are unknown.
    if report.failed:
        RESULTS[report.nodeid] = {"outcome": "failed", "why": str(report.longrepr)[-500:]}


def pytest_runtest_logreport(report):
    if report.when != "call" and report.outcome == "passed":
        return
    before = RESULTS.get(report.nodeid, {}).get("outcome")
    if before != "failed":
        result = {"outcome": report.outcome}
        if report.outcome != "passed":
            result["why"] = str(report.longrepr)[-500:]
        RESULTS[report.nodeid] = result


def pytest_sessionfinish():
    with open(os.environ["SUITES_RESULTS"], "w") as file:
        json.dump(RESULTS, file)
