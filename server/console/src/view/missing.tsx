// What stands where something of the server is not there, or not any more.

import type { Resource } from "../state/resource";

interface MissingProps {
  of: Resource<unknown>;
  what: string;
}

/** Nothing while all is well. */
export function Missing({ of, what }: MissingProps) {
  const problem = of.problem.value;
  if (problem !== null) {
    const text =
      problem.status === 404
        ? `${what} cannot be shown: this server does not give it.`
        : `${what} could not be asked for: ${problem.message}.`;
    return (
      <p class="problem" role="alert">
        {text} {of.value.value !== null && "What is shown is older."}
      </p>
    );
  }
  if (of.value.value !== null) return null;
  return (
    <p class="loading" role="status">
      Loading …
    </p>
  );
}
