"""Replays the system calls of publications into a folder as a model of power loss.

    power_loss.py FOLDER TABLES TRACE...

Each TRACE is of one run of `ebb publish`, by `strace -f -y -s 0`. FOLDER is the target, which was absent before the
first run, and TABLES is the number of tables that each run commits. The model allows whatever POSIX does not
exclude: a file has its content after a power loss if an fsync began after the last write to it and has ended, and a
file or a folder has its name if an fsync of the folder around it began after the name was given and has ended. It
is an error if

- an object gets its name before its content is on the disk;
- `vN.metadata.json`, which commits a table, gets its name while an object of this table could be lost, or while a
  removed completion record could come back;
- the record of a task, or the completion record, gets its name while any object could be lost;
- an object of a table is removed while a commit of this table could be lost: that commit may be the one by which no
  snapshot names the object any more;
- a run ends while any object could be lost.

Then the replay is repeated without some calls of fsync: without all of them, all those of files, all those of
folders, those of each single file, and those of each folder. Each time the model must find an error. The runs must
write one object at a time (`--cores 1`), because objects are not attributed to tasks.
"""

import os
import re
import sys
from collections import Counter

RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")
UNFINISHED = " <unfinished ...>"
CALL = re.compile(r"\w+\(.*")
RESULT = re.compile(r"\) += (-?\d+)")
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
DESCRIPTOR = re.compile(r"\d+<([^>]*)>")
NAMELESS = re.compile(r"\d+<[^>]*( \(deleted\)>|>\(deleted\))")

SYNCS = ("fsync", "fdatasync")
WRITES = ("write", "pwrite64", "writev", "pwritev", "pwritev2", "ftruncate", "fallocate")
LINKS = ("link", "linkat")
RENAMES = ("rename", "renameat", "renameat2")
REMOVALS = ("unlink", "unlinkat", "rmdir")

# Names in the target, by the role of the object.
ROLES = {
    "commit": re.compile(r"([^/]+/[^/]+/)metadata/v\d+\.metadata\.json"),
    "task": re.compile(r"_ebb/[^/.]+/[^/]+/[^/]+/task-\d+\.json"),
    "record": re.compile(r"_ebb/[^/.]+/[^/]+\.json"),
}

# The folder of a table, in the name of an object of it.
TABLE = re.compile(r"[^_/][^/]*/[^/]+/(?=data/|metadata/)")


class Call:
    """A system call: its name, and its arguments as text. `noted` keeps what the model finds at its begin."""

    def __init__(self, text):
        self.name, _, self.arguments = text.partition("(")
        self.noted = None

    def paths(self):
        return QUOTED.findall(self.arguments)

    def path_of_descriptor(self):
        """Returns the path of the first argument, a descriptor; None if its file has no name any more."""
        found = DESCRIPTOR.match(self.arguments)
        return found[1] if found and not NAMELESS.match(self.arguments) else None


def events(lines):
    """Yields for each call its begin, as (call, None), and its end, as (call, whether it succeeded)."""
    begun = {}
    for line in lines:
        process, _, text = line.strip().partition(" ")
        text = text.strip()
        if resumed := RESUMED.fullmatch(text):
            # Calls that do not concern the target were left out of the lines.
            if call := begun.pop(process, None):
                yield call, has_succeeded(resumed[1])
        elif CALL.fullmatch(text):
            call = Call(text.removesuffix(UNFINISHED))
            yield call, None
            if text.endswith(UNFINISHED):
                begun[process] = call
            else:
                yield call, has_succeeded(text)


def has_succeeded(text):
    found = RESULT.search(text)
    return found is not None and int(found[1]) >= 0


class File:
    def __init__(self):
        self.writes = self.synced_writes = 0


class Folder:
    pass


