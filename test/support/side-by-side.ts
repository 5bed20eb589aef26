/** Two transactions of which the second begins while the first is open. */
import type { Tx } from '../../db/database.ts';
import type { Tenant } from './queries/access.ts';
import { sessionsWaitingIn } from './queries/postgres.ts';
import { waitUntil } from './wait-until.ts';

interface Both<A, B> {
  first: (tx: Tx) => Promise<A>;
  second: () => Promise<B>;
  /** A part of the statement in which the second one would wait. */
  statement: string;
  /** What the first one still does before it ends. */
  last?: (tx: Tx) => Promise<unknown>;
}

/** The first one ends once the second has its answer or waits for a lock; returns what both answer. */
export async function sideBySide<A, B>(
  { context, tenantId }: Tenant,
  { first, second, statement, last }: Both<A, B>,
): Promise<[A, B]> {
  let isOver = false;
  const end = () => {
    isOver = true;
  };
  const { made, begun } = await context.db.withTenant(tenantId, async (tx) => {
    const answer = await first(tx);
    const beside = second();
    void beside.then(end, end);
    const isWaiting = async () => isOver || (await sessionsWaitingIn(context.db, statement)).length > 0;
    await waitUntil('the second one answers or waits', isWaiting);
    await last?.(tx);
    return { made: answer, begun: beside };
  });
  return [made, await begun];
}
