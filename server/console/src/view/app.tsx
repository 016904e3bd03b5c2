// Who is not logged in logs in; the others see the server.

import { useEffect } from "preact/hooks";
import { ask, enter, followTabs, session, sessionProblem } from "../state/session";
import { Console } from "./console";
import { Login } from "./login";

/** Between attempts to reach a server that does not answer, in milliseconds. */
const RETRY_MS = 3000;

export function App() {
  useEffect(followTabs, []);
  useEffect(() => void enter(), []);
  const problem = sessionProblem.value;
  useEffect(() => {
    if (problem === null) return;
    const timer = setInterval(() => void ask(), RETRY_MS);
    return () => clearInterval(timer);
  }, [problem !== null]);
  if (session.value == null && problem !== null) {
    return (
      <main class="center">
        <h1>ebb</h1>
        <p role="alert">
          {problem.message}. Asking again every {RETRY_MS / 1000} s.
        </p>
      </main>
    );
  }
  if (session.value === undefined) {
    return (
      <main class="center">
        <h1>ebb</h1>
        <p role="status">Asking the server …</p>
      </main>
    );
  }
  // Another principal, who has logged in in another tab, gets a console of its own.
  return session.value === null ? <Login /> : <Console key={JSON.stringify(session.value)} />;
}
