// A form for a job, with what would come of it before it is submitted.

import { useState } from "preact/hooks";
import { change, query } from "../api/request";
import type { JobRequest, JobView, WhatIf } from "../api/types";
import { APPLICATIONS, type Field, initialValues } from "../state/applications";
import { type Draft, type DraftInput, applicationOf, draftOf, emptyDraft, requestOf } from "../state/draft";
import { snapshots, tables, views } from "../state/live";
import { nameOf } from "../state/tables";
import { now } from "../state/clock";
import { close, hypothesis, hypothesisOf, say } from "../state/panels";
import { Answer } from "./answer";
import { Dialog } from "./dialog";
import { Input } from "./input";
import { ProblemText } from "./problem-text";

export function Submit({ from }: { from?: JobRequest }) {
  const [draft, setDraft] = useState<Draft>(() => (from === undefined ? emptyDraft() : draftOf(from)));
  const [answer, setAnswer] = useState<WhatIf | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [isAsking, setAsking] = useState(false);
  const application = applicationOf(draft.application);
  const request = requestOf(draft);
  const edit = (changes: Partial<Draft>) => {
    setDraft({ ...draft, ...changes });
    setAnswer(null);
    setProblem(null);
  };
  const ask = async (act: (request: JobRequest) => Promise<void>) => {
    if (typeof request === "string") return setProblem(request);
    setAsking(true);
    try {
      await act(request);
    } catch (error) {
      setProblem((error as Error).message);
    } finally {
      setAsking(false);
    }
  };
  const whatIf = () =>
    ask(async (request) => {
      const answer = await query<WhatIf>("/v1/what-if", request);
      setAnswer(answer);
      hypothesis.value = hypothesisOf(draft.application, answer, request.goal_s, now.peek());
    });
  const submit = () =>
    ask(async (request) => {
      const view = await change<JobView>("POST", "/v1/jobs", request);
      hypothesis.value = null;
      close();
      say(`${draft.application} was submitted as ${view.record.id}`);
      await views.refresh();
    });
  return (
    <Dialog title={from === undefined ? "New job" : "Submit again"} isSheet>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        {draft.kept.application !== undefined ? (
          <p class="hint">It computes what it computed before: {JSON.stringify(draft.kept.application)}</p>
        ) : (
          <label>
            What to compute
            <select
              name="application"
              autofocus
              value={draft.application}
              onChange={(event) => {
                const next = applicationOf(event.currentTarget.value);
                edit({ application: next.name, values: initialValues(next) });
              }}
            >
              {APPLICATIONS.map(({ name, what }) => (
                <option key={name} value={name}>
                  {name}: {what}
                </option>
              ))}
            </select>
          </label>
        )}
        {draft.kept.inputs !== undefined ? (
          <p class="hint">It reads what it read before: {JSON.stringify(draft.kept.inputs)}</p>
        ) : (
          draft.inputs.slice(0, application.inputs).map((input, i) => (
            <Inputs
              key={i}
              name={application.inputs === 1 ? "Input" : i === 0 ? "Left input" : "Right input"}
              input={input}
              onChange={(next) => {
                const inputs: Draft["inputs"] = [...draft.inputs];
                inputs[i as 0 | 1] = next;
                edit({ inputs });
              }}
            />
          ))
        )}
        {draft.kept.application === undefined && application.fields.length > 0 && (
          <fieldset>
            <legend>Options of {application.name}</legend>
            {application.fields.map((field) => (
              <Option
                key={field.name}
                field={field}
                value={draft.values[field.name] ?? ""}
                onChange={(value) => edit({ values: { ...draft.values, [field.name]: value } })}
              />
            ))}
          </fieldset>
        )}
        <fieldset>
          <legend>Output</legend>
          <label>
            To a
            <select
              name="output-kind"
              value={draft.outputKind}
              onChange={(event) => edit({ outputKind: event.currentTarget.value as Draft["outputKind"] })}
            >
              <option value="table">table</option>
              <option value="file">file (scope admin)</option>
              <option value="folder">folder (scope admin)</option>
              {draft.outputKind === "iceberg" && <option value="iceberg">Iceberg tables (scope admin)</option>}
            </select>
          </label>
          <Input
            label={draft.outputKind === "table" ? "Table" : "Path"}
            name="output"
            value={draft.output}
            placeholder={draft.outputKind === "table" ? "keyspace.table" : "/srv/results/counts.csv"}
            onInput={(output) => edit({ output })}
          />
        </fieldset>
        <fieldset>
          <legend>Resources</legend>
          <Input label="Done within" name="goal" value={draft.goal} placeholder="no goal" hint="such as 10 min" onInput={(goal) => edit({ goal })} />
          <Input label="Cores at most" name="cores" value={draft.cores} placeholder="all" onInput={(cores) => edit({ cores })} />
        </fieldset>
        <details>
          <summary>As JSON</summary>
          <pre tabIndex={0}>{typeof request === "string" ? request : JSON.stringify(request, null, 2)}</pre>
        </details>
        <div class="foot">
          {answer !== null && <Answer answer={answer} />}
          <ProblemText problem={problem} />
          <div class="buttons">
            <button class="primary" disabled={isAsking}>
              Submit
            </button>
            <button type="button" disabled={isAsking} onClick={() => void whatIf()}>
              What if?
            </button>
          </div>
        </div>
      </form>
    </Dialog>
  );
}

interface InputsProps {
  name: string;
  input: DraftInput;
  onChange: (input: DraftInput) => void;
}

function Inputs({ name, input, onChange }: InputsProps) {
  const names = (tables.value.value?.all ?? []).map(nameOf);
  const [keyspace] = input.table.split(".");
  const usable = (snapshots.value.value ?? []).filter((one) => one.keyspace === keyspace);
  const id = `tables-${name.replaceAll(" ", "-")}`;
  return (
    <fieldset>
      <legend>{name}</legend>
      <Input
        label="Table"
        name={`${id}-input`}
        value={input.table}
        placeholder="keyspace.table"
        list={id}
        onInput={(table) => onChange({ ...input, table })}
      />
      <datalist id={id}>
        {names.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <label>
        As of
        <select value={input.snapshot} onChange={(event) => onChange({ ...input, snapshot: event.currentTarget.value })}>
          <option value="">now: a snapshot for this job</option>
          {usable.map(({ name }) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <label>
        Values are
        <select
          value={input.values}
          onChange={(event) => onChange({ ...input, values: event.currentTarget.value as DraftInput["values"] })}
        >
          <option value="text">text, or columns of CQL</option>
          <option value="csv">CSV</option>
          <option value="json">JSON</option>
        </select>
      </label>
    </fieldset>
  );
}

function Option({ field, value, onChange }: { field: Field; value: string; onChange: (value: string) => void }) {
  if (field.kind === "switch") {
    return (
      <label class="check">
        <input
          type="checkbox"
          name={field.name}
          checked={value === "true"}
          onChange={(event) => onChange(event.currentTarget.checked ? "true" : "")}
        />
        {field.label}
      </label>
    );
  }
  if (field.kind === "choice") {
    return (
      <label>
        {field.label}
        <select name={field.name} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
          {field.choices!.map((choice) => (
            <option key={choice} value={choice}>
              {choice}
            </option>
          ))}
        </select>
      </label>
    );
  }
  const hint = field.hint ?? (field.kind === "list" ? "with commas between" : undefined);
  return <Input label={field.label} name={field.name} value={value} {...(hint === undefined ? {} : { hint })} onInput={onChange} />;
}
