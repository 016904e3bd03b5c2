// Serves the built page over a made-up world, for work on its looks: `npm run mock [PORT]`.
// Any token is good. With `--silent-after S` it says nothing more after so many seconds, with `--jobs N` so many
// short jobs are newer than all others, with `--running N` so many more jobs run, and with `--tables N` there are so
// many more tables, the smallest damaged. With `--degraded` the disk is full, with `--ratio` the objective is a ratio,
// and with `--guard-cut` the decisions of the guard before the last two minutes are not kept.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { World } from "./world.mjs";

const port = Number(process.argv[2] ?? 9099);
const silentAfter = Number(process.argv[process.argv.indexOf("--silent-after") + 1] || Infinity);
const began = Date.now();
const isSilent = () => process.argv.includes("--silent-after") && Date.now() - began > silentAfter * 1000;
const world = new World(Date.now());
const has = (flag) => process.argv.includes(flag);
const numberOf = (flag) => (has(flag) ? Number(process.argv[process.argv.indexOf(flag) + 1]) : 0);
world.addShort(numberOf("--jobs"));
world.addRunning(numberOf("--running"));
world.tablesMore = numberOf("--tables");
world.isRatio = has("--ratio");
world.isGuardCut = has("--guard-cut");
const DEGRADED = [
  { kind: "disk-full", detail: "the disk is full: no space for writes" },
  { kind: "damaged-files", table: "shop.reviews", detail: "shop.reviews: files are damaged or unreadable, and reads that need them fail" },
];
const streams = new Set();
const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain" };

function tell(kind, data) {
  for (const stream of streams) stream.write(`event: ${kind}\ndata: ${JSON.stringify(data)}\n\n`);
}

setInterval(() => {
  if (isSilent()) return;
  const now = Math.floor(Date.now() / 1000) * 1000;
  world.step(now);
  if (now % 10_000 === 0) tell("coarse", world.sample(now));
  tell("sample", world.sample(now));
  if (now % 20_000 === 0) tell("guard", world.guard(now, now)[0]);
}, 1000);

