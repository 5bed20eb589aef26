/** Tools for existing runs. */
import { z } from 'zod';
import { RUN_STATUSES } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import { decideApproval } from '../../modules/approvals/decide-approval.ts';
import { readRuns } from '../../modules/runs/read-runs.ts';
import { cursorParam, nextOf } from '../kit/paging.ts';
import { idParam } from '../kit/validate.ts';
import { decisionBody, toDecision } from '../runs/decision-schema.ts';
import { presentRun } from '../runs/schemas.ts';
import { unlessCancelled } from './cancelled-calls.ts';
import { awaitRun } from './run-tools.ts';
import { answer, defineTool, type McpTool } from './tool-kind.ts';

const MOST_RUNS = 50;

export const READ_TOOLS: readonly McpTool[] = [
  defineTool({
    name: 'list_runs',
    description: 'Lists runs, newest first, with their status and what they wait for.',
    scope: 'runs:read',
    input: z.strictObject({
      status: z.enum(RUN_STATUSES).optional(),
      agent_id: idParam.optional(),
      thread_id: idParam.optional(),
      limit: z.int().min(1).max(MOST_RUNS).optional(),
      cursor: cursorParam().optional(),
    }),
    async call({ context, caller }, { status, agent_id: agentId, thread_id: threadId, limit = 20, cursor: before }) {
      const filter = { status: status && [status], agentId, threadId, before, limit };
      const { rows, more } = await context.db.withTenant(caller.tenantId, (tx) => readRuns(tx, caller, filter));
      const runs = rows.map((row) => presentRun(row));
      return answer(JSON.stringify(runs), { runs, ...nextOf(rows, more, (row) => row.id) });
    },
  }),
  defineTool({
    name: 'get_run',
    description: 'Tells how a run is, what it waits for, and what its last turn has answered.',
    scope: 'runs:read',
    input: z.strictObject({
      run_id: idParam,
      wait_seconds: z
        .int()
        .min(0)
        .max(LIMITS.mcpWaitSeconds)
        .optional()
        .describe('Waits for its end so long; 0 if left out.'),
    }),
    call: (call, { run_id: run, wait_seconds: waitSeconds = 0 }) =>
      waitSeconds === 0
        ? awaitRun(call, { run }, 0)
        : unlessCancelled(call, (gone) => awaitRun({ ...call, gone }, { run }, waitSeconds)),
  }),
  defineTool({
    name: 'decide_approval',
    description:
      'Decides on what a run waits for a person to approve. Ask the person first: the decision is theirs, and is recorded.',
    scope: 'approvals:write',
    input: decisionBody.extend({ approval_id: idParam }),
    async call({ context, caller }, { approval_id: id, ...decision }) {
      const ref = { tenantId: caller.tenantId, id, workspaceId: caller.workspaceId, by: caller };
      const { run_id, status } = await decideApproval(context, ref, toDecision(decision, 'arguments'));
      return answer(`The approval is ${status}.`, { approval_id: id, run_id, status });
    },
  }),
];
