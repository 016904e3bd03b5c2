"""A full disk: a small file system is filled. Once the ballast is removed, the server accepts writes again.
TRUNCATE, DROP TABLE and DROP SNAPSHOT succeed on the full disk, and give space back. A job whose files would
fill the disk fails before any write is refused.

Runs in a mount namespace of its own, see `run`."""

import errno
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import rehearsal

MIB = 1 << 20
# The free space below which writes are refused, and the space that jobs leave: "A full disk" in operations.md.
LOW_WATER_BYTES, JOBS_LEAVE_BYTES = 64 * MIB, 128 * MIB
# The rows of a table, and their bytes, which do not compress.
ROWS, ROW_BYTES = range(40), MIB // 2
# The exit code of a command whose job found the disk full.
DISK_FULL = 8
SORT = "run sort --generate 100000000 --output sorted.txt"


def free_bytes(work):
    """Returns the free space of the small file system."""
    stat = os.statvfs(work)
    return stat.f_bavail * stat.f_frsize


def leave(work, left_bytes):
    """Makes the file `filler` as long as leaves this space on the disk. Meanwhile no more is free."""

    def resized(file):
        length = file.seek(0, os.SEEK_END) + free_bytes(work) - left_bytes
        file.truncate(min(length, file.tell()))
        try:
            os.posix_fallocate(file.fileno(), 0, length)
            return True
        except OSError as error:
            # The server has taken some of the space.
            assert error.errno == errno.ENOSPC, error
            return False

    with open(f"{work}/filler", "ab") as file:
        rehearsal.until(lambda: resized(file))


def takes_writes(server, id):
    """Returns whether the server accepts a row."""
    try:
        server.write([id], 1000)
        return True
    except rehearsal.REFUSED as error:
        assert "disk is full" in str(error), error
        return False


def fills_up(work, directory):
    """Fills the disk and removes the ballast, by the commands of the page."""
    prepare, look, free = rehearsal.commands("A full disk")
    full, freed = rehearsal.texts("A full disk")
    rehearsal.run(prepare, directory)
    server = rehearsal.Server(directory)
    server.make_table()
    written = 0
    try:
        while written < 10_000:
            server.write([written], 200_000)
            written += 1
        sys.exit("the disk did not become full")
    except rehearsal.REFUSED as error:
        print(f"as expected after {written} rows: {error}")
        assert "disk is full" in str(error), error
    server.logs(full)
    assert server.count() >= written
    rehearsal.run(look, directory)
    rehearsal.run(free, directory)
    rehearsal.until(lambda: takes_writes(server, written))
    server.logs(freed)
    assert server.count() == written + 1
    server.stop()


def gives_back(work, directory):
    """Frees space by statements, each on a full disk."""
    server = rehearsal.Server(directory)
    server.make_table()
    names = ["emptied", "dropped", "pinned"]
    for name in names:
        server.session.execute(f"CREATE TABLE shop.{name} (id int PRIMARY KEY, v blob)")
        insert = server.session.prepare(f"INSERT INTO shop.{name} (id, v) VALUES (?, ?)")
        for id in ROWS:
            server.session.execute(insert, [id, os.urandom(ROW_BYTES)])
    server.session.execute("CREATE SNAPSHOT monday ON TABLE shop.pinned")
    for id in ROWS:
        server.session.execute(f"DELETE FROM shop.pinned WHERE id = {id}")
    table_bytes = len(ROWS) * ROW_BYTES

    def file_bytes(name):
        metric = f'ebb_table_file_bytes{{keyspace="shop",table="{name}"}}'
        return rehearsal.measured(directory, metric)

    # There are no more writes, so the rows are soon flushed to files, and the log becomes short.
    def are_in_files():
        return all(file_bytes(name) > table_bytes for name in names)

    rehearsal.until(are_in_files)
    rehearsal.until(lambda: rehearsal.measured(directory, "ebb_wal_bytes") < MIB)

    for statement in ["TRUNCATE shop.emptied", "DROP TABLE shop.dropped"]:
        leave(work, 0)
        rehearsal.until(lambda: not takes_writes(server, 1))
        ready = rehearsal.get(directory, "/health/ready")
        assert ready["status"] == "degraded", ready
        problem = {"kind": "disk-full", "detail": "the disk is full: no space for writes"}
        assert problem in ready["problems"], ready
        print(f"with {free_bytes(work)} bytes free: {statement}", flush=True)
        server.session.execute(statement)
        rehearsal.until(lambda: free_bytes(work) > 0.9 * table_bytes)

    leave(work, 0)
    rehearsal.until(lambda: not takes_writes(server, 1))
    server.session.execute("DROP SNAPSHOT monday ON KEYSPACE shop")
    # The merge that gives the space back needs some, but less than writes leave free.
    leave(work, LOW_WATER_BYTES - table_bytes // 2)
    rehearsal.until(lambda: takes_writes(server, 1))
    assert file_bytes("pinned") < 0.1 * table_bytes
    assert free_bytes(work) > LOW_WATER_BYTES
    rehearsal.until(lambda: rehearsal.get(directory, "/health/ready")["status"] == "ok")
    server.stop()


def stops_a_job(work, directory):
    """Runs a job whose files would fill the disk, beside a client that writes."""
    # Jobs have a sixteenth of the memory, so that they spill soon.
    server = rehearsal.Server(directory, "--memory", "256MiB")
    server.make_table()
    leave(work, JOBS_LEAVE_BYTES + 64 * MIB)
    command = [rehearsal.EBB, *SORT.split(), "--data", str(directory)]
    job = subprocess.Popen(command, cwd=work, text=True, stderr=subprocess.PIPE)
    least_bytes, writes = free_bytes(work), 0
    try:
        # Few rows, again and again: the job alone takes the space.
        while job.poll() is None:
            assert takes_writes(server, writes % 100), f"write {writes} was refused"
            least_bytes, writes = min(least_bytes, free_bytes(work)), writes + 1
    finally:
        job.kill()
    error = job.stderr.read()
    print(f"{writes} writes, at least {least_bytes} bytes free: {error}", flush=True)
    assert job.returncode == DISK_FULL, job.returncode
    assert "disk is full" in error, error
    assert LOW_WATER_BYTES < least_bytes < JOBS_LEAVE_BYTES + 32 * MIB, "the job did not spill"
    assert takes_writes(server, 0)
    rehearsal.until(lambda: free_bytes(work) > JOBS_LEAVE_BYTES + 32 * MIB)
    assert "the disk is full at" not in server.logged()
    server.stop()


with tempfile.TemporaryDirectory() as work:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512m", "tmpfs", work], check=True)
    directory = pathlib.Path(work) / "data"
    try:
        for scene in [fills_up, gives_back, stops_a_job]:
            print(f"-- {scene.__name__}", flush=True)
            scene(work, directory)
            for path in pathlib.Path(work).iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    finally:
        subprocess.run(["umount", "--lazy", work], check=True)
