"""Loads and jobs over files of public collections: both read the same rows, or refuse the file.

    python3 tests/files/agree.py EBB CSV_SPECTRUM JSON_TEST_SUITE SEED

`ebb load` and `ebb run select` read each file. Both must exit with 0 and have the rows of the file, or exit
with 2 if it is malformed. This script computes the expected rows by a grammar of its own. Python's csv and
json must agree with it, and for files of csv-spectrum also the results in that collection.
"""

import csv
import gzip
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

NESTING_MAX = 127
FIELD = r'(?:"(?:[^"]|"")*"|[^",\r\n]*)'
RECORD = re.compile(rf"({FIELD}(?:,{FIELD})*)(?:\r\n|\r|\n|\Z)")
LINE = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")

# Files whose result in the collection belongs to another file.
WRONG_RESULTS = {"location_coordinates"}


class Malformed(Exception):
    """A file that must be refused."""


def text_of(data):
    """Returns the text of a file."""
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    if data.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        raise Malformed("another encoding")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Malformed(str(error)) from error
    if "\0" in text:
        raise Malformed("NUL")
    return text


def pieces(text, pattern):
    """Returns the groups of matches that follow each other up to the end of a text."""
    at = 0
    while at < len(text):
        match = pattern.match(text, at)
        if match is None or match.end() == at:
            raise Malformed(f"at character {at}")
        yield match.group(1)
        at = match.end()


def text_rows(data):
    return list(pieces(text_of(data), LINE))


def csv_rows(data):
    """Returns the rows after the header."""
    text = text_of(data)
    records = []
    for record in pieces(text, RECORD):
        if record:
            fields = re.findall(rf"(?:\A|,)({FIELD})", record)
            records.append([unquoted(field) for field in fields])
    by_python = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert [row for row in by_python if row] == records, text
    if not records:
        return []
    header = records[0]
    if len(set(header)) < len(header):
        raise Malformed("two columns of a name")
    if any(len(record) != len(header) for record in records):
        raise Malformed("records of different widths")
    return records[1:]


def unquoted(field):
    return field[1:-1].replace('""', '"') if field.startswith('"') else field


def json_rows(data):
    """Returns the lines that are not blank; each must be an object."""
    rows = []
    for line in pieces(text_of(data), LINE):
        if not line.strip(" \t\f"):
            continue
        try:
            value = json.loads(line, parse_int=str, parse_float=str, parse_constant=no_constant)
            json.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise Malformed(str(error)) from error
        if not isinstance(value, dict):
            raise Malformed("no object")
        if depth(value) > NESTING_MAX:
            raise Malformed("nests too deep")
        rows.append(line)
    return rows


def no_constant(name):
    raise ValueError(f"{name} is not JSON")


def depth(value):
    deepest, level = 0, [value]
    while level := [child for child in level if isinstance(child, (dict, list))]:
        deepest += 1
        children = (child.values() if isinstance(child, dict) else child for child in level)
        level = [value for child in children for value in child]
    return deepest


