// What the server says, as JSON: docs/src/guide/http.md and /openapi.json.

/** One second (or ten) of the server. Times are of the server's clock. */
export interface Sample {
  at_unix_ms: number;
  load_cores: number;
  others_cores: number;
  analytics_cores: number;
  capacity_cores: number;
  requests_per_s: number;
  /** `null` without requests, as the other quantiles; an older server writes 0. */
  p50_us: number | null;
  p99_us: number | null;
  p999_us: number | null;
  /** The greatest latency that the objective allows at its quantile; `null` without one, and if it is unknown. */
  bound_us: number | null;
  /** Cores that each job used, by its id. */
  shares?: Record<string, number>;
}

export interface Objective {
  /** `p50`, `p99` or `p99.9`. */
  quantile: string;
  bound_us: number | null;
  ratio: number | null;
}

/** A change of what the guard does or allows. No two have the same time. */
export interface GuardAction {
  at_unix_ms: number;
  action: string;
  allowed_ratio: number;
  /** The slack in the window of latencies that led to the change; `null` if it is unknown. */
  slack_ratio: number | null;
}

export interface Share {
  job_id: string;
  name: string;
  points: [number, number][];
}

export interface Load {
  now_unix_ms: number;
  cores: number;
  objective: Objective | null;
  samples: Sample[];
  guard: GuardAction[];
  /** The time of the first action, if older ones in the time span were dropped. A report of an older server has none. */
  guard_cut_unix_ms?: number | null;
  shares: Share[];
}

export interface ForecastPoint {
  at_unix_ms: number;
  /** What the load, others and the guard keep from jobs: all cores less f(t). */
  load_cores: number;
  /** The interval around `load_cores`; null while too few errors of forecasts are known. */
  low_cores: number | null;
  high_cores: number | null;
}

export interface Forecast {
  made_at_unix_ms: number;
  source: string;
  /** The errors of a learned forecast that the server does not plan by. */
  refused?: { forecast_error_cores: number; mean_error_cores: number } | null;
  points: ForecastPoint[];
  error: { mean_abs_cores: number | null; windows: number } | null;
}

export interface Prediction {
  finish_unix_ms: number;
  low_unix_ms: number;
  high_unix_ms: number;
  goal_unix_ms: number | null;
  slack_s: number | null;
  method: string;
}

/** The prediction that a job does not end within a week. */
export interface BeyondHorizon {
  /** The job is predicted to end after this. */
  horizon_unix_ms: number;
  goal_unix_ms: number | null;
  method: string;
}

/** A job request: docs/src/formats/jobs.md. */
export interface JobRequest {
  version?: number;
  application: Record<string, Record<string, unknown>>;
  inputs?: Record<string, unknown>[];
  /** A verification, which nobody can submit, has none. */
  output?: { to: Record<string, string> | string; format?: string | null; limit?: number | null };
  directory: string;
  goal_s?: number | null;
  [field: string]: unknown;
}

export interface JobRecord {
  id: string;
  application: string;
  request: JobRequest;
  state: "started" | "succeeded" | "failed" | "cancelled";
  started_unix_ms: number;
  /** The latest start, if that is not the first one. The goal counts from there. */
  restarted_unix_ms?: number;
  starts: number;
  ended_unix_ms: number | null;
  report?: RecordedReport | null;
}

/** The end of a job in the history. A job that did not start, a backup and a verification have no `JobReport`. */
export interface RecordedReport {
  outcome?: { kind: string; cause?: string };
  /** Each list of damage has 100 elements at most. */
  backup?: { damaged: unknown[] };
  verify?: { findings: unknown[] };
  restore?: { left: unknown[] };
}

export interface JobStatus {
  name: string;
  state: string;
  share_hundredths: number;
  tasks_running: number;
  maps_done: number;
  maps_total: number;
  reduces_done: number;
  reduces_total: number;
  attempts_failed: number;
  cpu_s: number;
  cause: string | null;
}

/** The reason why a job that could run makes little progress. */
export type Wait =
  | { kind: "jobs"; share_cores: number; left_cores: number }
  | { kind: "others" | "load"; used_cores: number; cores: number }
  | { kind: "guard"; quantile: string; allowed_ratio: number; slack_ratio: number }
  | { kind: "limit"; cores: number; throttled_ratio: number };

