import type { Logger } from 'pino';
import { refusalOf } from '../../db/database-errors.ts';
import type { GroupCommit } from './group-commit.ts';

const TELL_EVERY_MS = 30_000;

/**
 * The same, but logs that the database takes no writes: drivers and tool workers repeat such a commit in silence, and its
 * connection is not lost. One line in 30 s, since a full disk has room for some commits, and one when that is over.
 */
export function tellingRefusals(group: GroupCommit, log: Logger): GroupCommit {
  let toldAtMs = Number.NEGATIVE_INFINITY;
  let isOver = true;
  return {
    ...group,
    async commit(change) {
      try {
        const result = await group.commit(change);
        if (result.ok && !isOver) {
          isOver = true;
          log.info('the database takes writes again');
        }
        return result;
      } catch (error) {
        const refusal = refusalOf(error);
        if (refusal !== undefined && performance.now() - toldAtMs > TELL_EVERY_MS) {
          toldAtMs = performance.now();
          isOver = false;
          log.warn({ err: error }, `the database takes no writes (${refusal}); work waits for it`);
        }
        throw error;
      }
    },
  };
}
