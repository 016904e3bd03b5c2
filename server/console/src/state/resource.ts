// Something of the server that the page holds, as of the last answer.

import { signal } from "@preact/signals";
import { Problem } from "../api/request";

export class Resource<T> {
  /** The last good answer; `null`: none yet. */
  readonly value = signal<T | null>(null);
  /** Why there is no newer one. */
  readonly problem = signal<Problem | null>(null);
  private running: Promise<void> | null = null;
  private again = false;
  /** Which answers are wanted still: those asked for since it was cleared. */
  private era = 0;

  constructor(private readonly ask: () => Promise<T>) {}

  /** Asks again; while an answer is awaited, once more after it. */
  refresh(): Promise<void> {
    if (this.running !== null) {
      this.again = true;
      return this.running;
    }
    this.running = this.once().finally(() => {
      this.running = null;
      if (!this.again) return;
      this.again = false;
      void this.refresh();
    });
    return this.running;
  }

  clear(): void {
    this.era += 1;
    this.value.value = null;
    this.problem.value = null;
  }

  private async once(): Promise<void> {
    const era = this.era;
    try {
      const answer = await this.ask();
      if (era !== this.era) return;
      this.value.value = answer;
      this.problem.value = null;
    } catch (error) {
      if (era !== this.era) return;
      this.problem.value = error instanceof Problem ? error : new Problem(-1, String(error));
    }
  }
}
