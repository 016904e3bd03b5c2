// What went wrong with what was asked for, read out as soon as it stands there.

export function ProblemText({ problem }: { problem: string | null }) {
  if (problem === null) return null;
  return (
    <p class="problem" role="alert">
      {problem}
    </p>
  );
}
