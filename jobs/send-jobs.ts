/** Sends jobs to BullMQ: those that others wait for as flows, the rest one by one. */
import type { FlowJob, JobsOptions, Queue } from 'bullmq';
import type { ParentJob, WaitingJob } from '../db/commit-run.ts';
import type { QueueBackend } from './backend.ts';
import { jobOptions } from './options.ts';

export interface JobToSend {
  queue: string;
  job_id: string;
  payload: Record<string, unknown>;
  priority: number;
  delay_ms?: number | undefined;
  /** As in its contract. */
  recurs?: true | undefined;
  parent?: ParentJob | WaitingJob | null | undefined;
}

/** A job with those that it waits for. */
interface JobTree {
  job: JobToSend;
  children: JobTree[];
}

/**
 * Sends all jobs; the id makes sending one twice the same as once. A job whose parent is neither among them nor already
 * waiting is sent without it: a parent decides by the database, not by its children, what it waits for.
 */
export async function sendJobs(queues: QueueBackend, jobs: readonly JobToSend[]): Promise<void> {
  const trees = toTrees(jobs);
  const alone = trees.filter(({ children }) => children.length === 0).map(({ job }) => job);
  const [below, plain] = [alone.filter(isBelow), alone.filter((job) => !isBelow(job))];
  await Promise.all(below.map((job) => sendBelow(queues, job)));
  for (const name of new Set(plain.map(({ queue }) => queue))) {
    await sendPlain(
      queues.queue(name),
      plain.filter(({ queue }) => queue === name),
    );
  }
  // One by one: BullMQ's bulk call does not report a flow that it could not add.
  for (const tree of trees) if (tree.children.length > 0) await queues.flowProducer().add(toFlow(tree));
}

type JobBelow = JobToSend & { parent: WaitingJob };

function isBelow(job: JobToSend): job is JobBelow {
  return job.parent !== undefined && job.parent !== null && 'waits' in job.parent;
}

/** Adds the job below its waiting parent, or by itself if the parent is gone. */
async function sendBelow(queues: QueueBackend, job: JobBelow): Promise<void> {
  const queue = queues.queue(job.queue);
  const above = queues.queue(job.parent.queue);
  const parent = { id: job.parent.job_id, queue: above.qualifiedName };
  try {
    await queue.add(queue.name, job.payload, { ...optionsOf(job), ...CHILD, parent });
  } catch (error) {
    if (await above.getJob(parent.id)) throw error;
    await sendPlain(queue, [job]);
  }
}

/** A child that has failed for good releases its parent: with any other option it could block it for ever. */
const CHILD = { ignoreDependencyOnFailure: true };

async function sendPlain(queue: Queue, jobs: readonly JobToSend[]): Promise<void> {
  const [first] = jobs;
  if (first && jobs.length === 1) await queue.add(queue.name, first.payload, optionsOf(first));
  else await queue.addBulk(jobs.map((job) => ({ name: queue.name, data: job.payload, opts: optionsOf(job) })));
}

function toTrees(jobs: readonly JobToSend[]): JobTree[] {
  const trees = jobs.map((job): JobTree => ({ job, children: [] }));
  const byJob = new Map(trees.map((tree) => [keyOf(tree.job), tree]));
  return trees.filter((tree) => {
    const parent = tree.job.parent && byJob.get(keyOf(tree.job.parent));
    parent?.children.push(tree);
    return !parent;
  });
}

const keyOf = ({ queue, job_id }: ParentJob): string => JSON.stringify([queue, job_id]);

function toFlow({ job, children }: JobTree): FlowJob {
  return {
    name: job.queue,
    queueName: job.queue,
    data: job.payload,
    opts: { ...optionsOf(job), ...CHILD },
    children: children.map(toFlow),
  };
}

function optionsOf({
  job_id: jobId,
  delay_ms: delay = 0,
  priority,
  recurs,
}: JobToSend): JobsOptions & { jobId: string } {
  return { ...jobOptions({ recurs }), jobId, delay, priority };
}
