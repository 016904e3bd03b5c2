// What if there were a job of such a size?

import { useState } from "preact/hooks";
import { query } from "../api/request";
import type { WhatIf } from "../api/types";
import { now } from "../state/clock";
import { FIELDS, tasksOf } from "../state/hypothetical";
import { hypothesis, hypothesisOf, open } from "../state/panels";
import { counted } from "../text/number";
import { Answer } from "./answer";
import { Dialog } from "./dialog";
import { Input } from "./input";
import { ProblemText } from "./problem-text";

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
    const tasks = tasksOf(values);
    if (typeof tasks === "string") return setProblem(tasks);
    try {
      const answer = await query<WhatIf>("/v1/what-if", tasks);
      setAnswer(answer);
      hypothesis.value = hypothesisOf(counted(tasks.maps!, "map"), answer, tasks.goal_s, now.peek());
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
