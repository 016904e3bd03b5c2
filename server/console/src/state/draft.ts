// A job request as it is filled in.

import type { JobRequest } from "../api/types";
import { parseDuration } from "../text/time";
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
  outputKind: "table" | "file" | "folder";
  output: string;
  goal: string;
  cores: string;
  /** Other inputs than tables, and fields that the form does not show: as they were. */
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
  for (const field of application.fields) {
    const value = (draft.values[field.name] ?? "").trim();
    if (field.required && value === "") return `${field.label}: say which`;
    if (field.kind === "number" && value !== "" && !Number.isFinite(Number(value))) {
      return `${field.label}: this is no number`;
    }
  }
  const inputs = draft.kept.inputs ?? draft.inputs.slice(0, application.inputs).map(tableInput);
  const missing = inputs.findIndex((input) => (input.table as { table: string } | undefined)?.table === "");
  if (missing >= 0) return `Input${application.inputs > 1 ? ` ${missing + 1}` : ""}: name a table`;
  if (draft.output.trim() === "") return `Output: name a ${draft.outputKind}`;
  const goal = draft.goal.trim() === "" ? null : parseDuration(draft.goal);
  if (draft.goal.trim() !== "" && (goal === null || goal <= 0)) {
    return "Goal: write a time such as 10 min or 1 h 30 min";
  }
  const request: JobRequest = {
    directory: "/",
    ...draft.kept,
    application: { [application.name]: optionsOf(application, draft.values) },
    inputs,
    output: {
      ...(draft.kept.output ?? {}),
      to: { [draft.outputKind]: draft.output.trim() },
    },
    goal_s: goal,
  };
  if (draft.cores.trim() !== "") request.cores = Number(draft.cores);
  return request;
}

/** The draft of a request that was submitted before. */
export function draftOf(request: JobRequest): Draft {
  const [name, options] = Object.entries(request.application)[0] ?? ["wordcount", {}];
  const application = applicationOf(name);
  const draft = emptyDraft(name);
  const inputs = request.inputs ?? [];
  const tables = inputs.map((input) => input.table as Partial<DraftInput> | undefined);
  const areTables = tables.every((table) => table !== undefined);
  tables.slice(0, 2).forEach((table, i) => {
    draft.inputs[i as 0 | 1] = {
      table: table?.table ?? "",
      snapshot: table?.snapshot ?? "",
      values: table?.values ?? "text",
    };
  });
  const to = request.output?.to ?? "";
  const isForTerminal = typeof to === "string" || "spool" in to;
  const [kind, place] = isForTerminal ? ["file", ""] : (Object.entries(to)[0] ?? ["table", ""]);
  return {
    ...draft,
    values: { ...draft.values, ...valuesOf(application, options) },
    outputKind: kind as Draft["outputKind"],
    output: place,
    goal: request.goal_s == null ? "" : `${request.goal_s} s`,
    cores: request.cores == null ? "" : String(request.cores),
    kept: areTables ? rest(request) : { ...rest(request), inputs },
  };
}

function rest(request: JobRequest): Partial<JobRequest> {
  const { application: _a, inputs: _i, goal_s: _g, cores: _c, ...kept } = request;
  return kept;
}

function tableInput(input: DraftInput): Record<string, unknown> {
  const table: Record<string, unknown> = { table: input.table.trim() };
  if (input.snapshot !== "") table.snapshot = input.snapshot;
  if (input.values !== "text") table.values = input.values;
  return { table };
}
