"""A wrong forecast: other programs start, and a job that was on time becomes late; then it is cancelled."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

import rehearsal
from rehearsal import get

# The size of the job: it takes some twenty seconds on all cores of an idle machine, well within its goal, and
# longer than the goal beside a busy process on each core.
POINTS = 6_000_000_000
BUSY = "while True: pass"


def ebb(work, directory, *args):
    command = [rehearsal.EBB, *args, "--data", str(directory)]
    done = subprocess.run(command, cwd=work, check=True, text=True, stdout=subprocess.PIPE)
    return done.stdout.strip()


with tempfile.TemporaryDirectory() as work:
    directory = pathlib.Path(work) / "data"
    server = rehearsal.Server(directory)
    # The server must first measure the free capacity, because it plans by that.
    time.sleep(10)
    job = ["run", "pi", "--points", str(POINTS), "--detach"]
    id = ebb(work, directory, *job, "--goal", "90s", "--output", "late.tsv")
    rehearsal.until(lambda: get(directory, f"/v1/jobs/{id}").get("prediction"))
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(os.cpu_count())]

    def is_late():
        prediction = get(directory, f"/v1/jobs/{id}").get("prediction")
        return prediction is not None and prediction["slack_s"] < 0

    try:
        rehearsal.until(is_late)
        look, cancel = rehearsal.commands("A wrong forecast")
        printed = rehearsal.run(look, directory)
        assert '"source":"last-ten-minutes"' in printed, printed
        planned = get(directory, "/v1/forecast?seconds=60")["points"][0]["load_cores"]
        last = get(directory, "/v1/load?seconds=5")["samples"][-1]
        used = last["load_cores"] + last["others_cores"]
        assert planned < used - 0.1, f"the plan keeps {planned} cores from jobs, {used} are used"
        printed = rehearsal.run(cancel, directory)
        assert "done in" in printed, printed
        rehearsal.until(lambda: get(directory, f"/v1/jobs/{id}")["record"]["ended_unix_ms"])
    finally:
        for other in others:
            other.kill()
            other.wait()
    # The other programs have ended. The job is submitted again, with a goal that it meets.
    id = ebb(work, directory, *job, "--goal", "10min", "--output", "met.tsv")
    rehearsal.until(lambda: get(directory, f"/v1/jobs/{id}")["record"]["ended_unix_ms"], 300)
    report = get(directory, f"/v1/jobs/{id}")["end"]["report"]
    assert report["met"] is True, report
    server.stop()
