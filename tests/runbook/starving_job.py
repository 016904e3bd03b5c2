"""A job that starves: first because the latency objective cannot be met, until the server has another one. Then
a job beside busy programs on all cores, which runs on little CPU."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

import rehearsal

PAGE = "A job that starves"
# The size of the job beside busy programs: some seven seconds of one core, which takes the better part of a
# minute on the CPU that such programs leave to jobs.
POINTS = 1_000_000_000
BUSY = "while True: pass"


def submit(work, directory, points):
    """Submits a job, and returns its id."""
    job = ["run", "pi", "--points", str(points), "--output", "pi.tsv", "--detach"]
    command = [rehearsal.EBB, *job, "--data", str(directory)]
    done = subprocess.run(command, cwd=work, check=True, text=True, stdout=subprocess.PIPE)
    return done.stdout.strip()


def waits_for(directory, job):
    """Returns the reason why a job waits, as the API has it; `None` if there is none."""
    run = rehearsal.get(directory, f"/v1/jobs/{job}")["run"]
    return run and run["progress"]["waits"]


((stopped, floor),) = rehearsal.texts(PAGE)
look, change = rehearsal.commands(PAGE)

with tempfile.TemporaryDirectory() as work:
    directory = pathlib.Path(work) / "data"
    server = rehearsal.Server(directory, "--slo", "p99=1us")
    server.make_table()
    server.write(range(2000))
    stops = threading.Event()

    def load():
        select = server.session.prepare("SELECT v FROM shop.orders WHERE id = ?")
        id = 0
        # The load leaves CPU free, so only the guard can keep jobs from it.
        while not stops.wait(0.001):
            server.session.execute(select, [id % 2000])
            id += 1

    loading = threading.Thread(target=load)
    loading.start()
    server.logs([stopped])
    job = submit(work, directory, 2_000_000_000)

    def jobs():
        command = [rehearsal.EBB, "jobs", job, "--json", "--data", str(directory)]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    def waits_for_the_guard():
        waits = waits_for(directory, job)
        return waits and waits["kind"] == "guard"

    rehearsal.until(waits_for_the_guard)
    printed = rehearsal.run(look, directory)
    assert jobs()["attempts"] == [], "it does not starve"
    assert rehearsal.metric(printed, "ebb_guard_slack_ratio") < 0, printed
    stops.set()
    loading.join()
    rehearsal.run(change, directory)
    server.stop()
    config = pathlib.Path(work) / "ebb.toml"
    server = rehearsal.Server(directory, "--config", str(config))
    rehearsal.until(lambda: any(attempt["ended_s"] for attempt in jobs()["attempts"]))
    server.stop()

with tempfile.TemporaryDirectory() as work:
    directory = pathlib.Path(work) / "data"
    server = rehearsal.Server(directory)
    # The programs are in the session of the server. The kernel may divide the CPU among sessions first, and then
    # programs of another session leave jobs half of it.
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(os.cpu_count())]

    def waits_for_others():
        waits = waits_for(directory, job)
        return waits and waits["kind"] == "others" and waits

    try:
        job = submit(work, directory, POINTS)
        waits = rehearsal.until(waits_for_others)
        assert 0 < waits["used_cores"] <= waits["cores"], waits
        shown = rehearsal.quoted(PAGE, "waits: other processes")
        rehearsal.run(rehearsal.Block(["ebb jobs"], [shown]), directory)
        server.logs([floor])
        # The job ends although the programs go on.
        end = rehearsal.until(lambda: rehearsal.get(directory, f"/v1/jobs/{job}").get("end"), 300)
        assert all(other.poll() is None for other in others), "a busy program has ended"
        assert end["waited"]["kind"] == "others", end
        record = rehearsal.get(directory, f"/v1/jobs/{job}")["record"]
        assert record["state"] == "succeeded", record
    finally:
        for other in others:
            other.kill()
            other.wait()
    server.stop()
