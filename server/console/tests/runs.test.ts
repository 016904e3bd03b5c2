import assert from "node:assert/strict";
import { test } from "node:test";
import type { Run, TableDetail } from "../src/api/types";
import { placeAfter, runListText, runText } from "../src/chart/run-text";
import { strip } from "../src/chart/runs";
import { RunTargets } from "../src/view/run-list";
import { elementsOf } from "./vnodes";

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

function detail(): TableDetail {
  const own = [{ ...run(4, 2048, 201, 300), damaged_files: 1 }, { ...run(5, 1024, 101, 200), stratum: 1 }];
  const summary = { keyspace: "shop", table: "orders", damaged_files: 1 } as TableDetail["summary"];
  const merges = [{ inputs: [4, 5], read_versions: 1, all_versions: 4, all_bytes: 9 }];
  return { summary, runs: own, bookmarks: [{ snapshot: "monday", sequence: 150 }], merges };
}

test("a run is described with all that the drawing has of it", () => {
  const table = detail();
  const merge = "in a merge of 2 runs, 25% done";
  assert.equal(
    runText(table, 0),
    `run 1 of 2, the newest; 2.0 KiB, 1 file, 1 key; commits 201 to 300; stratum 1 of 2; seen by no snapshot; ${merge}; 1 damaged file`,
  );
  assert.equal(
    runText(table, 1),
    `run 2 of 2, the oldest; 1.0 KiB, 1 file, 1 key; commits 101 to 200; stratum 2 of 2; seen by monday; ${merge}`,
  );
  assert.equal(
    runListText(table),
    "shop.orders: 2 runs of 3.0 KiB in all; in 2 strata, from the newest: 2.0 KiB, 1.0 KiB; cut by monday; 1 merge under way; 1 damaged file",
  );
});

// Regression: the details of a run were in the title of its drawing alone, which only a mouse reaches.
test("each run is a button with its text, and Tab comes to one of them", () => {
  const table = detail();
  const chosen: number[] = [];
  const buttons = (place: number) =>
    elementsOf(RunTargets({ table, drawn: strip(table, 300), place, choose: (id) => chosen.push(id) }));
  const tabs = (place: number) => buttons(place).map(({ props }) => [props.tabIndex, props["aria-current"]]);
  assert.deepEqual(tabs(-1), [[0, undefined], [-1, undefined]]);
  assert.deepEqual(tabs(1), [[-1, undefined], [0, "true"]]);
  const [, second] = buttons(-1);
  assert.equal(second!.type, "button");
  assert.equal(second!.props["aria-label"], runText(table, 1));
  (second!.props.onClick as () => void)();
  (second!.props.onFocus as () => void)();
  assert.deepEqual(chosen, [5, 5]);
});

test("arrows lead from run to run", () => {
  assert.deepEqual(["ArrowLeft", "ArrowRight", "Home", "End", "n"].map((key) => placeAfter(key, 2, 4)), [1, 3, 0, 3, null]);
  assert.equal(placeAfter("ArrowLeft", 0, 4), 0);
  assert.equal(placeAfter("ArrowRight", 3, 4), 3);
});
