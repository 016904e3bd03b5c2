import assert from "node:assert/strict";
import { test } from "node:test";
import { clock, duration, latency, parseDuration, relative, timeRemedy } from "../src/text/time";

test("a duration has two units at most", () => {
  const texts: [number, string][] = [
    [0, "0 s"],
    [0.4, "< 1 s"],
    [3.04, "3 s"],
    [3.26, "3.3 s"],
    [-12.4, "12 s"],
    [59.7, "1 min"],
    [250, "4 min 10 s"],
    [3599.8, "1 h"],
    [7182, "2 h"],
    [7500, "2 h 5 min"],
    [86_399, "1 d"],
    [90_000, "1 d 1 h"],
    [86_400 * 120, "120 d"],
  ];
  for (const [seconds, text] of texts) assert.equal(duration(seconds), text, String(seconds));
});

test("durations are read as people write them", () => {
  assert.equal(parseDuration("1h 30min"), 5400);
  assert.equal(parseDuration("2.5 m"), 150);
  assert.equal(parseDuration("500 ms"), 0.5);
  assert.equal(parseDuration("1s 250ms"), 1.25);
  assert.equal(parseDuration("5 apples"), null);
  assert.equal(parseDuration("0s"), 0);
  assert.equal(parseDuration("1h 30"), null);
  assert.equal(parseDuration("1h, 30min"), null);
  assert.equal(parseDuration(""), null);
});

// Regression: `90` was 90 seconds here, and was refused by commands.
test("a number needs a unit, and the remedy names it", () => {
  assert.equal(parseDuration("90"), null);
  assert.equal(parseDuration("1.5"), null);
  assert.equal(timeRemedy(" 90 ", "10 s"), "90 has no unit: for seconds, write 90s");
  assert.equal(timeRemedy("soon", "10 s"), "write a time such as 10 s");
});

// Regression: the units of commands that are written out were refused, and `1M`, a month there, was a minute.
test("each unit of the commands is read as there", () => {
  const texts: [string, number][] = [
    ["5 minutes", 300],
    ["2hours", 7200],
    ["1.5h", 5400],
    ["1day", 86_400],
    ["2 days 1 hr", 176_400],
    ["1w", 604_800],
    ["1h30min", 5400],
    ["1M", 2_630_016],
    ["1y", 31_557_600],
    ["10 S", 10],
    ["5 Min", 300],
    ["250 millis", 0.25],
  ];
  for (const [text, seconds] of texts) assert.equal(parseDuration(text), seconds, text);
});

test("what was read is what is written", () => {
  for (const seconds of [5, 60, 250, 7500, 90_000]) {
    assert.equal(parseDuration(duration(seconds)), seconds);
  }
});

test("another day is named with the time", () => {
  const noon = new Date(2026, 10, 24, 12, 0, 5).getTime();
  assert.equal(clock(noon, noon), "12:00:05");
  assert.equal(clock(noon, noon, false), "12:00");
  assert.equal(clock(noon - 86_400_000, noon, false), "23 Nov 12:00");
});

test("times are told from now", () => {
  assert.equal(relative(1000, 1500), "now");
  assert.equal(relative(0, 125_000), "2 min 5 s ago");
  assert.equal(relative(60_000, 0), "in 1 min");
});

test("latencies have a unit that fits", () => {
  assert.equal(latency(850.4), "850 µs");
  assert.equal(latency(999.7), "1.00 ms");
  assert.equal(latency(12_340), "12.3 ms");
  assert.equal(latency(2_100_000), "2.10 s");
  assert.equal(latency(null), "–");
  assert.equal(latency(0), "–");
});
