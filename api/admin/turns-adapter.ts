import type { JobCleanStatus, JobCounts, JobStatus, QueueJobOptions } from '@bull-board/api/typings/app';
import type { FlowProducer, Job, JobNode, JobType, NodeOpts } from 'bullmq';
import { z } from 'zod';
import { LIMITS } from '../../core/limits.ts';
import { TURNS } from '../../jobs/turns.ts';
import {
  countTurns,
  findBoardTurn,
  findTurnAbove,
  listBoardTurns,
  listTurnsBelow,
  listTurnsOfRun,
  MOST_SHOWN,
  type BoardTurn,
  type TurnAbove,
  type TurnState,
} from '../../modules/platform/read-queue-board.ts';
import { QueueAdapter } from './queue-adapter.ts';
import { TurnCard } from './turn-card.ts';

const STATES: readonly TurnState[] = ['active', 'waiting', 'waiting-children', 'completed', 'failed', 'delayed'];

const RUN_ID_LENGTH = 36;

/**
 * The queue `turns`, showing all turns, including locally dispatched ones that the queue never saw. Turns come from the
 * database; the queue only gives the jobs of those shown, and carries out actions.
 */
export class TurnsAdapter extends QueueAdapter {
  /** A turn that has ended is final: the job that brought it, brought again, would find nothing to do. */
  override readonly allowRetries = false;
  override readonly allowCompletedRetries = false;

  override getJobStatuses(): JobStatus[] {
    return [...STATES];
  }

  override async getJobCounts(): Promise<JobCounts> {
    // Prioritized jobs wait like any other, and single jobs are never paused.
    const others = { latest: 0, prioritized: 0, paused: 0 };
    return { ...others, ...(await countTurns(this.context.db, await this.#delayedRuns())) };
  }

  override async getJobs(statuses: JobStatus[], start = 0, end = MOST_SHOWN - 1): Promise<Job[]> {
    const delayed = await this.#delayedRuns();
    const pages: Job[][] = [];
    for (const state of STATES.filter((each) => statuses.includes(each))) {
      const page = { state, delayed, offset: start, limit: end - start + 1 };
      pages.push(await this.#cards(await listBoardTurns(this.context.db, page)));
    }
    return pages.flat();
  }

  /** Finds a turn by its id, or a job of the queue by the job's. */
  override async getJob(id: string): Promise<Job | undefined> {
    if (!z.uuid().safeParse(id).success) return super.getJob(id);
    const turn = await findBoardTurn(this.context.db, id, await this.#delayedRuns());
    const [card] = turn ? await this.#cards([turn]) : [];
    return card;
  }

  /** Trees follow the runs: below a turn are the children created in it, with or without jobs. */
  override async getFlowProducer(): Promise<FlowProducer | null> {
    const producer = await super.getFlowProducer();
    const getFlow = (window: NodeOpts) => this.#tree(window);
    return producer && (Object.create(producer, { getFlow: { value: getFlow } }) as FlowProducer);
  }

  async #tree({ id, depth = MOST_LEVELS, maxChildren: limit = MOST_CHILDREN }: NodeOpts): Promise<JobNode | undefined> {
    const { db } = this.context;
    const delayed = await this.#delayedRuns();
    const root = z.uuid().safeParse(id).success ? await findTurnAbove(db, id, delayed) : undefined;
    if (!root) return undefined;
    const tree = this.#node(root);
    let level = new Map([[root.id, tree]]);
    for (let at = 1; at < depth && level.size > 0; at++) {
      const below = new Map<string, TurnNode>();
      for (const turn of await listTurnsBelow(db, { ids: [...level.keys()], delayed, limit })) {
        const node = this.#node(turn);
        level.get(turn.parent_id ?? '')?.children.push(node);
        below.set(turn.id, node);
      }
      level = below;
    }
    return tree;
  }

  #node(turn: TurnAbove): TurnNode {
    return { job: new TurnCard(this.jobs, turn, undefined), children: [] };
  }

  /** Uses the queue's name, which workers expect; a card's name is for people. */
  override addJob(_name: string, data: unknown, options: QueueJobOptions): Promise<Job> {
    return super.addJob(this.jobs.name, data, options);
  }

  override async getJobLogs(id: string): Promise<string[]> {
    const job: unknown = (await this.getJob(id))?.data;
    const { queue_job: own = id } = (job ?? {}) as { queue_job?: string | null };
    return own === null ? [] : super.getJobLogs(own);
  }

  override async clean(status: JobCleanStatus, graceMs: number): Promise<void> {
    await super.clean(status, graceMs);
    // All jobs of turns have a priority, so waiting ones are in another set.
    if (status === 'wait') await this.jobs.clean(graceMs, Number.MAX_SAFE_INTEGER, 'prioritized');
  }

  /** A run's last turns, newest first. */
  async turnsOf(runId: string, limit: number): Promise<BoardTurn[]> {
    return listTurnsOfRun(this.context.db, { id: runId, delayed: await this.#delayedRuns(), limit });
  }

  async #delayedRuns(): Promise<string[]> {
    return [...(await this.#jobIdsByRun('delayed')).keys()];
  }

  async #cards(turns: readonly BoardTurn[]): Promise<TurnCard[]> {
    const states = new Set(turns.map(({ state }) => state));
    const ids = new Map<string, Map<string, string>>();
    for (const state of states) if (isListed(state)) ids.set(state, await this.#jobsOfTurns(state));
    return Promise.all(
      turns.map(async (turn) => {
        const id = turn.state === 'waiting' ? nextJobOf(turn) : ids.get(turn.state)?.get(turn.run_id);
        const job = id === undefined ? undefined : await this.jobs.getJob(id);
        return new TurnCard(this.jobs, turn, job && isOf(job, turn) ? job : undefined);
      }),
    );
  }

  /** Job ids by run for a turn state. A turn ends in the database before its job, so active jobs are listed, too. */
  async #jobsOfTurns(state: ListedState): Promise<Map<string, string>> {
    if (state === 'active' || state === 'delayed') return this.#jobIdsByRun(state);
    const active = await this.#jobIdsByRun('active');
    return new Map([...active, ...(await this.#jobIdsByRun(state))]);
  }

  /** The newest job of each run in a queue state. */
  async #jobIdsByRun(state: JobType): Promise<Map<string, string>> {
    const ids = await this.jobs.getRanges([state], 0, MOST_SHOWN - 1);
    const byRun = new Map<string, string>();
    for (const id of ids) {
      const run = id.slice(0, RUN_ID_LENGTH);
      if (!byRun.has(run) && z.uuid().safeParse(run).success) byRun.set(run, id);
    }
    return byRun;
  }
}

type TurnNode = Required<JobNode>;

/** Default depth of a tree: as deep as runs can nest. */
const MOST_LEVELS = LIMITS.runDepth + 1;
const MOST_CHILDREN = 20;

type ListedState = 'active' | 'delayed' | 'completed' | 'failed';

/** Whether to list the ids of all jobs in a state: there are few of them, and they tell where a run was. */
function isListed(state: TurnState): state is ListedState {
  return state === 'active' || state === 'delayed' || state === 'completed' || state === 'failed';
}

/** The id of the job for the run's present position. */
function nextJobOf({ run_id: runId, last_seq: seq, fence }: BoardTurn): string {
  return TURNS.id({ runId, seq, fence });
}

/** A job without a turn's id belongs to the run's last turn. */
function isOf(job: Job, turn: BoardTurn): boolean {
  const { turnId: named } = (job.data ?? {}) as { turnId?: string };
  return named === undefined ? turn.is_last : named === turn.id;
}
