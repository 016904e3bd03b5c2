// A page that is a file: the answers that a server gave at one moment, kept beside the script.

/** What is kept. */
export interface Frozen {
  /** When it was, of the server's clock. */
  at_unix_ms: number;
  /** How much of the past is in it, in seconds. */
  seconds: number;
  /** What somebody wants to be read first, a line each. */
  notes: string[];
  /** By the path that was asked, without its query. */
  answers: Record<string, unknown>;
}

/** `null`: a page of a server that runs. */
export const frozen: Frozen | null = read();

/** What the server answered to a question like this; `undefined`: it was not asked. */
export function answered(path: string): unknown {
  return frozen?.answers[path.split("?")[0]!];
}

function read(): Frozen | null {
  // Unit tests have no document.
  const element = typeof document === "undefined" ? null : document.getElementById("frozen");
  return element === null ? null : (JSON.parse(element.textContent ?? "null") as Frozen | null);
}
