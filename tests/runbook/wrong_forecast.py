"""A wrong forecast: other programs begin, and a job that was in time is not; then it is let go."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

import rehearsal
from rehearsal import ask

# Of a job that takes some ten seconds of an idle machine's cores, and a goal that leaves as much.
POINTS = 3_000_000_000
BUSY = "while True: pass"


def ebb(work, directory, *args):
    command = [rehearsal.EBB, *args, "--data", str(directory)]
    done = subprocess.run(command, cwd=work, check=True, text=True, stdout=subprocess.PIPE)
    return done.stdout.strip()


with tempfile.TemporaryDirectory() as work:
    directory = pathlib.Path(work) / "data"
    server = rehearsal.Server(directory)
    # The server measures what is left, and plans by it.
    time.sleep(10)
    job = ["run", "pi", "--points", str(POINTS), "--detach"]
    id = ebb(work, directory, *job, "--goal", "90s", "--output", "late.tsv")
    rehearsal.until(lambda: ask(directory, f"/v1/jobs/{id}").get("prediction"))
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(os.cpu_count())]

    def is_late():
        prediction = ask(directory, f"/v1/jobs/{id}").get("prediction")
        return prediction is not None and prediction["slack_s"] < 0

    try:
        rehearsal.until(is_late)
        look, question, cancel = rehearsal.commands("A wrong forecast")
        told = rehearsal.run(look, directory)
        assert '"source":"last-ten-minutes"' in told, told
        planned = ask(directory, "/v1/forecast?seconds=60")["points"][0]["load_cores"]
        last = ask(directory, "/v1/load?seconds=5")["samples"][-1]
        used = last["load_cores"] + last["others_cores"]
        assert planned < used - 0.1, f"the plan keeps {planned} cores from jobs, {used} are used"
        told = rehearsal.run(question, directory)
        assert "done in" in told, told
        rehearsal.run(cancel, directory)
        rehearsal.until(lambda: ask(directory, f"/v1/jobs/{id}")["record"]["ended_unix_ms"])
    finally:
        for other in others:
            other.kill()
            other.wait()
    # The others are gone, and it is submitted again with a goal that it meets.
    id = ebb(work, directory, *job, "--goal", "10min", "--output", "met.tsv")
    rehearsal.until(lambda: ask(directory, f"/v1/jobs/{id}")["record"]["ended_unix_ms"], 300)
    report = ask(directory, f"/v1/jobs/{id}")["end"]["report"]
    assert report["met"] is True, report
    server.stop()
