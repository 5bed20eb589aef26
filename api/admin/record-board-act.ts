/** Puts what an operator does on the queue board into the audit log. */
import type { Caller } from '../../core/caller.ts';
import { recordAudit } from '../../modules/audit/record-audit.ts';
import type { Context } from '../../modules/governance/context.ts';
import type { ApiContext } from '../kit/state.ts';
import { BOARD } from './board-paths.ts';

const QUEUES = `${BOARD}/api/queues/`;

/** Room for a queue, an act, a job's id and a status. */
const MOST_CHARS = 300;

/** Commits the row before the act: the queues are in another store, so the two cannot be one transaction. */
export async function recordBoardAct({ db }: Context, caller: Caller, { method, path }: ApiContext): Promise<void> {
  const asked = path.startsWith(QUEUES) ? path.slice(QUEUES.length) : path.slice(BOARD.length + 1);
  const [queue = '', ...act] = asked.slice(0, MOST_CHARS).split('/');
  const isOne = path.startsWith(QUEUES) && act.length > 0;
  const details = { act: isOne ? act.join('/') : asked.slice(0, MOST_CHARS), method };
  await db.withTenant(caller.tenantId, (tx) =>
    recordAudit(tx, caller, { action: 'queue.operated', target: ['queue', isOne ? queue : 'all'], details }),
  );
}
