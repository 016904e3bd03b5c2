// What a job can compute, as a form: docs/src/formats/jobs.md, version 1.

export type FieldKind = "text" | "list" | "numbers" | "number" | "switch" | "choice";

export interface Field {
  name: string;
  label: string;
  kind: FieldKind;
  hint?: string;
  required?: boolean;
  initial?: string;
  choices?: readonly string[];
  /** Fields of an object inside the options, such as `order`. */
  within?: string;
}

export interface Application {
  name: string;
  what: string;
  inputs: 0 | 1 | 2;
  fields: readonly Field[];
}

const reduces: Field = { name: "reduces", label: "Reduce tasks", kind: "number", initial: "1" };
const order: Field[] = [
  { name: "by", label: "Columns to compare", kind: "list", within: "order", hint: "none: the whole value" },
  { name: "numeric", label: "As numbers", kind: "switch", within: "order" },
  { name: "reverse", label: "The largest first", kind: "switch", within: "order" },
];

export const APPLICATIONS: readonly Application[] = [
  {
    name: "aggregate",
    what: "sums, means and quantiles of groups",
    inputs: 1,
    fields: [
      { name: "by", label: "Group by columns", kind: "list", hint: "none: one group" },
      { name: "of", label: "Columns of numbers", kind: "list" },
      { name: "quantiles", label: "Quantiles", kind: "numbers", hint: "0 to 1, such as 0.5, 0.99" },
      reduces,
    ],
  },
  {
    name: "combine",
    what: "counts rows of groups",
    inputs: 1,
    fields: [
      { name: "by", label: "Group by columns", kind: "list", hint: "none: the key up to its last colon" },
      reduces,
    ],
  },
  {
    name: "grep",
    what: "rows that have a text",
    inputs: 1,
    fields: [
      { name: "pattern", label: "Pattern", kind: "text", required: true },
      { name: "regex", label: "As a regular expression", kind: "switch" },
    ],
  },
  { name: "index", what: "in which rows each word is", inputs: 1, fields: [reduces] },
  {
    name: "join",
    what: "rows of two inputs with the same key",
    inputs: 2,
    fields: [
      { name: "left_on", label: "Key column on the left", kind: "text", hint: "none: the row's key" },
      { name: "right_on", label: "Key column on the right", kind: "text", hint: "none: the row's key" },
      { name: "keep_left", label: "Keep left rows without a right one", kind: "switch" },
      reduces,
    ],
  },
  {
    name: "pagerank",
    what: "the rank of each page by its links",
    inputs: 1,
    fields: [
      { name: "from", label: "Column of the link's page", kind: "text", required: true },
      { name: "to", label: "Column of the linked page", kind: "text", required: true },
      { name: "iterations", label: "Iterations", kind: "number", initial: "10" },
      { name: "damping", label: "Damping", kind: "number", initial: "0.85" },
      reduces,
    ],
  },
  {
    name: "pi",
    what: "π by random points: costs CPU and nothing else",
    inputs: 0,
    fields: [
      { name: "points", label: "Points", kind: "number", initial: "100000000" },
      { name: "seed", label: "Seed", kind: "number", initial: "1" },
      { name: "variant", label: "Variant", kind: "choice", choices: ["plain", "simd"], initial: "plain" },
    ],
  },
  {
    name: "select",
    what: "rows that meet conditions",
    inputs: 1,
    fields: [
      { name: "conditions", label: "Conditions", kind: "list", hint: "such as fare >= 1; a row meets all" },
      { name: "columns", label: "Columns", kind: "list", hint: "none: the whole value" },
      { name: "keep", label: "Part of the rows that is kept", kind: "number", initial: "1" },
    ],
  },
  { name: "sort", what: "rows in order", inputs: 1, fields: [...order, reduces] },
  { name: "validate", what: "whether rows are in order", inputs: 1, fields: order },
  { name: "wordcount", what: "how often each word is there", inputs: 1, fields: [reduces] },
];

/** What stands in the fields of an application, by name; a switch has `"true"` or `""`. */
export type Values = Record<string, string>;

export function initialValues(application: Application): Values {
  return Object.fromEntries(application.fields.map((field) => [field.name, field.initial ?? ""]));
}

/** The options of a request. Fields that are empty are left out: they have defaults. */
export function optionsOf(application: Application, values: Values): Record<string, unknown> {
  const options: Record<string, unknown> = {};
  for (const field of application.fields) {
    const value = valueOf(field, values[field.name] ?? "");
    if (value === undefined) continue;
    if (field.within === undefined) options[field.name] = value;
    else options[field.within] = { ...(options[field.within] as object | undefined), [field.name]: value };
  }
  // `order` has to be there, even if nothing of it is said.
  for (const { within } of application.fields) if (within !== undefined) options[within] ??= {};
  return options;
}

/** What stood in the fields of a request with these options. */
export function valuesOf(application: Application, options: Record<string, unknown>): Values {
  const text = (value: unknown): string =>
    value === undefined || value === null || value === false
      ? ""
      : Array.isArray(value)
        ? value.join(", ")
        : String(value);
  return Object.fromEntries(
    application.fields.map((field) => {
      const inside = field.within === undefined ? options : options[field.within];
      return [field.name, text((inside as Record<string, unknown> | undefined)?.[field.name])];
    }),
  );
}

function valueOf(field: Field, text: string): unknown {
  const plain = text.trim();
  if (plain === "") return undefined;
  const list = plain.split(",").map((part) => part.trim()).filter((part) => part !== "");
  switch (field.kind) {
    case "list":
      return list;
    case "numbers":
      return list.map(Number);
    case "number":
      return Number(plain);
    case "switch":
      return plain === "true";
    default:
      return plain;
  }
}
