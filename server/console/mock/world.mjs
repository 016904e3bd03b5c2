// A server's answers made up: a load with waves, four jobs, two tables. For looking at the
// page, and at what is hard to have from a real server, such as a late goal or silence.

const CORES = 2;
const BOUND_US = 2500;
const noise = (t, seed) => Math.abs(Math.sin(t * 12.9898 + seed * 78.233) * 43758.5453) % 1;
const round = (value, digits = 3) => Number(value.toFixed(digits));

export class World {
  constructor(nowMs) {
    this.began = nowMs;
    this.jobs = new Map();
    this.tablesMore = 0;
    this.isRatio = false;
    this.isGuardCut = false;
    this.snapshots = [
      { name: "sunday", keyspace: "shop", tables: ["orders", "reviews"], single_table: false, age: 93_600, sequence: 41_200, pinned_bytes: 188_000_000, files: 9 },
      { name: "monday", keyspace: "shop", tables: ["orders", "reviews"], single_table: false, age: 7_200, sequence: 88_400, pinned_bytes: 31_000_000, files: 4 },
    ].map(({ age, ...one }) => ({ ...one, created_unix_ms: nowMs - age * 1000, age_s: age }));
    this.add("wordcount", { inputs: "shop.reviews", output: "shop.words", goalS: 420, taskS: 260, startedMs: nowMs - 140_000 });
    this.add("aggregate", { inputs: "shop.orders", output: "shop.daily", goalS: 200, taskS: 300, startedMs: nowMs - 90_000 });
    const sort = this.add("sort", { inputs: "shop.orders", output: "shop.sorted", goalS: null, taskS: 500, startedMs: nowMs - 40_000 });
    sort.isPredicted = false;
    // Far longer than a week, which is the horizon of predictions.
    this.add("join", { inputs: "shop.orders", output: "shop.pairs", goalS: 240, taskS: 3e6, startedMs: nowMs - 120_000 });
    this.add("backup", {
      goalS: null, taskS: 900, startedMs: nowMs - 300_000,
      request: { version: 1, application: { backup: {} }, output: { to: { folder: "tuesday" } }, directory: "/" },
    });
    this.backups = [
      { name: "monday", created_unix_ms: nowMs - 93_600_000, bytes: 1_304_000_000 },
      { name: "sunday", created_unix_ms: nowMs - 180_000_000, bytes: 1_271_000_000 },
    ];
    const query = (id, lane, statement, more) => ({
      id, address: `127.0.0.1:${40_000 + id}`, user: "ada", keyspace: "shop", statement, statements: 1, lane,
      state: "running", waits_for: null, queued_ms: 0, running_ms: 0, ...more,
    });
    this.queries = [
      query(7, "scan", "SELECT customer, sum(fare) FROM orders WHERE day > ? GROUP BY customer ALLOW FILTERING", { running_ms: 184_300 }),
      query(9, "schema", "CREATE INDEX ON orders (customer)", { running_ms: 3_100, user: null }),
      query(12, "scan", "SELECT * FROM reviews", { state: "waiting", waits_for: "turn", queued_ms: 2_700, keyspace: null }),
    ];
    const setting = (name, value, source = "default") => ({ name, value, source });
    this.configuration = {
      version: "0.1.0",
      settings: [
        setting("data", "/srv/ebb/shop", "file"), setting("http", "127.0.0.1:9043", "flag"),
        setting("http-hosts", ["console.example", "ebb.example"], "file"), setting("backup-root", "/srv/ebb/backups", "file"),
        setting("log", "info,ebb_storage=debug", "environment"), setting("policy", "forecast-edf"), setting("goal-p99", "2.5ms"),
        setting("tls-cert", null), setting("auth", true, "file"), setting("connections", 4096),
      ],
    };
    for (let i = 0; i < 6; i += 1) {
      const job = this.add(["grep", "pi", "join"][i % 3], {
        inputs: "shop.orders", output: "shop.found", goalS: i % 2 ? 60 : null, taskS: 50, startedMs: nowMs - 3_600_000 * (i + 1),
      });
      job.endedMs = job.startedMs + 1000 * (40 + 9 * i);
      job.state = i === 4 ? "failed" : i === 2 ? "cancelled" : "succeeded";
    }
  }