class Disk:
    """The names in the target as processes see them (`names`), and as a power loss leaves them (`lasting`): both
    are the file or folder by path. `skips` returns true for calls of fsync to be left out."""

    def __init__(self, root, skips=lambda call: False):
        self.root, self.skips = root, skips
        self.names, self.lasting = {}, {}
        self.errors, self.counts, self.synced = [], Counter(), set()

    def replay(self, run):
        """Replays the events of one run of a publisher."""
        for call, succeeded in run:
            if succeeded is None:
                self.begin(call)
            elif succeeded:
                self.end(call)
        lost = self.lost(self.root)
        self.errors += [f"at the end, {path}: {why}" for path, why in lost]

    def contains(self, path):
        return path is not None and (path == self.root or path.startswith(f"{self.root}/"))

    def begin(self, call):
        if call.name in SYNCS:
            call.noted = self.sync(call)
        elif call.name in LINKS + RENAMES and self.contains(call.paths()[-1]):
            call.noted = self.faults(*call.paths())
        elif call.name in REMOVALS and self.contains(call.paths()[-1]):
            call.noted = self.faults_of_removal(call.paths()[-1])

    def end(self, call):
        if call.name in SYNCS:
            if call.noted:
                call.noted()
        elif call.name in WRITES:
            path = call.path_of_descriptor()
            if self.contains(path):
                self.node(path).writes += 1
        elif call.name in LINKS + RENAMES:
            if any(map(self.contains, call.paths())):
                self.give_name(call, *call.paths())
        elif call.name in REMOVALS:
            path = call.paths()[-1]
            if self.contains(path):
                del self.names[path]
                self.errors += call.noted
                self.counts["removed records"] += role_of(self.relative(path))[0] == "record"
                self.counts["removed objects"] += TABLE.match(self.relative(path)) is not None and not is_staged(path)
        elif call.name in ("mkdir", "mkdirat"):
            path = call.paths()[-1]
            if self.contains(path):
                self.names[path] = Folder()
        elif call.name in ("open", "openat", "creat") and self.contains(call.paths()[-1]):
            self.open(call, call.paths()[-1])

    def open(self, call, path):
        if "O_EXCL" in call.arguments:
            self.names[path] = File()
        elif "O_TRUNC" in call.arguments or call.name == "creat":
            self.node(path).writes += 1
        else:
            # The target was absent at first, so the model knows all files.
            self.node(path)

    def node(self, path):
        assert path in self.names, f"the trace does not show where {path} comes from"
        return self.names[path]

    def relative(self, path):
        return path.removeprefix(self.root).removeprefix("/")

    def sync(self, call):
        """Returns the effect of an fsync that begins now; None if it has none on the target."""
        path = call.path_of_descriptor()
        is_around = path == os.path.dirname(self.root)
        if not is_around and not self.contains(path) or self.skips(call):
            return None
        self.synced.add(path)
        node = None if is_around else self.node(path)
        if isinstance(node, File):
            writes = node.writes

            def effect():
                node.synced_writes = max(node.synced_writes, writes)
        else:
            within = {name: of for name, of in self.names.items() if os.path.dirname(name) == path}

            def effect():
                for name in [name for name in self.lasting if os.path.dirname(name) == path]:
                    del self.lasting[name]
                self.lasting.update(within)
        return effect

    def give_name(self, call, before, path):
        assert self.contains(before) and self.contains(path), f"{before} gets a name across the target's border"
        node = self.node(before)
        if call.name in RENAMES:
            del self.names[before]
        self.names[path] = node
        self.errors += call.noted
        if not is_staged(path):
            self.counts["objects"] += 1
            self.counts[role_of(self.relative(path))[0]] += 1

    def faults(self, before, path):
        """Returns what is wrong if the file `before` gets the name `path` now."""
        if is_staged(path):
            return []
        name = self.relative(path)
        found = []
        node = self.node(before)
        if node.writes != node.synced_writes:
            found.append(f"{name} gets its name before its content is on the disk")
        role, table = role_of(name)
        if role != "object":
            lost = self.lost(f"{self.root}/{table}")
            found += [f"{name} gets its name while {self.relative(other)} could be lost: {why}" for other, why in lost]
        if role == "commit":
            back = (other for other in self.lasting if self.lasting[other] is not self.names.get(other))
            back = (self.relative(other) for other in back)
            found += [f"{name} gets its name while {other} could come back"
                      for other in back if role_of(other)[0] == "record"]
        return found

    def faults_of_removal(self, path):
        """Returns what is wrong if the file or folder `path` is removed now."""
        name = self.relative(path)
        table = TABLE.match(name)
        if table is None or is_staged(path):
            return []
        lost = (self.relative(other) for other, _ in self.lost(f"{self.root}/{table[0]}"))
        return [f"{name} is removed while {other} could be lost" for other in lost if role_of(other)[0] == "commit"]

    def lost(self, prefix):
        """Yields each object below a folder that a power loss would take now, and the reason."""
        for path, node in self.names.items():
            if isinstance(node, Folder) or is_staged(path) or not path.startswith(prefix):
                continue
            if node.writes != node.synced_writes:
                yield path, "its content is not on the disk"
            while self.contains(path):
                if self.lasting.get(path) is not self.names[path]:
                    yield path, f"the name {os.path.basename(path)} is not on the disk"
                path = os.path.dirname(path)

    def lasting_folders(self):
        """Returns the folders in which anything has a name now."""
        return {os.path.dirname(path) for path in self.names if not is_staged(path)}


