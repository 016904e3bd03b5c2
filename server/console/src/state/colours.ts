// Which colour a job has: the same for as long as the page is open.

/** Colours that the style sheet has, `--job-0` and so on. */
export const COLOURS = 8;

export class Colours {
  private readonly given = new Map<string, number>();

  /** The colour of a job; they are given in turn. */
  of(id: string): number {
    const known = this.given.get(id);
    if (known !== undefined) return known;
    const colour = this.given.size % COLOURS;
    this.given.set(id, colour);
    return colour;
  }
}
