// Runs the tests: bundled by esbuild, by Node's own runner.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const out = mkdtempSync(join(tmpdir(), "ebb-console-"));
try {
  const entryPoints = readdirSync("tests").filter((file) => file.endsWith(".test.ts")).map((file) => join("tests", file));
  await build({
    entryPoints,
    bundle: true,
    platform: "node",
    format: "esm",
    outdir: out,
    outExtension: { ".js": ".mjs" },
    sourcemap: "inline",
    logLevel: "warning",
  });
  const files = readdirSync(out).map((file) => join(out, file));
  const { status } = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...files], {
    stdio: "inherit",
  });
  process.exitCode = status ?? 1;
} finally {
  rmSync(out, { recursive: true });
}
