// A dialog over the page. The browser keeps the focus in it and gives it back.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { close } from "../state/panels";

interface DialogProps {
  title: string;
  /** At the side of the page, for what is long. */
  isSheet?: boolean;
  /** The id of the text that screen readers read after the title, when the dialog opens. */
  describedBy?: string;
  children: ComponentChildren;
}

export function Dialog({ title, isSheet = false, describedBy, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = dialog.current!;
    const before = document.activeElement as HTMLElement | null;
    element.showModal();
    return () => {
      element.close();
      before?.focus?.();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      class={isSheet ? "sheet" : ""}
      aria-labelledby="dialog-title"
      {...(describedBy === undefined ? {} : { "aria-describedby": describedBy })}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onClick={(event) => event.target === dialog.current && close()}
    >
      <div class="dialog-body">
        <header>
          <h2 id="dialog-title">{title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick={close}>
            ✕
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
