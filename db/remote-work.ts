/** Work begun elsewhere by calls. */
import type { RemoteWork } from '../core/tool.ts';
import type { Tx } from './database.ts';

/** For a settled call: stores the work still to be cancelled, or null if there is none. */
export async function keepRemote(tx: Tx, callId: string, remote: RemoteWork | null): Promise<void> {
  await tx.query(
    `update tool_calls set remote = $2::jsonb
      where id = $1 and remote is not null and status not in ('awaiting_approval', 'pending', 'running')`,
    [callId, remote && JSON.stringify(remote)],
  );
}
