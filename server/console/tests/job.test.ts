import assert from "node:assert/strict";
import { test } from "node:test";
import type { JobView } from "../src/api/types";
import { atWorkText, doneAtMs, isOver, jobOf, outlook, slackS, slackWords } from "../src/state/job";
import { Finish, Outcome, Took } from "../src/view/jobs";
import { textOf } from "./vnodes";

function view(changes: Partial<JobView> = {}): JobView {
  return {
    record: {
      id: "1795445223688",
      application: "wordcount",
      request: {
        application: { wordcount: { reduces: 2 } },
        inputs: [{ table: { table: "app.lines", snapshot: "monday" } }],
        output: { to: { table: "app.counts" } },
        directory: "/",
        goal_s: 60,
      },
      state: "started",
      started_unix_ms: 1_000_000,
      starts: 1,
      ended_unix_ms: null,
    },
    run: {
      inputs: [{ name: "app.lines", snapshot: "monday" }],
      policy: "forecast-edf",
      progress: {
        step: 1,
        steps: 1,
        status: {
          name: "wordcount",
          state: "running",
          share_hundredths: 31,
          tasks_running: 2,
          maps_done: 6,
          maps_total: 8,
          reduces_done: 0,
          reduces_total: 2,
          attempts_failed: 0,
          cpu_s: 0.1,
          cause: null,
        },
      },
    },
    end: null,
    prediction: null,
    ...changes,
  };
}

const prediction = (finish: number) => ({
  finish_unix_ms: finish,
  low_unix_ms: finish - 1000,
  high_unix_ms: finish + 1000,
  goal_unix_ms: 1_060_000,
  slack_s: (1_060_000 - finish) / 1000,
  method: "simulated",
});

test("a running job has its progress, its goal and its places", () => {
  const job = jobOf(view());
  assert.equal(job.state, "running");
  assert.equal(job.progress, 0.6);
  assert.equal(job.done, "6/8 maps");
  assert.equal(job.goalMs, 1_060_000);
  assert.deepEqual([job.input, job.output], ["app.lines", "app.counts"]);
});

// Regression: a job that its server's stop had left counted as one at work, with an end that was not known yet.
test("an unfinished job is not at work, and its end is not predicted", () => {
  const [running, unfinished] = [jobOf(view()), jobOf(view({ run: null }))];
  assert.equal(atWorkText([running]), "1 job at work");
  assert.equal(atWorkText([running, unfinished]), "1 job at work, 1 unfinished");
  const finish = (job: typeof running) => textOf(Finish({ job, nowMs: 1_010_000 }));
  assert.deepEqual([finish(running), finish(unfinished)], ["not known yet", "–"]);
});

test("a running job says why it waits, if a reason is known", () => {
  const waiting = view();
  waiting.run!.progress.waits = { kind: "others", used_cores: 1.95, cores: 2 };
  assert.equal(jobOf(waiting).waits, "other processes use 1.95 of 2 cores");
  assert.equal(jobOf(view()).waits, null);
});

test("a job is late as soon as its prediction passes the goal", () => {
  const at = 1_010_000;
  assert.equal(outlook(jobOf(view()), at), "unknown");
  assert.equal(outlook(jobOf(view({ prediction: prediction(1_050_000) })), at), "on-time");
  const late = jobOf(view({ prediction: prediction(1_075_000) }));
  assert.equal(outlook(late, at), "late");
  assert.equal(slackS(late, at), -15);
});

// Regression: a job that was predicted not to end within a week looked like one that was not predicted yet.
test("a job that does not end within a week is late, unless its goal is later", () => {
  const at = 1_010_000;
  const beyond = (goalMs: number, horizonMs: number) =>
    jobOf(view({ beyond_horizon: { horizon_unix_ms: horizonMs, goal_unix_ms: goalMs, method: "simulated" } }));
  const finish = (job: ReturnType<typeof jobOf>) => textOf(Finish({ job, nowMs: at }));
  const late = beyond(1_060_000, at + 604_800_000);
  assert.deepEqual([outlook(late, at), slackS(late, at), slackWords(late, at)], ["late", null, "late"]);
  assert.equal(finish(late), "not within a week");
  assert.equal(slackWords(late, 1_061_000), "1 s late");
  const open = beyond(1_060_000, 1_050_000);
  assert.deepEqual([outlook(open, at), slackWords(open, at)], ["unknown", null]);
  // The goal moves with the server's clock.
  assert.equal(beyond(1_070_000, at + 604_800_000).goalMs, 1_070_000);
  const unpredicted = jobOf(view());
  assert.deepEqual([outlook(unpredicted, at), slackWords(unpredicted, at)], ["unknown", null]);
  assert.equal(finish(unpredicted), "not known yet");
});

