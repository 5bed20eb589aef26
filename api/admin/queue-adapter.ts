import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import type { Queue } from 'bullmq';
import { listQueueWorkers } from '../../modules/platform/read-queue-board.ts';
import { MAINTENANCE } from '../../jobs/maintenance.ts';
import type { Context } from '../../modules/governance/context.ts';
import { BOARD } from './board-paths.ts';

interface QueueWorker {
  id: string;
  name: string | null;
  addr: string;
  /** In seconds. */
  age: number;
}

/** A BullMQ queue for the board, with its workers in either kind of store, and links from jobs to runs. */
export class QueueAdapter extends BullMQAdapter {
  protected readonly context: Context;
  protected readonly jobs: Queue;

  constructor(context: Context, queue: Queue) {
    super(queue, queue.name === MAINTENANCE.name ? {} : { externalJobUrl: ({ data }) => linkTo(data ?? {}) });
    this.context = context;
    this.jobs = queue;
  }

  /** Redis lists its clients; on Postgres workers share connections, so their processes register themselves. */
  override async getWorkers(): Promise<QueueWorker[] | null> {
    const { queues, db } = this.context;
    if (queues.kind === 'redis') return super.getWorkers();
    const workers = await listQueueWorkers(db, this.jobs.name);
    return workers.map(({ pid, address, connected_seconds: age }) => ({
      id: String(pid),
      name: null,
      addr: address ?? 'this machine',
      age: age ?? 0,
    }));
  }
}

/** The page of a job's run. */
function linkTo({ runId }: { runId?: unknown }): { displayText: string; href: string } {
  return { displayText: 'Run', href: `${BOARD}/runs/${encodeURIComponent(String(runId))}` };
}