/** The progress of a backup or a verification. */
export interface ByteProgress {
  bytes_done: number;
  bytes_total: number;
  /** Over the last ten seconds. */
  bytes_per_s: number;
}

/** Times are in seconds of the runtime's clock, which nobody sets. */
export interface JobReport {
  /** The latest start of the job. */
  submitted_s: number;
  goal_s: number | null;
  finished_s: number;
  met: boolean | null;
  tasks: number;
  bytes_in: number;
  cpu_s: number;
  counters: Record<string, number>;
  outcome: { kind: string; cause?: string };
}

export interface JobView {
  record: JobRecord;
  run: {
    inputs: { name: string; snapshot: string | null }[];
    policy: string;
    progress: { step: number; steps: number; status: JobStatus; waits?: Wait | null; bytes?: ByteProgress };
  } | null;
  end: { report: JobReport; parked: boolean; unrecorded: string | null } | null;
  prediction?: Prediction | null;
  /** An older server leaves it out. */
  beyond_horizon?: BeyondHorizon | null;
}

export interface Attempt {
  job: number;
  kind: "map" | "reduce";
  index: number;
  attempt: number;
  started_s: number;
  ended_s: number;
  cpu_s: number;
  bytes_in: number;
  bytes_out: number;
  outcome: { kind: string; cause?: string };
}

export interface Victim {
  job_id: string;
  name: string;
  goal_unix_ms: number;
  finish_without_unix_ms: number;
  /** `null`: not within a week. */
  finish_with_unix_ms: number | null;
}

/** Times are `null` where they are not within a week. */
export interface WhatIf {
  finish_unix_ms: number | null;
  low_unix_ms: number | null;
  high_unix_ms: number | null;
  meets_goal: boolean | null;
  victims: Victim[];
  answered_in_ms: number;
}

export interface Snapshot {
  name: string;
  keyspace: string;
  /** The tables that it covers. */
  tables: string[];
  single_table: boolean;
  created_unix_ms: number | null;
  age_s: number | null;
  expires_unix_ms: number | null;
  sequence: number;
  /** What is kept for it alone, as far as runs know: no less than this. */
  pinned_bytes: number;
  files: number;
}

export interface TableSummary {
  keyspace: string;
  table: string;
  memtable_bytes: number;
  file_bytes: number;
  files: number;
  runs: number;
  bookmarks: number;
  merges: number;
  /** What is kept of older versions for snapshots, also what several of them share. */
  pinned_bytes: number;
  garbage_bytes: number;
  compaction_debt_bytes: number;
  damaged_files: number;
}

export interface Run {
  id: number;
  bytes: number;
  files: number;
  keys: number;
  min_sequence: number;
  max_sequence: number;
  /** 0 is the oldest. Runs of the same number are seen by the same snapshots. */
  stratum: number;
  /** The number of its files that are damaged, missing or could not be read. */
  damaged_files: number;
}

export interface Merge {
  /** Ids of runs. */
  inputs: number[];
  read_versions: number;
  all_versions: number;
  all_bytes: number;
}

export interface TableDetail {
  summary: TableSummary;
  /** The newest first. */
  runs: Run[];
  bookmarks: { snapshot: string; sequence: number }[];
  merges: Merge[];
}

/** A query of CQL that waits or runs. Point requests are not listed. */
export interface Query {
  id: number;
  address: string;
  user: string | null;
  keyspace: string | null;
  /** With `?` for each constant; the first statement of a batch. */
  statement: string;
  statements: number;
  lane: string;
  state: "waiting" | "running" | "ending";
  waits_for: "client" | "turn" | "memory" | null;
  queued_ms: number;
  running_ms: number;
}

export interface Backup {
  name: string;
  created_unix_ms: number;
  bytes: number;
}

export interface Setting {
  /** The name in a file. The flag has two dashes before it. */
  name: string;
  value: unknown;
  source: "flag" | "environment" | "file" | "default";
}

export interface Configuration {
  version: string;
  /** In the order of `ebb serve --help`. */
  settings: Setting[];
}

/** The answer to a readiness check, also the one with status 503. */
export interface Readiness {
  status: "ok" | "degraded" | "unavailable";
  /** Those that stop all writes come first. */
  problems: { kind: string; table?: string; detail: string }[];
}

export interface Session {
  scope: "read" | "jobs" | "admin";
  name: string;
}

export interface Page {
  next?: string | null;
}
