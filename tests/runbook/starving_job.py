"""A job that starves: the latency objective cannot be met. With another objective the job runs."""

import json
import pathlib
import subprocess
import tempfile
import threading

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
        # The load leaves CPU free, so only the guard can keep jobs from it.
        while not stops.wait(0.001):
            server.session.execute(select, [id % 2000])
            id += 1

    loading = threading.Thread(target=load)
    loading.start()
    (stopped,) = rehearsal.texts("A job that starves")
    server.logs(stopped)
    job = ["run", "pi", "--points", "2000000000", "--output", "pi.tsv", "--detach"]
    job = subprocess.run(
        [rehearsal.EBB, *job, "--data", str(directory)],
        cwd=work,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    ).stdout.strip()

    def jobs():
        command = [rehearsal.EBB, "jobs", job, "--json", "--data", str(directory)]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    def waits_for_the_guard():
        run = rehearsal.get(directory, f"/v1/jobs/{job}")["run"]
        waits = run and run["progress"]["waits"]
        return waits and waits["kind"] == "guard"

    look, change, after = rehearsal.commands("A job that starves")
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
    rehearsal.run(after, directory)
    rehearsal.until(lambda: any(attempt["ended_s"] for attempt in jobs()["attempts"]))
    server.stop()