createServer(async (request, response) => {
  const url = new URL(request.url, "http://localhost");
  let body = "";
  for await (const part of request) body += part;
  const json = body === "" ? {} : JSON.parse(body);
  const now = Date.now();
  const send = (status, value, headers = {}) => {
    response.writeHead(status, { "Content-Type": "application/json", ...headers });
    response.end(value === undefined ? undefined : JSON.stringify(value));
  };
  const problem = (status, detail) => send(status, { status, detail });
  const route = `${request.method} ${url.pathname}`;
  const file = url.pathname === "/" ? "index.html" : url.pathname.startsWith("/assets/") ? normalize(url.pathname).slice(1) : null;
  if (file !== null) {
    try {
      const content = readFileSync(join(import.meta.dirname, "..", "dist", file));
      response.writeHead(200, { "Content-Type": types[extname(file)], "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'" });
      return response.end(content);
    } catch {
      return problem(404, "there is no such file");
    }
  }
  if (isSilent()) return request.socket.destroy();
  if (route === "POST /v1/session") {
    if (!json.token?.startsWith("ebb_") || json.token === "ebb_wrong") return problem(401, "there is no such token, or it has expired or was revoked");
    return send(200, { scope: "admin", name: "ada" }, { "Set-Cookie": "ebb_session=1; HttpOnly; SameSite=Strict; Path=/" });
  }
  if (route === "GET /health/ready") return send(200, has("--degraded") ? { status: "degraded", detail: DEGRADED[0].detail, problems: DEGRADED } : { status: "ok", problems: [] });
  if (!request.headers.cookie?.includes("ebb_session=1")) return problem(401, "log in");
  if (route === "GET /v1/session") return send(200, { scope: "admin", name: "ada" });
  if (route === "DELETE /v1/session") return send(204, undefined, { "Set-Cookie": "ebb_session=; Max-Age=0; Path=/" });
  if (route === "GET /v1/load") return send(200, world.answerLoad(now, Number(url.searchParams.get("seconds") ?? 600)));
  if (route === "GET /v1/forecast") return send(200, world.answerForecast(now, Number(url.searchParams.get("seconds") ?? 600)));
  if (route === "GET /v1/jobs") {
    return send(200, world.listJobs(url.searchParams, now));
  }
  if (route === "POST /v1/jobs") {
    const name = Object.keys(json.application)[0];
    const job = world.add(name, { goalS: json.goal_s, taskS: 12, startedMs: now, request: json });
    tell("job", { id: job.id, state: "started" });
    return send(201, world.view(job, now));
  }
  const one = url.pathname.match(/^\/v1\/jobs\/(\d+)(?:\/(attempts|cancel|retry))?$/);
  if (one !== null) {
    const job = world.jobs.get(one[1]);
    if (job === undefined) return problem(404, `there is no job ${one[1]}`);
    if (one[2] === "attempts") return send(200, { attempts: [{ job: 1, kind: "map", index: 0, attempt: 1, started_s: 1, ended_s: 3.5, cpu_s: 1.2, bytes_in: 1e6, bytes_out: 1e5, outcome: { kind: "done" } }], next: null });
    if (one[2] === "cancel") {
      job.endedMs = now;
      job.state = "cancelled";
      tell("job", { id: job.id, state: "cancelled" });
      return send(200, { stopping: true });
    }
    if (one[2] === "retry") {
      const { name, goalS, taskS, request } = job;
      const again = world.add(name, { goalS, taskS, request, startedMs: now });
      tell("job", { id: again.id, state: "started" });
      return send(201, world.view(again, now));
    }
    return send(200, world.view(job, now));
  }
  if (route === "GET /v1/queries") return send(200, { queries: world.queries, next: null });
  if (request.method === "DELETE" && url.pathname.startsWith("/v1/queries/")) {
    const id = Number(url.pathname.split("/")[3]);
    const query = world.queries.find((query) => query.id === id);
    if (query === undefined) return problem(404, `no query ${id} waits or runs`);
    if (query.lane === "schema") return problem(409, `query ${id} may change something, so it goes on to its end`);
    world.queries = world.queries.filter((query) => query.id !== id);
    return send(204);
  }
  if (route === "GET /v1/backups") return send(200, { backups: world.backups, next: null });
  if (route === "GET /v1/config") return send(200, world.configuration);
  if (route === "POST /v1/what-if") return send(200, world.whatIf(now, json.goal_s));
  if (route === "GET /v1/keyspaces") return send(200, { keyspaces: ["shop"], next: null });
  if (route === "GET /v1/snapshots") return send(200, { snapshots: world.snapshots, next: null });
  if (route === "POST /v1/snapshots") {
    world.snapshots.push({ ...json, tables: ["orders"], single_table: false, created_unix_ms: now, age_s: 0, sequence: 96_500, pinned_bytes: 0, files: 3 });
    return send(201, json);
  }
  if (request.method === "DELETE" && url.pathname.startsWith("/v1/snapshots/")) {
    world.snapshots = world.snapshots.filter(({ name }) => name !== decodeURIComponent(url.pathname.split("/")[4]));
    return send(204);
  }
  if (route === "GET /v1/tables") return send(200, { tables: world.tables().map(({ summary }) => summary), next: null });
  if (url.pathname.startsWith("/v1/tables/")) return send(200, world.tables().find(({ summary }) => url.pathname.endsWith(`/${summary.table}`)));
  if (route === "GET /v1/events") {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write(": hello\n\n");
    streams.add(response);
    return response.on("close", () => streams.delete(response));
  }
  problem(404, `there is no ${url.pathname}`);
}).listen(port, "127.0.0.1", function () {
  console.log(`http://127.0.0.1:${this.address().port}/`);
});
