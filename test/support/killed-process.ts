/** A process that can write nothing any more once it is killed. */
import { createSuspectPlace } from '../../modules/run-log/claim-suspect.ts';
import type { Context } from '../../modules/governance/context.ts';

export function openProcess(context: Context) {
  const { db } = context;
  let isDead = false;
  const alive = async <T>(act: () => Promise<T>): Promise<T> => {
    if (isDead) throw new Error('the process was killed');
    return act();
  };
  const killed: Context = {
    ...context,
    suspectPlace: createSuspectPlace(),
    commit: (change) => alive(() => context.commit(change)),
    db: {
      ...db,
      call: (statement) => alive(() => db.call(statement)),
      withTenant: (tenant, work) => alive(() => db.withTenant(tenant, work)),
      withTenantOnce: (tenant, work) => alive(() => db.withTenantOnce(tenant, work)),
    },
  };
  const kill = () => {
    isDead = true;
  };
  return { context: killed, kill };
}
