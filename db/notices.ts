/** Notifies webhooks of what is in no log. */
import type { NoticeType } from '../core/notices.ts';
import type { Tx } from './database.ts';

/** Adds a delivery for each subscribed webhook, in the transaction of the cause. `payload` contains only ids and outcomes. */
export async function insertNotice(
  tx: Tx,
  of: {
    tenantId: string;
    workspaceId: string;
    type: NoticeType;
    actor: 'user' | 'system';
    payload: Record<string, unknown>;
  },
): Promise<void> {
  await tx.query(
    `insert into webhook_deliveries (id, tenant_id, webhook_id, type, status, notice)
     select gen_random_uuid(), $1, w.id, $3, 'pending', jsonb_build_object('turn_id', null, 'step', null, 'actor', $4::text,
        'workspace_id', $2::uuid, 'occurred_at', now(), 'payload', $5::jsonb)
      from webhooks w where w.tenant_id = $1 and w.status = 'active' and w.run_id is null and (w.workspace_id is null or w.workspace_id = $2)
       and w.events && array['*', $3, split_part($3, '.', 1)]`,
    [of.tenantId, of.workspaceId, of.type, of.actor, JSON.stringify(of.payload)],
  );
}
