// A hypothetical job as it is filled in: its tasks and its goal.

import { parseDuration, timeRemedy } from "../text/time";

/** The fields of the form. Those that are optional are left out of the request if they are empty. */
export const FIELDS = [
  { name: "maps", label: "Map tasks", initial: "16" },
  { name: "map_s", label: "A map task takes", initial: "10 s", hint: "of one core" },
  { name: "reduces", label: "Reduce tasks", initial: "1", hint: "empty: none", isOptional: true },
  { name: "reduce_s", label: "A reduce task takes", initial: "5 s", hint: "empty: as a map task", isOptional: true },
  { name: "goal_s", label: "Done within", initial: "", hint: "empty: no goal", isOptional: true },
] as const;

/** Returns the tasks and the goal as the server takes them, or why there are none yet. Times are in seconds. */
export function tasksOf(values: Readonly<Record<string, string>>): Record<string, number> | string {
  const tasks: Record<string, number> = {};
  for (const field of FIELDS) {
    const text = (values[field.name] ?? "").trim();
    if (text === "" && "isOptional" in field) continue;
    const isTime = field.name.endsWith("_s");
    const value = isTime ? parseDuration(text) : /^\d+$/.test(text) ? Number(text) : null;
    if (value === null) return `${field.label}: ${isTime ? timeRemedy(text, "10 s") : "write a whole number"}`;
    tasks[field.name] = value;
  }
  return tasks;
}