test("without a prediction a job is late once its goal has passed", () => {
  const job = jobOf(view());
  assert.equal(outlook(job, 1_061_000), "late");
  assert.equal(slackS(job, 1_061_000), -1);
});

test("a job of a server that is gone is unfinished, and one that ended is over", () => {
  assert.equal(jobOf(view({ run: null })).state, "unfinished");
  assert.ok(isOver(jobOf(ended({}, 1_061_000))));
});

/** A job that succeeded, with the report of a runtime in which it was submitted at 3 s. */
function ended(record: Partial<JobView["record"]>, endedMs: number, finishedS?: number): JobView {
  const report = finishedS !== undefined && {
    submitted_s: 3,
    goal_s: 63,
    finished_s: finishedS,
    met: finishedS <= 63,
    tasks: 1,
    bytes_in: 0,
    cpu_s: 0.1,
    counters: {},
    outcome: { kind: "succeeded" },
  };
  return view({
    record: { ...view().record, state: "succeeded", ended_unix_ms: endedMs, ...record },
    run: null,
    end: report ? { report, parked: false, unrecorded: null } : null,
  });
}

test("the report of a job that has ended decides whether it kept its goal", () => {
  const missed = jobOf(ended({}, 1_061_000, 64));
  assert.equal(outlook(missed, 2_000_000), "missed");
  assert.equal(slackS(missed, 2_000_000), -1);
  assert.equal(missed.done, "1 task");
  // Its server was killed before it recorded the end.
  const found = jobOf(ended({}, 1_500_000));
  assert.equal(outlook(found, 2_000_000), "unknown");
  assert.equal(slackS(found, 2_000_000), null);
});

// Regression: after the server's clock was set, the goal counted from the start by the old clock.
test("the goal of a running job moves with the server's clock", () => {
  const hour = 3_600_000;
  const moved = { ...prediction(1_040_000 + hour), goal_unix_ms: 1_060_000 + hour };
  const job = jobOf(view({ prediction: moved }));
  assert.equal(outlook(job, 1_020_000 + hour), "on-time");
  assert.equal(slackS(job, 1_020_000 + hour), 20);
});

// Regression: a cancelled job was shown as one that missed its goal.
test("a cancelled job neither met nor missed its goal", () => {
  const view = ended({ state: "cancelled" }, 1_030_000, 33);
  view.end!.report.outcome.kind = "cancelled";
  view.end!.report.met = false;
  const job = jobOf(view);
  assert.equal(outlook(job, 2_000_000), "none");
  assert.equal(slackS(job, 2_000_000), null);
  const failed = jobOf(ended({ state: "failed" }, 1_030_000));
  assert.equal(outlook(failed, 2_000_000), "missed");
});

test("rows for the terminal of a client have no place of their own", () => {
  const output = { to: { spool: "/data/spill/.ebb-job-x/rows" } };
  const record = { ...view().record, request: { ...view().record.request, output } };
  assert.equal(jobOf(view({ record })).output, "terminal");
});

// Regression: the goal counted from the first start until the first prediction, and again after the end.
test("a goal counts from the latest start of a job", () => {
  const record = { ...view().record, starts: 2, restarted_unix_ms: 1_090_000 };
  const job = jobOf(view({ record }));
  assert.equal(job.goalMs, 1_150_000);
  assert.equal(outlook(job, 1_100_000), "unknown");
  const met = jobOf(ended({ starts: 2, restarted_unix_ms: 1_090_000 }, 1_102_000, 15));
  assert.equal(met.goalMs, 1_150_000);
  assert.equal(outlook(met, 2_000_000), "met");
  assert.equal(slackS(met, 2_000_000), 48);
  const unfinished = jobOf(view({ run: null }));
  assert.equal(unfinished.goalMs, null);
  assert.equal(outlook(unfinished, 2_000_000), "unknown");
  assert.equal(slackS(unfinished, 2_000_000), null);
});

