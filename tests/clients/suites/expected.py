"""The list of expected results of the suites: expected.txt.

Each line has a word, a pattern of tests and a reason, with | between them. The first line whose
pattern matches a test counts. Lines with the word "tests" have a suite and its number of tests.
"""

from fnmatch import fnmatchcase

WORDS = ("left out", "fails", "alone", "tests")


def read_all(path):
    """Returns all lines: word, pattern, reason."""
    lines = []
    with open(path) as file:
        for line in file:
            if not line.strip() or line.startswith("#"):
                continue
            word, pattern, reason = (part.strip() for part in line.split("|", 2))
            assert word in WORDS and reason, line
            lines.append((word, pattern, reason))
    return lines


def read(path):
    """Returns the lines about tests: word, pattern, reason."""
    return [line for line in read_all(path) if line[0] != "tests"]


def counts(path):
    """Returns the number of tests of each suite."""
    return {suite: int(count) for word, suite, count in read_all(path) if word == "tests"}


def find(lines, test):
    """Returns the word, pattern and reason for a test; three times None if it should pass."""
    name = test.removeprefix("tests/integration/")
    for line in lines:
        if fnmatchcase(name, line[1]):
            return line
    return None, None, None
