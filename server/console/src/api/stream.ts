// The server's events. The browser connects again by itself when a connection breaks; a
// refused one, or one that went silent, is opened anew here, ever more slowly.

/** What may come. */
export interface Handlers {
  /** The stream stands. What was missed has to be asked for. */
  opened(): void;
  /** It does not. */
  broken(): void;
  event(kind: string, data: unknown): void;
}

const KINDS = ["sample", "coarse", "job", "guard", "snapshot", "reset"];
/** Between attempts, in milliseconds; the last holds for all that follow. */
const PAUSES_MS = [500, 1000, 2000, 5000, 10_000];
/** Samples come each second: after such a silence the connection is dead. */
const SILENCE_MS = 10_000;

export class Stream {
  private source: EventSource | null = null;
  private failures = 0;
  private timer = 0;
  private heard = 0;
  private readonly watch: number;

  constructor(
    private readonly path: string,
    private readonly handlers: Handlers,
  ) {
    this.watch = window.setInterval(() => this.look(), 1000);
    this.open();
  }

  close(): void {
    window.clearInterval(this.watch);
    window.clearTimeout(this.timer);
    this.source?.close();
  }

  private open(): void {
    const source = new EventSource(this.path);
    this.source = source;
    this.heard = Date.now();
    source.onopen = () => {
      this.heard = Date.now();
      this.handlers.opened();
    };
    source.onerror = () => {
      this.handlers.broken();
      if (source.readyState === EventSource.CLOSED) this.again();
    };
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        this.heard = Date.now();
        this.failures = 0;
        this.handlers.event(kind, parsed(event.data));
      });
    }
  }

  private look(): void {
    const isOpen = this.source?.readyState === EventSource.OPEN;
    if (!isOpen || Date.now() - this.heard < SILENCE_MS) return;
    this.handlers.broken();
    this.again();
  }

  private again(): void {
    this.source?.close();
    this.source = null;
    const pause = PAUSES_MS[Math.min(this.failures, PAUSES_MS.length - 1)];
    this.failures += 1;
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.open(), pause);
  }
}

function parsed(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return null;
  }
}
