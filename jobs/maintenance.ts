/** The queue `maintenance`: scheduled acts that keep everything else consistent. Each is idempotent. */
import { z } from 'zod';
import { defineJob, SHORT_LOCK_MS } from './define-job.ts';

export const MAINTENANCE_ACTS = [
  'sweep-outbox',
  'reconcile',
  'expire-approvals',
  'expire-answered',
  'end-waits',
  'end-tasks',
  'lapse-agents',
  'carry-handoffs',
  'embed-skills',
  'wake-parked',
  'expire-idle',
  'forget-old',
  'settle-budgets',
  'roll-up-usage',
  'make-partitions',
  'seal-audit',
  'send-webhooks',
  'title-threads',
  'renew-priorities',
  'look-at-queues',
  'split-outputs',
  'index-errors',
  'index-memories',
  'consolidate-memory',
  'forget-again',
  'sweep-files',
  'finish-erasures',
] as const;
export type MaintenanceAct = (typeof MAINTENANCE_ACTS)[number];

const maintenanceJob = z.object({ act: z.enum(MAINTENANCE_ACTS) });
type MaintenanceJob = z.output<typeof maintenanceJob>;

export const MAINTENANCE = defineJob({
  name: 'maintenance',
  schema: maintenanceJob,
  // One job per act: one that still waits or runs is not sent again.
  id: ({ act }: MaintenanceJob) => act,
  concurrency: { embedded: 5, services: 5 },
  jobNames: MAINTENANCE_ACTS,
  isRoutine: true,
  // While an act has a job, it is not sent again: one that nobody carries out would hold up what is due.
  mostLockMs: SHORT_LOCK_MS,
});

/** How often each act runs, in ms. Reconciliation runs twice a lease (docs/design/engine.md, "Recovery"). */
export function scheduleOf(act: MaintenanceAct, leaseMs: number): number {
  switch (act) {
    case 'end-waits':
    case 'end-tasks':
    case 'lapse-agents':
    case 'carry-handoffs':
    case 'wake-parked':
    case 'send-webhooks':
    case 'title-threads':
    case 'expire-approvals':
      return 1000;
    case 'sweep-outbox':
    case 'seal-audit':
    case 'embed-skills':
    case 'settle-budgets':
    case 'roll-up-usage':
    case 'finish-erasures':
      return 5000;
    case 'reconcile':
      return Math.max(500, Math.floor(leaseMs / 2));
    case 'expire-answered':
    case 'expire-idle':
    case 'forget-again':
    case 'renew-priorities':
    case 'look-at-queues':
    case 'split-outputs':
    case 'index-errors':
    case 'index-memories':
    case 'sweep-files':
      return 60_000;
    case 'consolidate-memory':
    case 'forget-old':
    case 'make-partitions':
      return 3_600_000;
  }
}
