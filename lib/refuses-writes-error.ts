/** A service that answers and takes no writes: a replica, a full disk. Work that comes to it waits, as for one that is away. */
export class RefusesWritesError extends Error {
  constructor(why: string, cause?: unknown) {
    super(`takes no writes (${why})`, { cause });
    this.name = 'RefusesWritesError';
  }
}
