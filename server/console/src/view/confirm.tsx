// Asks whether something is meant.

import { useState } from "preact/hooks";
import { close } from "../state/panels";
import { Dialog } from "./dialog";
import { ProblemText } from "./problem-text";

interface ConfirmProps {
  title: string;
  text: string;
  verb: string;
  act: () => Promise<void>;
}

export function Confirm({ title, text, verb, act }: ConfirmProps) {
  const [problem, setProblem] = useState<string | null>(null);
  const go = async () => {
    try {
      await act();
      close();
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <Dialog title={title} describedBy="confirm-text">
      <p id="confirm-text">{text}</p>
      <ProblemText problem={problem} />
      <div class="buttons">
        <button class="danger" onClick={() => void go()}>
          {verb}
        </button>
        <button autofocus onClick={close}>Keep it</button>
      </div>
    </Dialog>
  );
}
