// The top of the page: what this is, whether it is live, and who looks.

import { frozen } from "../api/frozen";
import { PAGES, pageName } from "../state/address";
import { isLinked, load, silence } from "../state/live";
import { open, say } from "../state/panels";
import { logOut, mayChange, session } from "../state/session";
import { THEMES, setTheme, theme } from "../state/theme";
import { duration } from "../text/time";
import { Ready } from "./health";
import { Mark } from "./mark";

export function Header() {
  return (
    <header class="top">
      <h1>
        <Mark /> ebb
      </h1>
      {frozen === null && <Pages />}
      {frozen === null && <Ready />}
      <Liveness />
      <div class="actions">
        {mayChange.value && (
          <>
            <button class="primary" onClick={() => open({ kind: "submit" })}>
              New job
            </button>
            <button onClick={() => open({ kind: "what-if" })}>What if …</button>
          </>
        )}
        <ThemeButton />
        <button class="quiet" aria-label="Help and shortcuts" onClick={() => open({ kind: "help" })}>
          ?
        </button>
        {frozen === null && (
          <>
            <span class="who">
              {session.value?.name} <small>{session.value?.scope}</small>
            </span>
            <button class="quiet" onClick={() => void leave()}>
              Log out
            </button>
          </>
        )}
      </div>
    </header>
  );
}

async function leave(): Promise<void> {
  try {
    await logOut();
  } catch (problem) {
    say(`you are still logged in: ${(problem as Error).message}`, true);
  }
}

/** The links to the pages of the console. */
function Pages() {
  return (
    <nav class="pages" aria-label="Pages">
      {PAGES.map(({ name, hash, label }) => (
        <a key={name} href={hash} {...(name === pageName.value ? { "aria-current": "page" } : {})}>
          {label}
        </a>
      ))}
    </nav>
  );
}

/** Whether what is shown is of now. */
function Liveness() {
  if (frozen !== null) {
    return <span class="state">as of {new Date(frozen.at_unix_ms).toLocaleString()}</span>;
  }
  const silent = silence.value;
  if (silent !== null) {
    return (
      <span class="state stale">
        <span class="sr-only" role="alert">
          No data comes. Connecting again.
        </span>
        {/* It changes each second: too much to be read aloud. */}
        <span aria-hidden="true">no data since {duration(Math.round(silent / 1000))}, connecting again</span>
      </span>
    );
  }
  if (isLinked.value === "live") return <span class="state good">live</span>;
  const text = load.value.value === null ? "connecting" : "asks every 2 s, as no events come";
  return (
    <span class="state stale" role="status">
      {text}
    </span>
  );
}

function ThemeButton() {
  const next = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!;
  return (
    <button
      class="quiet"
      aria-label={`Colours: ${theme.value}. Change to ${next}`}
      title={`Colours: ${theme.value}`}
      onClick={() => setTheme(next)}
    >
      <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
        <circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.5" />
        {theme.value === "auto" && <path d="M8 2a6 6 0 0 1 0 12Z" fill="currentColor" />}
        {theme.value === "dark" && <circle cx="8" cy="8" r="6" fill="currentColor" />}
      </svg>
    </button>
  );
}