class Ebb:
    """The program, in a folder of its own."""

    def __init__(self, program, folder):
        self.program, self.folder, self.tables = program, Path(folder), 0

    def run(self, *arguments):
        """Returns the exit code, standard output and standard error."""
        environment = os.environ | {"EBB_DATA": str(self.folder / "data"), "EBB_TEST_UNPACED": "1"}
        done = subprocess.run(
            [self.program, *arguments],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=300,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def loaded(self, kind, name):
        """Returns the values of the rows in the order of the lines; None if the file is refused."""
        self.tables += 1
        table = f"files.t{self.tables}"
        code, _, stderr = self.run("load", "--table", table, "--format", kind, name)
        if code != 0:
            return refused(code, stderr, name)
        code, rows, stderr = self.run("scan", "--json", table)
        assert code == 0, stderr
        return [json.loads(row)["value"] for row in rows.split("\n") if row]

    def selected(self, kind, name):
        """Returns the rows of a job as JSON lines; None if the file is refused."""
        option = f"--{kind}"
        arguments = ["select", option, name, "--format", "json-lines", "--output", "-"]
        code, rows, stderr = self.run("run", *arguments)
        if code != 0:
            return refused(code, stderr, name)
        return [row for row in rows.split("\n") if row]


def refused(code, stderr, name):
    assert code == 2 and name in stderr, f"exit code {code}: {stderr}"


def same_json(lines, others):
    """Returns whether the lines are the same objects, with every digit."""
    def parsed(line):
        return json.loads(line, parse_int=str, parse_float=str)
    return [parsed(line) for line in lines] == [parsed(line) for line in others]


def flaws(ebb, kind, name, data):
    """Yields the errors in the reads of a file."""
    (ebb.folder / name).write_bytes(data)
    try:
        rows = {"text": text_rows, "csv": csv_rows, "json-lines": json_rows}[kind](data)
    except Malformed as why:
        rows = None
        reason = str(why)
    loaded, selected = ebb.loaded(kind, name), ebb.selected(kind, name)
    if rows is None:
        for which, found in (("load", loaded), ("run", selected)):
            if found is not None:
                yield f"ebb {which} accepts it ({reason})"
        return
    for which, found in (("load", loaded), ("run", selected)):
        if found is None:
            yield f"ebb {which} refuses it"
            return
    if kind == "csv":
        load_rows = [next(csv.reader([value], strict=True)) for value in map(as_line, loaded)]
        run_rows = [list(json.loads(row).values()) for row in selected]
        if [list(map(as_text, row)) for row in load_rows] != rows:
            yield f"ebb load has {load_rows} for {rows}"
        if run_rows != rows:
            yield f"ebb run has {run_rows} for {rows}"
    elif kind == "text":
        run_rows = [json.loads(row)["value"] for row in selected]
        if loaded != rows or run_rows != rows:
            yield f"{loaded} and {run_rows} for {rows}"
    elif loaded != rows or not same_json(selected, rows):
        yield f"{loaded} and {selected} for {rows}"


# Line ends in a value are hidden from Python's reader, which would split the value there.
HIDDEN = {"\n": "\ue000", "\r": "\ue001"}


def as_line(value):
    return value.translate(str.maketrans(HIDDEN))


def as_text(field):
    return field.translate(str.maketrans({hidden: end for end, hidden in HIDDEN.items()}))


def csv_files(spectrum, rng):
    """Yields files of csv-spectrum: unchanged, with other line ends, byte-order marks and compression, and
    broken."""
    for path in sorted((spectrum / "csvs").glob("*.csv")):
        data = path.read_bytes()
        yield path.stem, data
        lines = data.replace(b"\r\n", b"\n")
        for end_name, end in (("lf", b"\n"), ("crlf", b"\r\n"), ("cr", b"\r")):
            ended = lines.replace(b"\n", end)
            yield f"{path.stem}-{end_name}", ended
            yield f"{path.stem}-{end_name}-mark", b"\xef\xbb\xbf" + ended
            yield f"{path.stem}-{end_name}-gz", gzip.compress(ended)
        for nth in range(6):
            yield f"{path.stem}-cut{nth}", data[: rng.randrange(1, len(data))]
        for nth in range(8):
            at = rng.randrange(len(data) + 1)
            inserted = rng.choice([b'"', b",", b"\r", b"\n", b"\xff", b"\0", b'""'])
            yield f"{path.stem}-changed{nth}", data[:at] + inserted + data[at:]


def json_files(suite):
    """Yields documents of json-test-suite as lines, and as the member of an object."""
    for part in ("parsing", "transform"):
        source = (suite / "data" / f"{part}.js").read_text()
        documents = json.loads(source[source.index("export default") + len("export default") :])
        for nth, document in enumerate(documents):
            data = document["input"].encode("utf-8", "replace")
            yield f"{part}{nth}-line", data + b"\n"
            yield f"{part}{nth}-member", b'{"v":' + data.rstrip(b"\n") + b"}\n"


def text_files(spectrum):
    for path in sorted((spectrum / "csvs").glob("*.csv")):
        data = path.read_bytes()
        yield path.stem, data
        yield f"{path.stem}-cr", data.replace(b"\r\n", b"\n").replace(b"\n", b"\r")
        yield f"{path.stem}-mark", b"\xef\xbb\xbf" + data
        yield f"{path.stem}-utf16", data.decode().encode("utf-16")
        yield f"{path.stem}-latin1", data + "caf\xe9\n".encode("latin-1")


def check_results(spectrum):
    """Checks that this script computes the rows that csv-spectrum has as results."""
    for path in sorted((spectrum / "csvs").glob("*.csv")):
        if path.stem in WRONG_RESULTS:
            continue
        result = json.loads((spectrum / "json" / f"{path.stem}.json").read_text())
        assert csv_rows(path.read_bytes()) == [list(row.values()) for row in result], path


def main(program, spectrum, suite, seed):
    spectrum, suite, rng = Path(spectrum), Path(suite), random.Random(int(seed))
    check_results(spectrum)
    files = [("csv", "csv", csv_files(spectrum, rng)), ("json-lines", "jsonl", json_files(suite))]
    files.append(("text", "txt", text_files(spectrum)))
    counts, failures = {}, []
    with tempfile.TemporaryDirectory() as folder:
        ebb = Ebb(program, folder)
        for kind, end, named in files:
            for name, data in named:
                counts[kind] = counts.get(kind, 0) + 1
                try:
                    found = list(flaws(ebb, kind, f"{name}.{end}", data))
                except AssertionError as error:
                    found = [str(error)]
                failures += [f"{name}.{end} ({data[:80]!r}): {flaw}" for flaw in found]
    print(f"{sum(counts.values())} files, seed {seed}: {counts}")
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