/** A backup or a verification that has a quarter of its bytes. */
function maintenance(application: string, rate: number, output?: { to: Record<string, string> }) {
  const status = { ...view().run!.progress.status, tasks_running: 0, maps_done: 0, maps_total: 0, reduces_total: 0 };
  const bytes = { bytes_done: 1 << 28, bytes_total: 1 << 30, bytes_per_s: rate };
  const request = { application: { [application]: { by: "cron" } }, output, directory: "" };
  return view({
    record: { ...view().record, application, request },
    run: { inputs: [], policy: "", progress: { step: 1, steps: 1, status, bytes } },
  });
}

test("a backup has its bytes, its rate and the time at which it is done", () => {
  const backup = jobOf(maintenance("backup", 1 << 20, { to: { folder: "nightly" } }));
  assert.equal(backup.state, "running");
  assert.ok(backup.isMaintenance);
  assert.equal(backup.progress, 0.25);
  assert.equal(backup.done, "256 MiB of 1.0 GiB, 1.0 MiB/s");
  assert.equal(backup.output, "nightly");
  assert.equal(doneAtMs(backup, 1000), 1000 + 768_000);
  assert.equal(outlook(backup, 1000), "none");
});

test("a verification has no output, and waits while nothing is read", () => {
  const verification = jobOf(maintenance("verify", 0));
  assert.equal(verification.state, "waiting");
  assert.equal(verification.output, "");
  assert.equal(doneAtMs(verification, 1000), null);
  assert.equal(doneAtMs(jobOf(view()), 1000), null, "a job has a prediction");
});

// Regression: the time was the difference of two times of the machine's clock, which was set back by an hour.
test("the duration of a job is by the clock of the server's runtime, which nobody sets", () => {
  const took = (view: JobView) => textOf(Took({ job: jobOf(view) }));
  assert.equal(took(ended({}, 1_012_000 - 3_600_000, 15)), "12 s");
  // Its server was killed before it recorded the end.
  assert.equal(took(ended({}, 1_061_000)), "1 min 1 s");
  assert.equal(took(ended({}, 1_000_000 - 3_600_000)), "0 s");
  assert.equal(jobOf(view()).tookS, null);
});

// Regression: only the report of a job that ran had a cause, so a failed backup was shown without one.
test("a job without a report of the runtime has the cause in its record", () => {
  const cause = "/srv/backups: No space left on device";
  const failed = maintenance("backup", 0, { to: { folder: "nightly" } });
  const report = { outcome: { kind: "failed", cause } };
  const record = { ...failed.record, state: "failed" as const, ended_unix_ms: 1_061_000, report };
  assert.equal(jobOf({ ...failed, record, run: null }).cause, cause);
});

// Regression: a verification that had found damage looked like one without.
test("damage that a verification found stands beside its outcome", () => {
  const found = (report: JobView["record"]["report"]) => {
    const verification = maintenance("verify", 0);
    const record = { ...verification.record, state: "succeeded" as const, ended_unix_ms: 1_061_000, report };
    return textOf(Outcome({ job: jobOf({ ...verification, record, run: null }) }));
  };
  const outcome = { kind: "succeeded" };
  assert.equal(found({ outcome, verify: { findings: [] } }), "✓ succeeded");
  assert.equal(found({ outcome, verify: { findings: [{}] } }), "! succeeded, damaged or missing: 1 place");
  const many = Array.from({ length: 100 }, () => ({}));
  assert.equal(found({ outcome, backup: { damaged: many } }), "! succeeded, damaged or missing: at least 100 files");
  assert.equal(found({ outcome, restore: { left: [{}, {}] } }), "! succeeded, damaged or missing: 2 files");
});
