// A new snapshot of a keyspace.

import { useEffect, useState } from "preact/hooks";
import { change } from "../api/request";
import { userKeyspaces } from "../state/keyspaces";
import { snapshots, tables } from "../state/live";
import { close, say } from "../state/panels";
import { Dialog } from "./dialog";
import { Input } from "./input";
import { ProblemText } from "./problem-text";

export function SnapshotForm() {
  const [name, setName] = useState("");
  const [keyspace, setKeyspace] = useState("");
  const [keyspaces, setKeyspaces] = useState<string[]>([]);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    void userKeyspaces().then(
      (names) => {
        setKeyspaces(names);
        setKeyspace((now) => (now === "" ? (names[0] ?? "") : now));
      },
      (error: Error) => setProblem(error.message),
    );
  }, []);
  const create = async (event: Event) => {
    event.preventDefault();
    if (name.trim() === "") return setProblem("Name: say which");
    if (keyspace === "") return setProblem("Keyspace: this server has none yet");
    try {
      await change("POST", "/v1/snapshots", { name: name.trim(), keyspace });
      close();
      say(`snapshot ${name.trim()} was created`);
      await Promise.all([snapshots.refresh(), tables.refresh()]);
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <Dialog title="New snapshot">
      <form class="form" onSubmit={(event) => void create(event)}>
        <Input label="Name" name="name" isFirst value={name} placeholder="monday" onInput={setName} />
        <label>
          Keyspace
          <select name="keyspace" value={keyspace} onChange={(event) => setKeyspace(event.currentTarget.value)}>
            {keyspaces.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        </label>
        <ProblemText problem={problem} />
        <div class="buttons">
          <button class="primary">Create</button>
          <button type="button" onClick={close}>
            Leave it
          </button>
        </div>
      </form>
    </Dialog>
  );
}
