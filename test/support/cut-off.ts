/** A process that is cut off from its database, while others go on. */
import type { Database } from '../../db/database.ts';
import type { Context } from '../../modules/governance/context.ts';
import type { Engine } from './engine.ts';
import { overDatabase } from './over-database.ts';
import { isLeaseOver } from './queries/runs.ts';
import { waitUntil } from './wait-until.ts';

interface CutOff {
  /** The context of the process, which holds its runs by leases of that length. */
  context: Context;
  off: () => void;
  on: () => void;
  /** The process's context where this attempt of a call is claimed, and the answer lost: it is cut off from then on. */
  losingAnswer: (attempt: number) => Context;
  /** Until the process is cut off, has lost the run, and has given up what it tries for as long as a lease. */
  forLongerThanLease: (run: string) => Promise<void>;
}

export function cutOff(engine: Engine, { leaseMs }: { leaseMs: number }): CutOff {
  let isOff = false;
  const { db } = engine.context;
  const unlessOff = <T>(work: () => Promise<T>): Promise<T> =>
    isOff ? Promise.reject(Object.assign(new Error('gone'), { code: 'ECONNRESET' })) : work();
  const cut: Database = {
    ...db,
    withTenant: (...given) => unlessOff(() => db.withTenant(...given)),
    withTenantOnce: (...given) => unlessOff(() => db.withTenantOnce(...given)),
    withTenantSnapshot: (...given) => unlessOff(() => db.withTenantSnapshot(...given)),
    asMaintenance: (...given) => unlessOff(() => db.asMaintenance(...given)),
    call: (...given) => unlessOff(() => db.call(...given)),
  };
  const commit: Context['commit'] = (change) => unlessOff(() => engine.context.commit(change));
  const claim: Context['claim'] = (of) => unlessOff(() => engine.context.claim(of));
  const config = { ...engine.context.config, leaseMs };
  const context: Context = { ...overDatabase(engine.context, cut), commit, claim, config };
  return {
    context,
    off: () => void (isOff = true),
    on: () => void (isOff = false),
    losingAnswer: (attempt) => ({
      ...context,
      async commit(change) {
        const result = await commit(change);
        const begins = change.events.some(
          ({ type, payload }) => type === 'tool.started' && (payload as { attempt: number }).attempt === attempt,
        );
        if (!begins || isOff) return result;
        isOff = true;
        return commit(change);
      },
    }),
    async forLongerThanLease(run) {
      await waitUntil('the process is cut off', () => isOff);
      await waitUntil('the lease is over', () => isLeaseOver(engine, run));
      // Nothing tells that the process goes on trying: the time is what is tested.
      await new Promise((resolve) => setTimeout(resolve, leaseMs));
    },
  };
}
