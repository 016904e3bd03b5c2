// Which colour and which texture a job has: the same for as long as the pictures have it.

/** Colours that the style sheet has, `--job-0` and so on. */
export const COLOURS = 8;
/** Textures that the style sheet has over a colour: none, stripes and dots. */
export const TEXTURES = 3;

export interface Look {
  /** From 0, below `COLOURS`. */
  colour: number;
  /** From 0, below `TEXTURES`; 0 is none. */
  texture: number;
}

export class Colours {
  private readonly given = new Map<string, number>();

  /**
   * The look of a job: the first that no other job has. The first eight differ in colour, and the next sixteen in
   * texture too. Of more jobs, some look the same.
   */
  of(id: string): Look {
    let look = this.given.get(id);
    if (look === undefined) {
      look = this.free();
      this.given.set(id, look);
    }
    return { colour: look % COLOURS, texture: Math.floor(look / COLOURS) };
  }

  /** Takes the looks of all other jobs back, for later jobs. */
  keep(ids: ReadonlySet<string>): void {
    for (const id of this.given.keys()) if (!ids.has(id)) this.given.delete(id);
  }

  private free(): number {
    const taken = new Set(this.given.values());
    for (let look = 0; look < COLOURS * TEXTURES; look += 1) if (!taken.has(look)) return look;
    return this.given.size % (COLOURS * TEXTURES);
  }
}
