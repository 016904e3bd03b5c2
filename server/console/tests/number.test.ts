import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, counted, short } from "../src/text/number";

test("bytes have a unit that fits", () => {
  assert.equal(bytes(0), "0 B");
  assert.equal(bytes(1023), "1023 B");
  assert.equal(bytes(1024), "1.0 KiB");
  assert.equal(bytes(150 * 1024), "150 KiB");
  assert.equal(bytes(1024 * 1024 - 1), "1.0 MiB");
});

test("large counts are shortened", () => {
  assert.equal(short(3.04), "3");
  assert.equal(short(87.4), "87");
  assert.equal(short(4120), "4.1k");
  assert.equal(short(999_600), "1M");
});

test("one is no plural", () => {
  assert.deepEqual([counted(1, "job"), counted(0, "job")], ["1 job", "0 jobs"]);
});
