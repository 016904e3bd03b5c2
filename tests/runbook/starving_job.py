"""A job that starves: an objective that nothing can keep; with another the job goes on."""

import json
import pathlib
import subprocess
import tempfile
import threading
import time

import rehearsal

with tempfile.TemporaryDirectory() as work:
    directory = pathlib.Path(work) / "data"
    server = rehearsal.Server(directory, "--slo", "p99=1us")
    server.make_table()
    server.write(range(2000))
    stops = threading.Event()

    def load():
        select = server.session.prepare("SELECT v FROM shop.orders WHERE id = ?")
        id = 0
        while not stops.is_set():
            server.session.execute(select, [id % 2000])
            id += 1

    loading = threading.Thread(target=load)
    loading.start()
    time.sleep(5)
    job = ["run", "pi", "--points", "2000000000", "--output", "pi.tsv", "--detach"]
    job = subprocess.run(
        [rehearsal.EBB, *job, "--data", str(directory)],
        cwd=work,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    ).stdout.strip()

    def jobs():
        asked = [rehearsal.EBB, "jobs", job, "--json", "--data", str(directory)]
        return json.loads(subprocess.run(asked, check=True, stdout=subprocess.PIPE).stdout)

    look, change, after = rehearsal.commands("A job that starves")
    time.sleep(5)
    told = rehearsal.run(look, directory)
    assert jobs()["attempts"] == [], "it does not starve"
    assert "  waits: " in told, told
    slack = [line for line in told.splitlines() if line.startswith("ebb_guard_slack_ratio")]
    assert slack and float(slack[0].split()[-1]) < 0, told
    stops.set()
    loading.join()
    rehearsal.run(change, directory)
    server.stop()
    config = pathlib.Path(work) / "ebb.toml"
    server = rehearsal.Server(directory, "--config", str(config))
    rehearsal.run(after, directory)
    rehearsal.until(lambda: any(attempt["ended_s"] for attempt in jobs()["attempts"]))
    server.stop()
