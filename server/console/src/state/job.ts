// A job as the page shows it.

import type { BeyondHorizon, ByteProgress, JobRequest, JobView, Prediction, RecordedReport } from "../api/types";
import { bytes, counted } from "../text/number";
import { duration } from "../text/time";
import { waitText } from "./wait";

export type JobState =
  | "running"
  | "waiting"
  | "unfinished"
  | "succeeded"
  | "failed"
  | "cancelled";

export interface Job {
  id: string;
  name: string;
  /** A backup, a restore or a verification: it reads all files, and nobody can submit it as a job. */
  isMaintenance: boolean;
  state: JobState;
  request: JobRequest;
  input: string;
  output: string;
  /** From 0 to 1. */
  progress: number;
  /** What is done, in words. */
  done: string;
  /** Cores that it may use, while it runs. */
  shareCores: number | null;
  /** The first start. */
  startedMs: number;
  /** The latest start, from which the goal counts. */
  begunMs: number;
  endedMs: number | null;
  /** The seconds from the latest start to the end; `null` until the end. */
  tookS: number | null;
  /** `null` without a goal, and while a goal waits for the next start to count from. */
  goalMs: number | null;
  /** How a job that has ended stands towards its goal; `null` if it has none, has no report or was cancelled. */
  verdict: { met: boolean; slackS: number } | null;
  prediction: Prediction | null;
  /** The prediction that it does not end within a week; `null` if its end is predicted, or not predicted yet. */
  beyond: BeyondHorizon | null;
  /** The progress of a backup, a restore or a verification, while it runs. */
  bytes: ByteProgress | null;
  cause: string | null;
  /** The damage that a backup or a verification found, or a restore left, as a clause; `null` without damage. */
  damage: string | null;
  /** Why it makes little progress, as a clause; `null` if it makes progress, or if no reason is known. */
  waits: string | null;
}

/** The applications of backups, restores and verifications. */
const MAINTENANCE = ["backup", "restore", "verify"];

/** The most elements that the history keeps of a list of damage. */
const DAMAGED_KEPT_MAX = 100;

/** Where a job stands towards its goal: `none` without one, and of a cancelled job, which neither met nor missed it. */
export type Outlook = "none" | "met" | "missed" | "on-time" | "late" | "unknown";

/** One that neither runs nor has ended: its server stopped before it. */
export function jobOf(view: JobView): Job {
  const { record, run, end } = view;
  const request = record.request;
  const status = run?.progress.status;
  const goalS = request.goal_s ?? null;
  const state = stateOf(view);
  const waits = end === null ? (run?.progress.waits ?? null) : null;
  const begunMs = record.restarted_unix_ms ?? record.started_unix_ms;
  // The server moves the goal of a running job with its clock: if the clock was set meanwhile, the start was
  // by another clock.
  const predicted = view.prediction ?? view.beyond_horizon;
  const movedGoalMs = record.ended_unix_ms === null ? predicted?.goal_unix_ms : null;
  return {
    id: record.id,
    name: record.application,
    isMaintenance: MAINTENANCE.includes(record.application),
    state,
    request,
    input: inputsOf(request).join(", "),
    output: outputOf(request),
    ...progressOf(view),
    shareCores: status === undefined || end !== null ? null : status.share_hundredths / 100,
    startedMs: record.started_unix_ms,
    begunMs,
    endedMs: record.ended_unix_ms,
    tookS: tookOf(view, begunMs),
    goalMs:
      goalS === null || state === "unfinished" ? null : (movedGoalMs ?? begunMs + goalS * 1000),
    verdict: verdictOf(view),
    prediction: view.prediction ?? null,
    beyond: view.beyond_horizon ?? null,
    bytes: end === null ? (run?.progress.bytes ?? null) : null,
    cause: status?.cause ?? end?.report.outcome.cause ?? record.report?.outcome?.cause ?? null,
    damage: damageOf(record.report),
    waits: waits === null ? null : waitText(waits),
  };
}

export function isOver(job: Job): boolean {
  return job.endedMs !== null;
}

/** Returns how many of the jobs that have not ended run or wait, and how many their server's stop has left. */
export function atWorkText(unended: readonly Job[]): string {
  const unfinished = unended.filter((job) => job.state === "unfinished").length;
  const atWork = `${counted(unended.length - unfinished, "job")} at work`;
  return unfinished === 0 ? atWork : `${atWork}, ${unfinished} unfinished`;
}

/** Whether it keeps its goal, as far as can be said. */
export function outlook(job: Job, nowMs: number): Outlook {
  if (job.request.goal_s == null || job.state === "cancelled") return "none";
  if (job.endedMs !== null) {
    if (job.state !== "succeeded") return "missed";
    if (job.verdict === null) return "unknown";
    return job.verdict.met ? "met" : "missed";
  }
  if (job.goalMs === null) return "unknown";
  if (nowMs > job.goalMs) return "late";
  // A goal after the horizon may still be met.
  if (job.beyond !== null) return job.goalMs <= job.beyond.horizon_unix_ms ? "late" : "unknown";
  if (job.prediction === null) return "unknown";
  return job.prediction.finish_unix_ms > job.goalMs ? "late" : "on-time";
}

