// The answer to a what-if: when it would be done, and whom it would hurt.

import type { WhatIf } from "../api/types";
import { now } from "../state/clock";
import { clock, duration, relative } from "../text/time";

export function Answer({ answer }: { answer: WhatIf }) {
  const nowMs = now.value;
  const at = (unixMs: number) => clock(unixMs, nowMs);
  return (
    <div class="answer" role="status">
      {answer.finish_unix_ms === null ? (
        <p>It would not be done within a week.</p>
      ) : (
        <p>
          Done at <b>{at(answer.finish_unix_ms)}</b>, {relative(answer.finish_unix_ms, nowMs)}
          {answer.low_unix_ms !== null && (
            <small>
              between {at(answer.low_unix_ms)} and{" "}
              {answer.high_unix_ms === null ? "more than a week" : at(answer.high_unix_ms)}
            </small>
          )}
        </p>
      )}
      {answer.meets_goal !== null && (
        <p class={answer.meets_goal ? "good" : "bad"}>
          {answer.meets_goal ? "✓ Its goal would be met." : "✕ Its goal would be missed."}
        </p>
      )}
      {answer.victims.length === 0 ? (
        <p class="good">✓ No other goal would be broken.</p>
      ) : (
        <>
          <p class="bad">
            ✕ {answer.victims.length === 1 ? "One goal" : `${answer.victims.length} goals`} would be broken:
          </p>
          <table class="small">
            <caption class="sr-only">Goals that would be broken</caption>
            <thead>
              <tr>
                <th scope="col">Job</th>
                <th scope="col" class="number">
                  Goal
                </th>
                <th scope="col" class="number">
                  Without
                </th>
                <th scope="col" class="number">
                  With
                </th>
                <th scope="col" class="number">
                  Late by
                </th>
              </tr>
            </thead>
            <tbody>
              {answer.victims.map((victim) => (
                <tr key={victim.job_id}>
                  <th scope="row">
                    {victim.name} <small class="id">{victim.job_id}</small>
                  </th>
                  <td class="number">{at(victim.goal_unix_ms)}</td>
                  <td class="number">{at(victim.finish_without_unix_ms)}</td>
                  <td class="number">
                    {victim.finish_with_unix_ms === null ? "–" : at(victim.finish_with_unix_ms)}
                  </td>
                  <td class="number">
                    {victim.finish_with_unix_ms === null
                      ? "over a week"
                      : duration((victim.finish_with_unix_ms - victim.goal_unix_ms) / 1000)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
      <p class="hint">Answered in {answer.answered_in_ms.toFixed(1)} ms.</p>
    </div>
  );
}
