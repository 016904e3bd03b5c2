// A line of text with its label and a hint.

import { useId } from "preact/hooks";

interface InputProps {
  label: string;
  name: string;
  value: string;
  hint?: string;
  placeholder?: string;
  list?: string;
  isFirst?: boolean;
  onInput: (value: string) => void;
}

export function Input({ label, name, value, hint, placeholder, list, isFirst = false, onInput }: InputProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        type="text"
        name={name}
        value={value}
        spellcheck={false}
        autofocus={isFirst}
        autocomplete="off"
        {...(placeholder === undefined ? {} : { placeholder })}
        {...(list === undefined ? {} : { list })}
        {...(hint === undefined ? {} : { "aria-describedby": `${id}-hint` })}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
      {hint !== undefined && (
        <small id={`${id}-hint`} class="hint">
          {hint}
        </small>
      )}
    </div>
  );
}
