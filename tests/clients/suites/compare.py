"""Compares the results of the suites with the expected ones.

compare.py [--failed] EXPECTED RESULTS.json... fails if a test fails that should pass, or did not end, if a
suite has fewer results than tests, or if a line of the list matches no test. Prints the tests that pass
unexpectedly. If a test is in several files of results, a result that passed counts. With --failed it only
prints the names of tests that should pass and fail.
"""

import collections
import json
import sys

import expected

arguments = sys.argv[1:]
only_failed = arguments[0] == "--failed"
lines, *paths = arguments[only_failed:]
tests_of_suites = expected.counts(lines)
lines = expected.read(lines)
RANK = ["passed", "failed", "missing", "skipped", "left out"]
results = {}
for path in paths:
    with open(path) as file:
        for test, result in json.load(file).items():
            before = results.setdefault(test, result)
            if before["outcome"] in ("failed", "missing") and result["outcome"] == "passed" and not only_failed:
                print(f"passes when it runs again: {test}")
            results[test] = min(before, result, key=lambda it: RANK.index(it["outcome"]))

counts = collections.defaultdict(collections.Counter)
reasons = collections.Counter()
regressions, surprises, used = [], [], set()
for test, result in sorted(results.items()):
    word, pattern, reason = expected.find(lines, test)
    used.add(pattern)
    outcome = "failed" if result["outcome"] == "missing" else result["outcome"]
    of_suite = counts[test.split("/")[2]]
    of_suite["all"] += 1
    of_suite[outcome] += 1
    if outcome == "left out":
        reasons[reason] += 1
    if outcome == "failed" and word != "fails":
        regressions.append((test, result["why"]))
    if outcome == "passed" and word == "fails":
        surprises.append(test)

if only_failed:
    for test, _ in regressions:
        print(test)
    sys.exit()
for suite, of_suite in counts.items():
    in_scope = of_suite["passed"] + of_suite["failed"]
    print(
        f"{suite}: {of_suite['all']} tests; {of_suite['skipped']} skipped by the suite itself, "
        f"{of_suite['left out']} left out, {in_scope} in scope: {of_suite['passed']} passed, "
        f"{of_suite['passed'] / in_scope:.1%}"
    )
for reason, count in reasons.most_common():
    print(f"left out {count}: {reason}")
for test in surprises:
    print(f"passes, and was expected to fail: {test}")
for test, why in regressions:
    print(f"FAILS: {test}\n{why}")
unused = [pattern for _, pattern, _ in lines if pattern not in used]
for pattern in unused:
    print(f"no test is called {pattern}")
short = [suite for suite, tests in tests_of_suites.items() if counts[suite]["all"] < tests]
for suite in short:
    print(f"{suite}: {counts[suite]['all']} results of {tests_of_suites[suite]} tests")
sys.exit(bool(regressions or unused or short))
