// What just happened, for the eye and the ear.

import { message } from "../state/panels";

export function Messages() {
  const now = message.value;
  return (
    <div class="messages" role="status" aria-live="polite">
      {now !== null && <p class={now.isProblem ? "message problem" : "message"}>{now.text}</p>}
    </div>
  );
}
