// A job request as it is filled in.

import type { JobRequest } from "../api/types";
import { parseDuration, timeRemedy } from "../text/time";
import { APPLICATIONS, type Values, initialValues, optionsOf, valuesOf } from "./applications";

export interface DraftInput {
  table: string;
  snapshot: string;
  values: "text" | "csv" | "json";
}

export interface Draft {
  application: string;
  values: Values;
  inputs: [DraftInput, DraftInput];
  /** A publication's output is `iceberg`; the form does not offer it for other jobs. */
  outputKind: "table" | "file" | "folder" | "iceberg";
  output: string;
  goal: string;
  cores: string;
  /**
   * Fields of an earlier request that the form does not show. `application` or `inputs` are here if the form
   * would lose a part of them, such as a range of keys. All of it is submitted unchanged.
   */
  kept: Partial<JobRequest>;
}

const noInput: DraftInput = { table: "", snapshot: "", values: "text" };

export function applicationOf(name: string) {
  return APPLICATIONS.find((application) => application.name === name) ?? APPLICATIONS[0]!;
}

export function emptyDraft(name = "wordcount"): Draft {
  const application = applicationOf(name);
  return {
    application: application.name,
    values: initialValues(application),
    inputs: [noInput, noInput],
    outputKind: "table",
    output: "",
    goal: "",
    cores: "",
    kept: {},
  };
}

/** The request, or why there is none yet. */
export function requestOf(draft: Draft): JobRequest | string {
  const application = applicationOf(draft.application);
  for (const field of draft.kept.application === undefined ? application.fields : []) {
    const value = (draft.values[field.name] ?? "").trim();
    if (field.required && value === "") return `${field.label}: say which`;
    // JSON has no NaN: a text that is no number would become null.
    const numbers = field.kind === "number" ? [value] : field.kind === "numbers" ? value.split(",") : [];
    const wrong = numbers.map((text) => text.trim()).find((text) => text !== "" && !isNumber(text));
    if (wrong !== undefined) return `${field.label}: ${wrong} is no number, or too large`;
  }
  const inputs = draft.kept.inputs ?? draft.inputs.slice(0, application.inputs).map(tableInput);
  const missing = inputs.findIndex((input) => (input.table as { table: string } | undefined)?.table === "");
  if (missing >= 0) return `Input${application.inputs > 1 ? ` ${missing + 1}` : ""}: name a table`;
  if (draft.output.trim() === "") return `Output: name a ${draft.outputKind}`;
  const goal = draft.goal.trim() === "" ? null : parseDuration(draft.goal);
  if (draft.goal.trim() !== "" && (goal === null || goal <= 0)) {
    return `Goal: ${timeRemedy(draft.goal, "10 min or 1 h 30 min")}`;
  }
  const cores = draft.cores.trim();
  // JSON has no NaN: a text that is no number would become null, which stands for all cores.
  if (cores !== "" && !/^\d+$/.test(cores)) return "Cores at most: write a whole number";
  const request: JobRequest = {
    directory: "/",
    ...draft.kept,
    application: draft.kept.application ?? { [application.name]: optionsOf(application, draft.values) },
    inputs,
    output: {
      ...(draft.kept.output ?? {}),
      to: { [draft.outputKind]: draft.output.trim() },
    },
    goal_s: goal,
  };
  if (cores !== "") request.cores = Number(cores);
  return request;
}

/** Returns the draft of a request that was submitted before. Without an edit it becomes the same request. */
export function draftOf(request: JobRequest): Draft {
  const [name, options] = Object.entries(request.application)[0] ?? ["wordcount", {}];
  const application = APPLICATIONS.find((known) => known.name === name);
  const values: Values = application === undefined ? {} : valuesOf(application, options);
  const showsOptions = application !== undefined && isSame(optionsOf(application, values), options);
  const inputs = request.inputs ?? [];
  const tables = inputs.flatMap((input) => tableOf(input) ?? []);
  const showsInputs =
    showsOptions && tables.length === inputs.length && inputs.length <= (application?.inputs ?? 0);
  const to = request.output?.to ?? "";
  const isForTerminal = typeof to === "string" || "spool" in to;
  const [kind, place] = isForTerminal ? ["file", ""] : (Object.entries(to)[0] ?? ["table", ""]);
  return {
    application: name,
    values,
    inputs: [tables[0] ?? noInput, tables[1] ?? noInput],
    outputKind: kind as Draft["outputKind"],
    output: place,
    goal: request.goal_s == null ? "" : `${request.goal_s} s`,
    cores: request.cores == null ? "" : String(request.cores),
    kept: {
      ...rest(request),
      ...(showsOptions ? {} : { application: request.application }),
      ...(showsInputs ? {} : { inputs }),
    },
  };
}

/** Returns a table as the form shows it; `null` for another input, and if the form would lose a part of it. */
function tableOf(input: Record<string, unknown>): DraftInput | null {
  const { table, snapshot, values } = (input.table ?? {}) as Partial<DraftInput>;
  if (table === undefined) return null;
  const shown: DraftInput = { table, snapshot: snapshot ?? "", values: values ?? "text" };
  return isSame(tableInput(shown), input) ? shown : null;
}

/**
 * Returns whether a part of a request, as the form makes it, means the same as a part of an earlier one. The
 * server records defaults, which the form leaves out.
 */
function isSame(made: unknown, earlier: unknown): boolean {
  if (made === undefined) return isDefault(earlier);
  if (earlier === undefined) return isDefault(made);
  if (!isObject(made) || !isObject(earlier)) return JSON.stringify(made) === JSON.stringify(earlier);
  const names = new Set([...Object.keys(made), ...Object.keys(earlier)]);
  return [...names].every((name) => isSame(made[name], earlier[name]));
}

/** The defaults of options and inputs. `all` is that of keys, and `text` that of values. */
const DEFAULTS: readonly unknown[] = [undefined, null, false, "all", "text"];

function isDefault(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  return isObject(value) ? Object.keys(value).length === 0 : DEFAULTS.includes(value);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function rest(request: JobRequest): Partial<JobRequest> {
  const { application: _a, inputs: _i, goal_s: _g, cores: _c, ...kept } = request;
  return kept;
}

/** Returns whether a text is a number that the request has as it is written: not a whole one above 2^53. */
function isNumber(text: string): boolean {
  const value = Number(text);
  return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
}

function tableInput(input: DraftInput): Record<string, unknown> {
  const table: Record<string, unknown> = { table: input.table.trim() };
  if (input.snapshot !== "") table.snapshot = input.snapshot;
  if (input.values !== "text") table.values = input.values;
  return { table };
}