  add(name, { inputs, output, goalS, taskS, startedMs, request }) {
    let id = String(startedMs);
    while (this.jobs.has(id)) id = String(Number(id) + 1);
    const job = {
      id, name, goalS, taskS, startedMs, endedMs: null, state: "started", isPredicted: name !== "backup",
      request: request ?? {
        version: 1, application: { [name]: { reduces: 1 } }, inputs: [{ table: { table: inputs, snapshot: null } }],
        output: { to: { table: output } }, directory: "/", goal_s: goalS,
      },
    };
    this.jobs.set(id, job);
    return job;
  }

  /** Adds jobs that started in the last half minute, and have ended. */
  addShort(count) {
    for (let i = 0; i < count; i += 1) {
      const job = this.add("grep", { inputs: "shop.orders", output: "shop.found", goalS: null, taskS: 1, startedMs: this.began - 30_000 + i });
      job.endedMs = job.startedMs + 200;
      job.state = "succeeded";
    }
  }

  /** Adds jobs that started in the last minute, and run. */
  addRunning(count) {
    for (let i = 0; i < count; i += 1) {
      this.add("pi", { inputs: "shop.orders", output: "shop.found", goalS: null, taskS: 900, startedMs: this.began - 60_000 + i });
    }
  }

  /** The bound: of a ratio it follows what the load has without jobs, and is unknown for the first seconds. */
  bound(t) {
    if (!this.isRatio) return BOUND_US;
    return t < this.began - 250_000 ? null : 1900 + 100 * (Math.floor(t / 30_000) % 4);
  }

  /** A page of the list, as the server gives it. */
  listJobs(query, now) {
    const [after, limit] = [query.get("after"), Number(query.get("limit") ?? 100)];
    const isListed = (job) => query.get("state") === null || (query.get("state") === "running" && job.endedMs === null);
    const all = [...this.jobs.values()].filter(isListed).sort((a, b) => Number(b.id) - Number(a.id));
    const rest = all.filter(({ id }) => after === null || Number(id) < Number(after));
    const page = rest.slice(0, limit);
    return { jobs: page.map((job) => this.view(job, now)), next: rest.length > limit ? page.at(-1).id : null };
  }

  running(t) {
    return [...this.jobs.values()].filter((job) => job.startedMs <= t && (job.endedMs ?? Infinity) > t);
  }

  load(t) {
    const s = t / 1000;
    const wave = 0.62 + 0.32 * Math.sin(s / 47) + 0.12 * Math.sin(s / 11);
    return Math.min(1.7, Math.max(0.1, wave + 0.08 * noise(Math.floor(s), 1)));
  }

  sample(t) {
    const s = Math.floor(t / 1000);
    const load = this.load(t);
    const others = 0.04 + 0.03 * noise(s, 2);
    const capacity = Math.max(0, CORES - load - others - 0.1) * (this.allowed(t));
    const jobs = this.running(t);
    const used = jobs.length === 0 ? 0 : capacity * (0.9 + 0.08 * noise(s, 3));
    const weights = jobs.map((_, i) => 1 / (i + 1.4));
    const sum = weights.reduce((a, b) => a + b, 0);
    const shares = Object.fromEntries(jobs.map((job, i) => [job.id, round((used * weights[i]) / sum)]));
    const burst = s % 97 < 4 ? 3.2 : 1;
    const p99 = (700 + 900 * load + 250 * noise(s, 4)) * burst;
    return {
      at_unix_ms: t, load_cores: round(load), others_cores: round(others), analytics_cores: round(used),
      capacity_cores: round(capacity), requests_per_s: round(load * 14_000, 0),
      p50_us: round(140 + 60 * load, 0), p99_us: round(p99, 0), p999_us: round(p99 * (1.8 + noise(s, 5)), 0), bound_us: this.bound(t), shares,
    };
  }

