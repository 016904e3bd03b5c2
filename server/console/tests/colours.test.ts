import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { COLOURS, Colours, TEXTURES } from "../src/state/colours";

type Triple = [number, number, number];

/** What is seen without one kind of cone, of linear RGB: Machado, Oliveira and Fernandes (2009), severity 1. */
const VISIONS: Record<string, Triple[]> = {
  all: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};
const XYZ: Triple[] = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]];
const WHITE: Triple = [0.9505, 1, 1.089];
/** Apart by so much in CIE L*a*b* (1976); 2.3 is what can just be seen side by side. */
const APART = 18;

const times = (rows: Triple[], v: Triple) => rows.map((row) => row.reduce((sum, x, i) => sum + x * v[i]!, 0)) as Triple;

function lab(hex: string, vision: Triple[]): Triple {
  const rgb = [1, 3, 5].map((at) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  }) as Triple;
  const seen = times(vision, rgb).map((value) => Math.min(1, Math.max(0, value))) as Triple;
  const [x, y, z] = times(XYZ, seen).map((value, i) => {
    const part = value / WHITE[i]!;
    return part > 0.008856 ? Math.cbrt(part) : 7.787 * part + 16 / 116;
  }) as Triple;
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

/** The colours of the style sheet by name, in light and in dark. */
function colours(): Map<string, [string, string]> {
  const css = readFileSync("src/style/colours.css", "utf8");
  const found = css.matchAll(/--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g);
  return new Map(Array.from(found, ([, name, light, dark]) => [name!, [light!, dark!]]));
}

test("any two colours of jobs, and red and the load beside them, are told apart by everybody", () => {
  const all = colours();
  const names = [...Array.from({ length: COLOURS }, (_, i) => `job-${i}`), "bad", "load"];
  for (const theme of [0, 1]) {
    for (const [vision, matrix] of Object.entries(VISIONS)) {
      const seen = names.map((name) => lab(all.get(name)![theme]!, matrix));
      for (let i = 0; i < names.length; i += 1) {
        for (let j = 0; j < i; j += 1) {
          const apart = Math.hypot(...seen[i]!.map((value, axis) => value - seen[j]![axis]!));
          assert.ok(apart >= APART, `${names[i]} and ${names[j]}, ${vision}, theme ${theme}: ${apart.toFixed(1)}`);
        }
      }
    }
  }
});

test("a job keeps its colour, and neighbours differ", () => {
  const given = new Colours();
  const first = Array.from({ length: COLOURS }, (_, i) => given.of(`job ${i}`));
  assert.equal(new Set(first.map(({ colour }) => colour)).size, COLOURS);
  assert.ok(first.every(({ texture }) => texture === 0));
  assert.deepEqual(given.of("job 3"), first[3]);
});

// Regression: the ninth job had the colour of the first one.
test("jobs beyond the eighth differ in texture, and a job that is gone leaves its colour to another", () => {
  const given = new Colours();
  const looks = Array.from({ length: COLOURS * TEXTURES }, (_, i) => given.of(`job ${i}`));
  assert.equal(new Set(looks.map(({ colour, texture }) => `${colour} ${texture}`)).size, COLOURS * TEXTURES);
  assert.deepEqual(looks[COLOURS], { colour: 0, texture: 1 });
  given.keep(new Set(["job 0", "job 2", "job 9"]));
  assert.deepEqual(given.of("another"), { colour: 1, texture: 0 });
  assert.deepEqual(given.of("job 9"), looks[9]);
});
