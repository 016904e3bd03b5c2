// Who looks at the page.

import { computed, signal } from "@preact/signals";
import { frozen } from "../api/frozen";
import { Problem, changeSession, get } from "../api/request";
import type { Session } from "../api/types";

/** `undefined`: not known yet; `null`: nobody is logged in. */
export const session = signal<Session | null | undefined>(undefined);
/** Why it is not known. */
export const sessionProblem = signal<Problem | null>(null);

/** Whether changes may be asked for. */
export const mayChange = computed(() => session.value != null && session.value.scope !== "read");

/** True with a token for scope `admin`: queries may be killed, backups and verifications cancelled. */
export const isAdmin = computed(() => session.value?.scope === "admin");

export async function ask(): Promise<void> {
  try {
    session.value = await get<Session>("/v1/session");
    sessionProblem.value = null;
  } catch (error) {
    const problem = error as Problem;
    if (problem.status === 401) session.value = null;
    sessionProblem.value = problem.status === 401 ? null : problem;
  }
}

/** The name of the channel between the tabs of one server. All of them send the same cookie. */
const CHANNEL = "ebb-session";

/** `null` while the page does not follow the other tabs. */
let tabs: BroadcastChannel | null = null;

/** Asks again for the session after each login and logout in another tab, until the returned function is called. */
export function followTabs(): () => void {
  const channel = frozen === null ? opened() : null;
  if (channel === null) return () => {};
  channel.onmessage = () => void ask();
  tabs = channel;
  return () => {
    channel.close();
    tabs = null;
  };
}

/** `null`: the browser has no channels. Firefox refuses them if its user blocks cookies. */
function opened(): BroadcastChannel | null {
  try {
    return new BroadcastChannel(CHANNEL);
  } catch {
    return null;
  }
}

/** The address that a command prints has a token behind this; no server ever sees it. */
const IN_ADDRESS = "#token=";

/** Logs in with the token that the address has, if it has one, and takes it out of there. */
export async function enter(): Promise<void> {
  const { hash } = window.location;
  if (hash.startsWith(IN_ADDRESS)) {
    window.history.replaceState(null, "", window.location.pathname);
    try {
      return await logIn(hash.slice(IN_ADDRESS.length));
    } catch {
      // It is over: whoever has another one is asked for it.
    }
  }
  await ask();
}

/** Logs in; throws the problem when the token is not good. */
export async function logIn(token: string): Promise<void> {
  await changeSession("POST", { token: token.trim() });
  tabs?.postMessage(null);
  await ask();
  if (session.value === null) throw new Problem(401, "The browser keeps no cookie of this server.");
}

/** Logs out. Throws the problem if the server does not answer: the login stays, as no script can delete its cookie. */
export async function logOut(): Promise<void> {
  await changeSession("DELETE");
  tabs?.postMessage(null);
  session.value = null;
}