/** Seconds between the end, as it was or is predicted, and the goal; negative: too late. `null` if not known. */
export function slackS(job: Job, nowMs: number): number | null {
  if (job.endedMs !== null) return job.verdict?.slackS ?? null;
  if (job.goalMs === null) return null;
  const end = job.prediction?.finish_unix_ms;
  if (end === undefined) return nowMs > job.goalMs ? (job.goalMs - nowMs) / 1000 : null;
  return (job.goalMs - end) / 1000;
}

/** The predicted end of a job that does not end within a week, in words. */
export const BEYOND_WORDS = "not within a week";

/** The slack of a job in words: `2 min late`, or only `late` if the time of its end is not known. */
export function slackWords(job: Job, nowMs: number): string | null {
  const slack = slackS(job, nowMs);
  if (slack === null) return outlook(job, nowMs) === "late" ? "late" : null;
  return slack < 0 ? `${duration(slack)} late` : duration(slack);
}

/** When a backup, a restore or a verification is done at its present rate; `null` if that is not known. */
export function doneAtMs(job: Job, nowMs: number): number | null {
  if (job.bytes === null || job.bytes.bytes_per_s <= 0) return null;
  const left = Math.max(0, job.bytes.bytes_total - job.bytes.bytes_done);
  return nowMs + (left / job.bytes.bytes_per_s) * 1000;
}

/** The predicted end of a job, or the end of a backup, a restore or a verification at its present rate, if known. */
export function finishMs(job: Job, nowMs: number): number | null {
  return job.prediction?.finish_unix_ms ?? doneAtMs(job, nowMs);
}

function stateOf({ record, run, end }: JobView): JobState {
  if (record.state !== "started") return record.state;
  if (run === null || end?.parked === true) return "unfinished";
  if (end !== null) return end.report.outcome.kind as JobState;
  const { status, bytes } = run.progress;
  const gets = status.tasks_running > 0 || status.maps_done > 0 || (bytes?.bytes_per_s ?? 0) > 0;
  return gets ? "running" : "waiting";
}

/** The verdict of the server, whose runtime set the goal at the latest start and saw the end. */
function verdictOf({ end }: JobView): Job["verdict"] {
  const report = end?.report;
  if (report == null || report.met === null || report.goal_s === null) return null;
  if (report.outcome.kind === "cancelled") return null;
  return { met: report.met, slackS: report.goal_s - report.finished_s };
}

/** The clock of the server's machine, by which the record has its times, may be set while the job runs. */
function tookOf({ record, end }: JobView, begunMs: number): number | null {
  if (record.ended_unix_ms === null) return null;
  const report = end?.report;
  if (report != null) return report.finished_s - report.submitted_s;
  return Math.max(0, record.ended_unix_ms - begunMs) / 1000;
}

/** The words of `ebb jobs` (server/cli/src/jobs/list.rs). */
function damageOf(report: RecordedReport | null | undefined): string | null {
  const places = report?.verify?.findings.length ?? 0;
  const files = (report?.backup?.damaged.length ?? 0) + (report?.restore?.left.length ?? 0);
  const count = places + files;
  if (count === 0) return null;
  const least = count >= DAMAGED_KEPT_MAX ? "at least " : "";
  return `damaged or missing: ${least}${counted(count, places > 0 ? "place" : "file")}`;
}

function progressOf({ record, run, end }: JobView): { progress: number; done: string } {
  if (run === null || end !== null) {
    const tasks = end?.report.tasks;
    const done = tasks === undefined ? "" : counted(tasks, "task");
    return { progress: record.state === "succeeded" ? 1 : 0, done };
  }
  const { step, steps, status } = run.progress;
  if (run.progress.bytes !== undefined) return byteProgressOf(run.progress.bytes);
  const total = status.maps_total + status.reduces_total;
  const part = total === 0 ? 0 : (status.maps_done + status.reduces_done) / total;
  const what =
    status.maps_done < status.maps_total || status.reduces_total === 0
      ? `${status.maps_done}/${status.maps_total} maps`
      : `${status.reduces_done}/${status.reduces_total} reduces`;
  const chain = steps > 1 ? `step ${step}/${steps}, ` : "";
  return { progress: Math.min(1, (step - 1 + part) / Math.max(1, steps)), done: chain + what };
}

function byteProgressOf(of: ByteProgress): { progress: number; done: string } {
  const progress = of.bytes_total === 0 ? 0 : Math.min(1, of.bytes_done / of.bytes_total);
  const done = `${bytes(of.bytes_done)} of ${bytes(of.bytes_total)}, ${bytes(of.bytes_per_s)}/s`;
  return { progress, done };
}

function inputsOf(request: JobRequest): string[] {
  return (request.inputs ?? []).map((input) => {
    const [kind, fields] = Object.entries(input)[0] ?? ["", {}];
    const { table, paths } = (fields ?? {}) as { table?: string; paths?: string[] };
    return table ?? paths?.join(", ") ?? kind;
  });
}

function outputOf(request: JobRequest): string {
  const to = request.output?.to ?? "";
  if (typeof to === "string") return to;
  // A temporary file of a client, which prints it.
  return "spool" in to ? "terminal" : (Object.values(to)[0] ?? "");
}
