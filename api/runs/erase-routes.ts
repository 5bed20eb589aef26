/** Erasure of runs and threads: content goes; ids, times and costs stay. */
import { z } from 'zod';
import { eraseRun, eraseThread } from '../../modules/runs/erase-run.ts';
import { readRun, readRunRef } from '../../modules/runs/read-runs.ts';
import { threadPathParam } from '../kit/external-ids.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { defineRunRoutes, runParams } from './run-access.ts';
import { presentRun, run } from './schemas.ts';

const query = z.strictObject({
  dependents: z
    .enum(['true', 'false'])
    .optional()
    .describe('Erases the forks and later runs that stand on the messages, too; else they are 409 `has_dependents`.'),
});

const erase = defineRunRoutes({
  method: 'delete',
  path: '',
  access: 'admin',
  summary: 'Erase a run, cancelled first if it has not ended: 202, and 200 when it was erased already',
  params: runParams,
  query,
  responses: { 200: run, 202: run },
  async handle({ caller, params, query: { dependents }, context, app }) {
    await readRunRef(context, caller, params);
    const isNew = await eraseRun(context, caller, { id: params.run, dependents: dependents === 'true' });
    const row = await readRun(context, caller, params);
    await app.liveSessions.erase({ caller, sessionId: row.thread_id });
    return { status: isNew ? 202 : 200, body: presentRun(row) };
  },
});

const erasedThread = z
  .strictObject({ id: z.uuid(), thread_id: z.uuid(), erased_at: z.iso.datetime() })
  .meta({ id: 'ErasedThread' });

const eraseOfThread = defineRoute({
  method: 'delete',
  path: '/v1/threads/:thread',
  access: 'admin',
  summary: 'Erase a thread with all its runs: 202, and 200 when it was erased already',
  params: z.strictObject({ thread: threadPathParam }),
  query,
  responses: { 200: erasedThread, 202: erasedThread },
  async handle({ caller, params: { thread: id }, query: { dependents }, context, app }) {
    const { isNew, erasedAt } = await eraseThread(context, caller, { id, dependents: dependents === 'true' });
    await app.liveSessions.erase({ caller, sessionId: id });
    return { status: isNew ? 202 : 200, body: { id, thread_id: id, erased_at: erasedAt.toISOString() } };
  },
});

export const ERASE_ROUTES: readonly Route[] = [...erase, eraseOfThread];
