// Builds the page into dist/, or the folder that is named. The same sources give the same
// bytes: versions are those of package-lock.json, and names come from contents.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const out = process.argv[2] ?? "dist";
rmSync(out, { recursive: true, force: true });
mkdirSync(join(out, "assets"), { recursive: true });

const { outputFiles } = await build({
  entryPoints: { console: "src/main.tsx", style: "src/style/index.css" },
  bundle: true,
  minify: true,
  write: false,
  outdir: out,
  format: "esm",
  target: ["es2022", "chrome123", "firefox121", "safari17.5"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
  logLevel: "warning",
});

/** Writes a file under a name that changes with its content, so that it may be kept forever. */
function write(ending) {
  const { contents } = outputFiles.find(({ path }) => path.endsWith(ending));
  const hash = createHash("sha256").update(contents).digest("hex").slice(0, 12);
  const name = `console-${hash}${ending}`;
  writeFileSync(join(out, "assets", name), contents);
  return name;
}

const page = readFileSync("src/index.html", "utf8");
writeFileSync(
  join(out, "index.html"),
  page.replace("{style}", write(".css")).replace("{script}", write(".js")),
);
cpSync("src/icon.svg", join(out, "assets", "icon.svg"));

/** What is bundled, with its licences. */
const bundled = ["preact", "@preact/signals", "@preact/signals-core"];
const licences = bundled.map((name) => {
  const folder = join("node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const text = readFileSync(join(folder, "LICENSE"), "utf8").trim();
  return `${name} ${version} (${license})\n\n${text}\n`;
});
writeFileSync(join(out, "assets", "licences.txt"), licences.join(`\n${"-".repeat(72)}\n\n`));
