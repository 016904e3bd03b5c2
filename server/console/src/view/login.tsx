// Asks for a token.

import { useState } from "preact/hooks";
import type { Problem } from "../api/request";
import { logIn } from "../state/session";
import { Mark } from "./mark";

export function Login() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const [isAsking, setAsking] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setAsking(true);
    try {
      await logIn(token);
    } catch (error) {
      setProblem((error as Problem).message);
      setAsking(false);
    }
  };
  return (
    <main class="login">
      <form onSubmit={submit}>
        <h1>
          <Mark /> ebb
        </h1>
        <input type="text" name="username" autocomplete="username" value="ebb" hidden readonly />
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="current-password"
          autofocus
          required
          spellcheck={false}
          value={token}
          aria-describedby={problem === null ? "token-hint" : "token-problem"}
          aria-invalid={problem !== null}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        {problem !== null && (
          <p id="token-problem" class="problem" role="alert">
            {problem}
          </p>
        )}
        <button class="primary" disabled={isAsking}>
          {isAsking ? "Logging in …" : "Log in"}
        </button>
        <TokenHint />
      </form>
    </main>
  );
}

/** The command that makes a token. The page cannot know whether the server has logins, so it names both forms. */
export function TokenHint() {
  return (
    <p id="token-hint" class="hint">
      On the server's machine:
      <code>ebb token create --data DIR --name me --scope jobs [--role ROLE]</code>
      A token for <em>read</em> looks on, one for <em>jobs</em> may also submit and cancel. A server with{" "}
      <em>--auth</em> accepts only tokens of a role of CQL.
    </p>
  );
}
