/** Reasons for a drive to stop before its run does. */

/** Another driver, a cancel or an interrupt has taken the run: its driver stops and writes nothing. */
export class LostRunError extends Error {
  /** The cause: `lease`, `cancel`, …, or why a commit was refused. */
  readonly why: string;

  constructor(why: string) {
    super(`the run is held by another driver (${why})`);
    this.why = why;
    this.name = 'LostRunError';
  }
}

/** The log or its messages do not match their hashes, and there is no earlier checkpoint to fall back to. */
export class CorruptCheckpointError extends Error {
  constructor(where: string, cause?: unknown) {
    super(`The run cannot be restored: ${where}.`, { cause });
    this.name = 'CorruptCheckpointError';
  }
}
