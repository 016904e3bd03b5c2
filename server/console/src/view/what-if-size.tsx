// What if there were a job of such a size?

import { useState } from "preact/hooks";
import { query } from "../api/request";
import type { WhatIf } from "../api/types";
import { now } from "../state/clock";
import { hypothesis, hypothesisOf, open } from "../state/panels";
import { parseDuration } from "../text/time";
import { Answer } from "./answer";
import { Dialog } from "./dialog";
import { Input } from "./input";
import { ProblemText } from "./problem-text";

const FIELDS = [
  { name: "maps", label: "Map tasks", initial: "16" },
  { name: "map_s", label: "A map task takes", initial: "10 s", hint: "of one core" },
  { name: "reduces", label: "Reduce tasks", initial: "1" },
  { name: "reduce_s", label: "A reduce task takes", initial: "5 s", hint: "of one core" },
  { name: "goal_s", label: "Done within", initial: "", hint: "empty: no goal" },
] as const;

export function WhatIfSize() {
  const [values, setValues] = useState<Record<string, string>>(() =>
    Object.fromEntries(FIELDS.map(({ name, initial }) => [name, initial])),
  );
  const [answer, setAnswer] = useState<WhatIf | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const ask = async (event: Event) => {
    event.preventDefault();
    setProblem(null);
    setAnswer(null);
    hypothesis.value = null;
    const body: Record<string, number> = {};
    for (const { name, label } of FIELDS) {
      const text = values[name]!.trim();
      if (text === "" && name === "goal_s") continue;
      const value = name.endsWith("_s") ? parseDuration(text) : Number(text);
      if (value === null || text === "" || !Number.isFinite(value)) {
        return setProblem(`${label}: ${name.endsWith("_s") ? "write a time such as 10 s" : "this is no number"}`);
      }
      body[name] = value;
    }
    try {
      const answer = await query<WhatIf>("/v1/what-if", body);
      setAnswer(answer);
      hypothesis.value = hypothesisOf(`${body.maps} maps`, answer, body.goal_s, now.peek());
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <Dialog title="What if …">
      <form class="form" onSubmit={(event) => void ask(event)}>
        <p class="hint">
          … there were one more job of this size now? Nothing is submitted. For a job that reads a table, fill in{" "}
          <button type="button" class="link" onClick={() => open({ kind: "submit" })}>
            a new job
          </button>{" "}
          and ask there.
        </p>
        <div class="pairs">
          {FIELDS.map((field, i) => (
            <Input
              key={field.name}
              label={field.label}
              name={field.name}
              isFirst={i === 0}
              value={values[field.name]!}
              {...("hint" in field ? { hint: field.hint } : {})}
              onInput={(value) => {
                setValues({ ...values, [field.name]: value });
                setAnswer(null);
              }}
            />
          ))}
        </div>
        {answer !== null && <Answer answer={answer} />}
        <ProblemText problem={problem} />
        <div class="buttons">
          <button class="primary">Ask</button>
        </div>
      </form>
    </Dialog>
  );
}
