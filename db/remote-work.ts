/** What calls have begun elsewhere. */
import type { RemoteWork } from '../core/tool.ts';
import type { Tx } from './database.ts';

/** Of a call that is settled: what is still to be cancelled, or that nothing is. */
export async function keepRemote(tx: Tx, callId: string, remote: RemoteWork | null): Promise<void> {
  await tx.query(
    `update tool_calls set remote = $2::jsonb
      where id = $1 and remote is not null and status not in ('awaiting_approval', 'pending', 'running')`,
    [callId, remote && JSON.stringify(remote)],
  );
}
