/** A2A's `ListTasks`: an agent's runs, latest change first. */
import { TaskState, type ListTasksRequest, type ListTasksResponse } from '@a2a-js/sdk';
import { z } from 'zod';
import { badRequest, forbidden } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { RUN_STATUSES, isTerminal, type RunStatus } from '../../core/events.ts';
import { hasScope } from '../../core/scopes.ts';
import { changedAt, countRunsOf, readLastTurns, readRunsByChange } from '../../modules/runs/read-runs.ts';
import { listHandedOn } from '../../modules/workflows/read-handoffs.ts';
import { timeTextParam } from '../kit/validate.ts';
import type { A2aRequest } from './request.ts';
import { taskOf } from './task.ts';

const PAGE = 50;
const LARGEST_PAGE = 100;
/** Turns to read for a task's history or answer. */
const TURNS = 10;

/** Run statuses to query for a task state; a missing state has no runs. */
const STATUSES: Partial<Record<TaskState, readonly RunStatus[]>> = {
  [TaskState.TASK_STATE_COMPLETED]: ['completed'],
  [TaskState.TASK_STATE_FAILED]: ['failed'],
  [TaskState.TASK_STATE_CANCELED]: ['cancelled'],
  [TaskState.TASK_STATE_INPUT_REQUIRED]: ['awaiting_human', 'awaiting_tool'],
  [TaskState.TASK_STATE_WORKING]: RUN_STATUSES.filter((status) => !isTerminal(status)),
};

/** A page, optionally of one context. Throws 400 for an invalid page, 403 without the scope `runs:read`. */
export async function listTasks(request: A2aRequest, params: ListTasksRequest): Promise<ListTasksResponse> {
  const { context, caller, agent } = request;
  if (!hasScope(caller.scopes, 'runs:read')) throw forbidden('Listing tasks needs the scope runs:read.');
  const { before, limit, threadId, since } = pageOf(params);
  if (params.status === TaskState.UNRECOGNIZED) throw badRequest('The status is no state of a task.');
  const isAny = params.status === TaskState.TASK_STATE_UNSPECIFIED;
  const status = isAny ? undefined : [...(STATUSES[params.status] ?? [])];
  const empty = { tasks: [], nextPageToken: '', pageSize: limit, totalSize: 0 };
  if (status?.length === 0) return empty;
  const filter = { threadId, status, changedSince: since };
  return context.db.withTenant(caller.tenantId, async (tx) => {
    const rows = await readRunsByChange(tx, agent.id, { ...filter, before, limit: limit + 1 });
    const next = await listHandedOn(
      tx,
      rows.map(({ id }) => id),
    );
    const tasks = [];
    let [looked, bytes] = [0, 0];
    // A large page ends before its limit.
    for (const row of rows.slice(0, limit)) {
      const turns = await readLastTurns(tx, row, TURNS);
      bytes += turns.reduce((sum, turn) => sum + turn.bytes, 0);
      if (looked > 0 && bytes > LIMITS.eventsPageBytes) break;
      looked += 1;
      const task = taskOf(row, turns, next.get(row.id));
      // What a run waits for tells working from input required.
      if (!isAny && task.status?.state !== params.status) continue;
      const history = params.historyLength ? task.history.slice(-params.historyLength) : [];
      tasks.push({ ...task, history, artifacts: params.includeArtifacts ? task.artifacts : [] });
    }
    const last = rows.length > looked ? rows[looked - 1] : undefined;
    const nextPageToken = last ? `${changedAt(last)} ${last.id}` : '';
    return { tasks, nextPageToken, pageSize: limit, totalSize: await countRunsOf(tx, agent.id, filter) };
  });
}

const uuid = z.uuid().toLowerCase();
const position = z.tuple([z.iso.datetime(), uuid]);

function pageOf({ pageToken, pageSize = PAGE, contextId, statusTimestampAfter }: ListTasksRequest) {
  if (!Number.isInteger(pageSize) || pageSize < 1 || pageSize > LARGEST_PAGE) {
    throw badRequest(`A page has from 1 to ${LARGEST_PAGE} tasks.`);
  }
  const before = pageToken === '' ? undefined : position.safeParse(pageToken.split(' ')).data;
  if (pageToken !== '' && before === undefined) throw badRequest('A pageToken is one that a page has ended with.');
  const threadId = contextId === '' ? undefined : uuid.safeParse(contextId).data;
  if (contextId !== '' && threadId === undefined) throw badRequest('A contextId is one that a task has had.');
  const since = statusTimestampAfter ? timeTextParam.safeParse(statusTimestampAfter).data : undefined;
  if (statusTimestampAfter && since === undefined) throw badRequest('statusTimestampAfter is a time as of RFC 3339.');
  return { before: before && { at: before[0], id: before[1] }, limit: pageSize, threadId, since };
}
