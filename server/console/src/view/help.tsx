// What the keys do, and whose work is in the page.

import { frozen } from "../api/frozen";
import { session } from "../state/session";
import { SHORTCUTS, isOn, setOn } from "./shortcuts";
import { Dialog } from "./dialog";

export function Help() {
  return (
    <Dialog title="Help">
      <table class="keys">
        <caption class="sr-only">Shortcuts</caption>
        <tbody>
          {SHORTCUTS.map(({ key, what }) => (
            <tr key={key}>
              <th scope="row">
                <kbd>{key}</kbd>
              </th>
              <td>{what}</td>
            </tr>
          ))}
          <tr>
            <th scope="row">
              <kbd>←</kbd> <kbd>→</kbd>
            </th>
            <td>in the pictures: another time; End: now</td>
          </tr>
        </tbody>
      </table>
      <label class="check">
        <input type="checkbox" checked={isOn.value} onChange={(event) => setOn(event.currentTarget.checked)} />
        Single keys are shortcuts
      </label>
      {frozen === null && (
        <p class="hint">
          Logged in as {session.value?.name} with scope {session.value?.scope}.{" "}
          <a href="/openapi.json">The API of this server</a> · <a href="/assets/licences.txt">Licences of this page's packages</a>
        </p>
      )}
    </Dialog>
  );
}