def is_staged(path):
    """Returns whether a path is that of a file in which the bytes of an object are collected."""
    return "#" in os.path.basename(path)


def role_of(name):
    """Returns the role of an object by its name in the target, and the prefix of the objects that it may name."""
    for role, pattern in ROLES.items():
        if found := pattern.fullmatch(name):
            return role, "".join(found.groups())
    return "object", ""


def replayed(root, runs, skips=lambda call: False):
    """Returns the model after all runs, without the calls of fsync for which `skips` returns true."""
    disk = Disk(root, skips)
    for run in runs:
        disk.replay(run)
    return disk


def omissions(disk, runs):
    """Yields sets of calls of fsync whose absence must be an error, each with a name."""
    files = {path for path in disk.synced if is_staged(path)}
    folders = disk.lasting_folders() & disk.synced
    assert files and folders, "the traces have no fsync of files or none of folders"
    yield "all", lambda call: True
    yield "all files", lambda call: call.path_of_descriptor() in files
    yield "all folders", lambda call: call.path_of_descriptor() in disk.synced - files
    for path in sorted(files | folders):
        yield path, lambda call, path=path: call.path_of_descriptor() == path


def main(root, tables, *traces):
    runs = []
    for trace in traces:
        with open(trace, encoding="utf-8", errors="replace") as lines:
            # Calls on the database are left out. The path of the folder around the target is only in an fsync.
            folder = f"{os.path.dirname(root)}>"
            runs.append(list(events(line for line in lines if keeps(line, root, folder))))
    disk = Disk(root)
    for trace, run in zip(traces, runs):
        before = Counter(disk.counts)
        disk.replay(run)
        new = disk.counts - before
        # One of each table for the tag, and one more of each but the last for main.
        commits = 2 * int(tables) - 1
        assert new["commit"] == commits, f"{trace} shows {new['commit']} commits of {tables} tables"
        assert new["record"] == 1 and new["task"], f"{trace} shows no record of the publication or of a task"
    for error in disk.errors:
        print(error)
    if disk.errors:
        sys.exit(f"a power loss would damage a publication: {len(disk.errors)} errors")
    assert disk.counts["removed records"], "no completion record was removed"
    there = {os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names}
    known = {path for path, node in disk.names.items() if isinstance(node, File)}
    assert there == known, f"the traces and the folder differ in {sorted(there ^ known)[:3]}"
    checks = 0
    for name, skips in omissions(disk, runs):
        assert replayed(root, runs, skips).errors, f"without the fsync of {name} the model finds no error"
        checks += 1
    print(f"{len(runs)} publications: {disk.counts['objects']} objects and {disk.counts['commit']} commits outlast "
          f"a power loss, {disk.counts['removed objects']} objects of tables were removed; "
          f"each of {checks} omissions of fsync was noticed")


def keeps(line, root, folder):
    return f"{root}/" in line or f"{root}\"" in line or f"{root}>" in line or folder in line or "resumed>" in line


if __name__ == "__main__":
    main(*sys.argv[1:])