  allowed(t) {
    return 0.55 + 0.1 * (Math.floor(t / 20_000) % 5);
  }

  guard(from, to) {
    const actions = [];
    for (let t = Math.ceil(from / 20_000) * 20_000; t <= to; t += 20_000) {
      const step = Math.floor(t / 20_000) % 5;
      actions.push({ at_unix_ms: t, action: step === 0 ? "shrink" : step === 3 ? "hold" : "grow", allowed_ratio: this.allowed(t), slack_ratio: round(0.35 - 0.1 * step) });
    }
    return actions;
  }

  answerLoad(now, seconds) {
    const step = seconds > 3600 ? 10_000 : 1000;
    const from = Math.ceil((now - seconds * 1000) / step) * step;
    const samples = [];
    for (let t = from; t <= now; t += step) samples.push(this.sample(t));
    const cut = this.isGuardCut ? now - 120_000 : null;
    const guard = this.guard(Math.max(from, cut ?? 0), now);
    return {
      now_unix_ms: now, cores: CORES, objective: { quantile: "p99", bound_us: this.isRatio ? null : BOUND_US, ratio: this.isRatio ? 1.1 : null },
      samples, guard, guard_cut_unix_ms: cut === null ? null : guard[0].at_unix_ms, shares: [],
    };
  }

  answerForecast(now, seconds) {
    const points = [];
    for (let i = 0; i <= 60; i += 1) {
      const at = now + (seconds * 1000 * i) / 60;
      const load = CORES - 0.75 * Math.max(0, CORES - this.load(at) - 0.15);
      const width = 0.06 + 0.22 * Math.sqrt(i / 60);
      points.push({ at_unix_ms: at, load_cores: round(load), low_cores: round(Math.max(0, load - width)), high_cores: round(load + width) });
    }
    return { made_at_unix_ms: now, source: "learned", refused: null, points, error: { mean_abs_cores: 0.07, windows: 120 } };
  }

  step(now) {
    for (const job of this.running(now)) {
      if (now - job.startedMs > job.taskS * 1000) {
        job.endedMs = now;
        job.state = "succeeded";
      }
    }
  }

  view(job, now) {
    const done = Math.min(1, (now - job.startedMs) / 1000 / job.taskS);
    const record = {
      id: job.id, application: job.name, request: job.request, own_snapshots: [], state: job.state,
      started_unix_ms: job.startedMs, starts: 1, commits: false, ended_unix_ms: job.endedMs, report: null, attempts_dropped: 0,
    };
    if (job.endedMs !== null) {
      const goal_s = job.goalS;
      const finished_s = (job.endedMs - job.startedMs) / 1000;
      const met = goal_s === null ? null : job.state === "succeeded" && finished_s <= goal_s;
      const report = { submitted_s: 0, goal_s, finished_s, met, tasks: 41, bytes_in: 9e7, cpu_s: 40, counters: { map_input_records: 91_000, map_input_bytes: 9e7 }, outcome: { kind: job.state, ...(job.state === "failed" ? { cause: "map 3 failed four times: row 17 has no column fare" } : {}) } };
      return { record, run: null, end: { report, parked: false, unrecorded: null }, prediction: null };
    }
    const finish = job.startedMs + job.taskS * 1000;
    const width = (finish - now) * 0.15;
    const goal = job.goalS === null ? null : job.startedMs + job.goalS * 1000;
    const isBackup = job.name === "backup";
    const horizon = now + 7 * 86_400_000;
    const isBeyond = job.isPredicted && finish > horizon;
    const method = "lookahead/forecast-edf";
    const bytes = { bytes_done: Math.round(done * 1.35e9), bytes_total: 1.35e9, bytes_per_s: Math.round(1.35e9 / job.taskS) };
    return {
      record,
      run: {
        inputs: [], policy: "forecast-edf", estimate: null,
        progress: {
          step: 1, steps: 1, ...(isBackup ? { bytes } : {}),
          waits: job.name === "sort" ? { kind: "jobs", share_cores: 0.9, left_cores: 1 } : null,
          status: {
            id: 1, name: job.name, state: "running", share_hundredths: Math.round(100 * (this.sample(Math.floor(now / 1000) * 1000).shares[job.id] ?? 0)),
            tasks_running: 2, maps_done: Math.floor(done * 40), maps_total: 40, reduces_done: 0, reduces_total: 1, attempts_failed: 0, cpu_s: 3, cause: null,
          },
        },
      },
      end: null,
      prediction: !job.isPredicted || isBeyond ? null : {
        finish_unix_ms: Math.round(finish), low_unix_ms: Math.round(finish - width), high_unix_ms: Math.round(finish + width),
        goal_unix_ms: goal, slack_s: goal === null ? null : (goal - finish) / 1000, method,
      },
      beyond_horizon: isBeyond ? { horizon_unix_ms: horizon, goal_unix_ms: goal, method } : null,
    };
  }

