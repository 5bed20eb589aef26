/** Sends missing jobs: for each unfinished run that should be driven, and each call that should be made. */
import type { Job, Queue } from 'bullmq';
import { LIMITS } from '../../core/limits.ts';
import { readVectorName } from '../../core/memory/vector-names.ts';
import { readLengths } from '../../db/memory-index.ts';
import { listModelPairs, noteEmbeddingSettings, type ModelPair } from '../../db/memory-models.ts';
import { replaces } from '../../llm/embedding-settings.ts';
import { CONTRACTS, type QueueName } from '../../jobs/contracts.ts';
import type { AnyJob, LostJob } from '../../jobs/define-job.ts';
import { jobOptions } from '../../jobs/options.ts';
import type { RunLogContext } from './run-log-context.ts';

/** Jobs looked up or sent in one round trip to the queue. */
const AT_A_TIME = 250;

const FIRST_ID = '00000000-0000-0000-0000-000000000000';

/** Number of missing jobs by queue. */
type Reconciled = Partial<Record<QueueName, number>>;

/**
 * Compares the database with the queues, optionally for one tenant, sends missing jobs, and returns their numbers. This makes
 * Redis disposable. Jobs that another clock than the database's has delayed are promoted when due.
 */
export async function reconcile(context: RunLogContext, quietMs: number, tenantId?: string): Promise<Reconciled> {
  const embeds = context.embeddings.modelFor(undefined) !== undefined;
  const filter = {
    quietMs,
    tenantId,
    limit: LIMITS.sweepRows,
    embeds,
    replaced: embeds ? await replacedBy(context) : [],
  };
  const sent: Reconciled = {};
  for (const contract of CONTRACTS) {
    const { name, listLost } = contract;
    if (!listLost) continue;
    sent[name] = await eachPage(
      (after) => listLost(context.db, { ...filter, after }),
      (lost) => ensureJobs(context, contract, lost),
    );
  }
  return sent;
}

/** Vectors that this process replaces, of any agents. */
async function replacedBy({ db, embeddings: { settings } }: RunLogContext): Promise<ModelPair[]> {
  const others = await noteEmbeddingSettings(db, settings, LIMITS.embeddingSettingsMs);
  const pairs = await listModelPairs(db, LIMITS.sweepRows);
  const models = new Set(pairs.map(({ model: name }) => readVectorName(name).model));
  const replaced: ModelPair[] = [];
  for (const model of models) {
    const lengths = await readLengths(db, { owner: 'memory_entries', model });
    const of = pairs.filter((pair) => readVectorName(pair.model).model === model);
    replaced.push(
      ...of.filter((pair) => replaces(settings, others, { ...pair, wanted: pair.wanted || undefined, lengths })),
    );
  }
  return replaced;
}

async function eachPage(
  page: (after: string) => Promise<LostJob[]>,
  mend: (lost: LostJob[]) => Promise<number>,
): Promise<number> {
  let mended = 0;
  let after: string | undefined = FIRST_ID;
  while (after !== undefined) {
    const rows: LostJob[] = await page(after);
    for (let at = 0; at < rows.length; at += AT_A_TIME) mended += await mend(rows.slice(at, at + AT_A_TIME));
    after = rows.length === LIMITS.sweepRows ? rows.at(-1)?.rowId : undefined;
  }
  return mended;
}

/** Adds jobs that are not alive, after removing finished ones that block their id. Returns how many were fixed. */
async function ensureJobs(
  { queues, order }: RunLogContext,
  { name, ...contract }: Pick<AnyJob, 'name' | 'recurs'>,
  jobs: readonly LostJob[],
): Promise<number> {
  const queue = queues.queue(name);
  const states = await queues.states(
    name,
    jobs.map(({ id }) => id),
  );
  const inState = (...wanted: string[]) => jobs.filter((_, index) => wanted.includes(states[index] ?? 'unknown'));
  const due = await Promise.all(inState('delayed').map((job) => promoteIfDue(queue, job)));
  const ended = inState('completed', 'failed');
  await Promise.all(ended.map(({ id }) => queue.remove(id)));
  const missing = [...ended, ...inState('unknown')].map(({ id, payload }) => {
    const priority = order.next(payload.tenantId);
    return { name: queue.name, data: payload, opts: { ...jobOptions(contract), jobId: id, priority } };
  });
  if (missing.length > 0) await queue.addBulk(missing);
  return due.filter(Boolean).length + missing.length;
}

async function promoteIfDue(queue: Queue, { id, isDue }: LostJob): Promise<boolean> {
  const job = await queue.getJob(id);
  return job !== undefined && isDue(job.delay) && promote(job);
}

/** Makes a delayed job run now; false if it has just started. */
async function promote(job: Job): Promise<boolean> {
  try {
    await job.promote();
    return true;
  } catch (error) {
    if (await job.isDelayed()) throw error;
    return false;
  }
}
