// The configuration in force: the settings that somebody chose, and behind a fold those with their defaults.

import type { Setting } from "../api/types";
import { configuration } from "../state/server";
import { isAdmin } from "../state/session";
import { bySource, sourceText, valueText } from "../state/settings";
import { counted } from "../text/number";
import { ForAdmin } from "./for-admin";
import { Missing } from "./missing";

export function Settings() {
  const all = configuration.value.value;
  const { chosen, defaults } = bySource(all?.settings ?? []);
  return (
    <section class="settings" aria-labelledby="settings-title">
      <div class="section-head">
        <h2 id="settings-title">Configuration</h2>
        {all !== null && <span class="note">in force since the start of ebb {all.version}</span>}
      </div>
      {isAdmin.value ? (
        <Missing of={configuration} what="The configuration" />
      ) : (
        <ForAdmin what="The configuration" />
      )}
      {all !== null && chosen.length === 0 && <p class="empty">All settings have their defaults.</p>}
      {chosen.length > 0 && <Table settings={chosen} name="Settings that were chosen" />}
      {defaults.length > 0 && (
        <details>
          <summary>{counted(defaults.length, "default")}</summary>
          <Table settings={defaults} name="Settings with their defaults" />
        </details>
      )}
    </section>
  );
}

function Table({ settings, name }: { settings: readonly Setting[]; name: string }) {
  return (
    <table class="rows">
      <caption class="sr-only">{name}</caption>
      <thead>
        <tr>
          <th scope="col">Setting</th>
          <th scope="col">Value</th>
          <th scope="col">From</th>
        </tr>
      </thead>
      <tbody>
        {settings.map((setting) => (
          <Row key={setting.name} setting={setting} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ setting: { name, value, source } }: { setting: Setting }) {
  const text = valueText(value);
  return (
    <tr data-setting={name}>
      <th scope="row">{name}</th>
      <td class="value" data-label="Value">
        {text === null ? <span class="hint">none</span> : <code>{text}</code>}
      </td>
      <td data-label="From">{sourceText(source)}</td>
    </tr>
  );
}
