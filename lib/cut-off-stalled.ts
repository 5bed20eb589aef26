import type { ServerResponse } from 'node:http';

/**
 * Cuts off a client that takes nothing of its answer for `stallMs`, which would stay in memory. The time begins once all of
 * the answer has been given to Node: before, a request may wait for long.
 */
export function cutOffStalled(response: ServerResponse, stallMs: number): void {
  response.once('prefinish', () => response.setTimeout(stallMs, () => response.destroy()));
}
