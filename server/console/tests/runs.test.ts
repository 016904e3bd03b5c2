import assert from "node:assert/strict";
import { test } from "node:test";
import type { Run } from "../src/api/types";
import { strip } from "../src/chart/runs";

function run(id: number, bytes: number, min: number, max: number): Run {
  return { id, bytes, files: 1, keys: 1, min_sequence: min, max_sequence: max, stratum: 0, damaged_files: 0 };
}

const runs = [run(0, 100, 201, 300), run(1, 400, 101, 200), run(2, 900, 1, 100)];

test("runs fill the width, and grow with the root of their bytes", () => {
  const { blocks } = strip({ runs, bookmarks: [], merges: [] }, 634);
  assert.deepEqual(blocks.map((block) => block.x), [0, 112, 324]);
  assert.equal(blocks[2]!.x + blocks[2]!.width, 634);
});

test("a bookmark is left of what it shows", () => {
  const bookmarks = [
    { snapshot: "monday", sequence: 200 },
    { snapshot: "same", sequence: 200 },
    { snapshot: "straddled", sequence: 50 },
    { snapshot: "newest", sequence: 999 },
    { snapshot: "before all", sequence: 0 },
  ];
  const { flags, blocks } = strip({ runs, bookmarks, merges: [] }, 634);
  assert.deepEqual(
    flags.map((flag) => [flag.names.join(), flag.straddled]),
    [["newest", false], ["monday,same", false], ["straddled", true], ["before all", false]],
  );
  assert.equal(flags[1]!.x, blocks[1]!.x - 1);
  assert.equal(flags[2]!.x, blocks[2]!.x + blocks[2]!.width / 2);
  assert.equal(flags[3]!.x, 634);
});

test("a merge spans its inputs", () => {
  const merges = [{ inputs: [1, 2], read_versions: 3, all_versions: 4, all_bytes: 9 }];
  const { brackets } = strip({ runs, bookmarks: [], merges }, 634);
  assert.deepEqual(brackets, [{ x: 112, width: 522, done: 0.75, inputs: 2 }]);
});

test("a thousand runs stay inside", () => {
  const many = Array.from({ length: 1000 }, (_, i) => run(i, i, i, i));
  const { blocks } = strip({ runs: many, bookmarks: [], merges: [] }, 300);
  assert.ok(blocks.every((block) => block.width >= 1));
});