  tables() {
    const run = (id, bytes, min, max, stratum, damaged_files = 0) => ({
      id, bytes, files: 1 + (bytes >> 25), keys: bytes >> 7, min_sequence: min, max_sequence: max, stratum, damaged_files,
    });
    const marks = this.snapshots.map(({ name, sequence }) => ({ snapshot: name, sequence }));
    const all = [
      {
        keyspace: "shop", table: "orders", memtable_bytes: 11_400_000, pinned_bytes: 151_000_000,
        runs: [run(0, 2.1e6, 96_001, 97_000, 0), run(1, 4.4e6, 92_001, 96_000, 0), run(2, 17e6, 88_401, 92_000, 0), run(3, 46e6, 60_001, 88_400, 1), run(4, 120e6, 41_201, 60_000, 1), run(5, 812e6, 1, 41_200, 2)],
        bookmarks: marks, merges: [{ inputs: [0, 1, 2], read_versions: 14e4, all_versions: 23.5e4, all_bytes: 23.5e6 }],
      },
      {
        keyspace: "shop", table: "reviews", memtable_bytes: 2_100_000, pinned_bytes: 68_000_000,
        runs: [run(0, 9e6, 70_001, 97_000, 0), run(1, 240e6, 1, 70_000, 1, 1)], bookmarks: marks, merges: [],
      },
      { keyspace: "shop", table: "words", memtable_bytes: 84_000, pinned_bytes: 0, runs: [], bookmarks: [], merges: [] },
    ];
    for (let i = 0; i < this.tablesMore; i += 1) {
      const isLast = i === this.tablesMore - 1;
      all.push({
        keyspace: "small", table: `t${i}`, memtable_bytes: 0, pinned_bytes: 0,
        runs: [run(0, 9e5 - 1000 * i, 1, 500, 0, isLast ? 1 : 0)], bookmarks: [], merges: [],
      });
    }
    return all.map(({ keyspace, table, memtable_bytes, pinned_bytes, runs, bookmarks, merges }) => ({
      summary: {
        keyspace, table, memtable_bytes, pinned_bytes, garbage_bytes: 0, compaction_debt_bytes: 0,
        runs: runs.length, bookmarks: bookmarks.length, merges: merges.length,
        damaged_files: runs.reduce((sum, run) => sum + run.damaged_files, 0),
        files: runs.reduce((sum, run) => sum + run.files, 0), file_bytes: runs.reduce((sum, run) => sum + run.bytes, 0),
      },
      runs, bookmarks, merges,
    }));
  }

  whatIf(now, goalS) {
    const finish = now + 230_000;
    const victims = this.running(now).filter((job) => job.goalS !== null).slice(-1).map((job) => ({
      job_id: job.id, name: job.name, goal_unix_ms: job.startedMs + job.goalS * 1000,
      finish_without_unix_ms: job.startedMs + (job.goalS - 20) * 1000, finish_with_unix_ms: job.startedMs + (job.goalS + 45) * 1000,
    }));
    return { finish_unix_ms: finish, low_unix_ms: finish - 30_000, high_unix_ms: finish + 45_000, meets_goal: goalS == null ? null : goalS > 230, victims, answered_in_ms: 7.4 };
  }
}
