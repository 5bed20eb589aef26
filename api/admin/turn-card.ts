import { Job, type FinishedStatus, type Queue } from 'bullmq';
import { conflict } from '../../core/errors.ts';
import type { BoardTurn, TurnAbove } from '../../modules/platform/read-queue-board.ts';

/**
 * A turn in the form of a job. Its data comes from the database; actions go to the turn's present job in the queue.
 * Without one, since it was dispatched locally or ended long ago, they throw 409.
 */
export class TurnCard extends Job {
  readonly #turn: BoardTurn & Partial<TurnAbove>;
  readonly #job: Job | undefined;

  constructor(queue: Queue, turn: BoardTurn | TurnAbove, job: Job | undefined) {
    const { agent, run_id: run, parent_id } = turn;
    // A turn's parent is the turn of its run's parent, whatever its job's parent was.
    const { parent: _, ...own } = job?.opts ?? {};
    const options = parent_id === null ? own : { ...own, parent: { id: parent_id, queue: queue.qualifiedName } };
    super(queue, `${agent} · run ${run} · ${outcomeOf(turn)}`, dataOf(turn, job), options, turn.id);
    this.#turn = turn;
    this.#job = job;
    this.timestamp = turn.created_at.getTime();
    this.delay = job?.delay ?? 0;
    this.priority = job?.priority ?? 0;
    this.attemptsMade = job?.attemptsMade ?? 0;
    this.attemptsStarted = job?.attemptsStarted ?? 0;
    this.stalledCounter = job?.stalledCounter ?? 0;
    if (turn.completed_at) this.finishedOn = turn.completed_at.getTime();
    // Locally dispatched turns began at once. Without a start, the board would show decades.
    const hasBegun = turn.state === 'active' || turn.completed_at !== null;
    const begunAt = job?.processedOn ?? (hasBegun ? this.timestamp : undefined);
    if (begunAt !== undefined) this.processedOn = begunAt;
    const reason = turn.error ? `${turn.error.code}: ${turn.error.message}` : job?.failedReason;
    if (reason !== undefined) this.failedReason = reason;
  }

  override async getState() {
    return this.#turn.state;
  }

  /** Set for cards in a tree. */
  override async getDependenciesCount(): Promise<{ processed: number; unprocessed: number }> {
    const { ended_below: processed = 0, open_below: unprocessed = 0 } = this.#turn;
    return { processed, unprocessed };
  }

  override async retry(state?: FinishedStatus): Promise<void> {
    await this.#queued().retry(state);
  }

  override async promote(): Promise<void> {
    await this.#queued().promote();
  }

  override async remove(options?: { removeChildren?: boolean }): Promise<void> {
    await this.#queued().remove(options);
  }

  override async updateData(data: unknown): Promise<void> {
    await this.#queued().updateData(data);
  }

  override async changeDelay(delayMs: number): Promise<void> {
    await this.#queued().changeDelay(delayMs);
  }

  override async changePriority(options: { priority?: number; lifo?: boolean }): Promise<void> {
    await this.#queued().changePriority(options);
  }

  #queued(): Job {
    if (this.#job) return this.#job;
    const { id, run_id: run, state } = this.#turn;
    const ended = state === 'completed' || state === 'failed';
    const instead = ended ? ` POST /v1/runs/${run}/retry repeats a run.` : '';
    throw conflict(`The queue has no job for turn ${id}, which is ${state}.${instead}`);
  }
}

/** How the turn ended, or what it waits for. */
export function outcomeOf(turn: BoardTurn): string {
  const { state, status, suspended, waits_for: waitsFor, stop_reason: stopReason, error } = turn;
  switch (state) {
    case 'active':
      return 'being driven';
    case 'waiting':
      return suspended ? 'suspended' : 'waits for a worker';
    case 'delayed':
      return waitsFor === 'timer' ? 'sleeps' : 'put off';
    case 'waiting-children':
      return `waits for ${(waitsFor ?? 'tool_calls').replaceAll('_', ' ')}`;
    case 'completed':
      return stopReason === null || stopReason === status ? status : `${status} (${stopReason})`;
    case 'failed':
      return error ? `failed (${error.code})` : 'failed';
  }
}

/** The job's own fields, with extra ones to show, so that a copy of them can be sent as a job. */
function dataOf(turn: BoardTurn, job: Job | undefined): Record<string, unknown> {
  return {
    tenantId: turn.tenant_id,
    agent: turn.agent,
    agent_id: turn.agent_id,
    agent_version: turn.agent_version,
    runId: turn.run_id,
    run_status: turn.run_status,
    turnId: turn.id,
    seq: turn.last_seq,
    number: turn.number,
    steps: turn.steps,
    outcome: outcomeOf(turn),
    ...(turn.error && { error: turn.error }),
    queue_job: job?.id ?? null,
  };
}
