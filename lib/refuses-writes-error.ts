/** A service that answers but takes no writes: a replica, a full disk. Its work waits, as for a service that is away. */
export class RefusesWritesError extends Error {
  constructor(why: string, cause?: unknown) {
    super(`takes no writes (${why})`, { cause });
    this.name = 'RefusesWritesError';
  }
}
