/** Objectives: work to do, in a versioned envelope. */
import { z } from 'zod';
import { forbidden, impossible } from '../core/errors.ts';
import { runConfig } from '../core/run-config.ts';
import { hasScope } from '../core/scopes.ts';
import { requireWorkspace } from '../modules/tenants/workspaces.ts';
import type { Context } from '../modules/governance/context.ts';
import type { Caller } from '../core/caller.ts';
import { startObjective } from '../modules/runs/start-objective.ts';
import { afterHandoff } from '../modules/sessions/after-handoff.ts';
import { startTeamObjective } from '../modules/workflows/start-team-objective.ts';
import { agentIdParam, newThreadParam, threadOf } from './kit/external-ids.ts';
import { defineRoute, type Route } from './kit/route.ts';
import { idParam } from './kit/validate.ts';

const data = z.union([z.record(z.string(), z.unknown()), z.array(z.unknown()), z.string()]);

/** The constraints that Drover enforces; the others are for the agent. */
const binding = runConfig.pick({ max_turns: true, autonomy_level: true }).loose();

const objectiveRequest = z
  .strictObject({
    schema_version: z.string().max(50).describe('"v1"'),
    request_id: z.string().min(1).max(255),
    workspace_id: idParam.optional(),
    agent_id: agentIdParam.optional().describe('Either this or `team_id`.'),
    team_id: idParam.optional().describe('A team, which does it as a workflow.'),
    thread_id: newThreadParam.nullish(),
    objective_prompt: z.string().min(1),
    context: data.optional(),
    constraints: z.union([binding, z.array(z.unknown()), z.string()]).optional(),
    budget: runConfig.shape.budget,
  })
  .superRefine(({ agent_id, team_id, constraints }, refinement) => {
    const say = (field: string, message: string) => refinement.addIssue({ code: 'custom', path: [field], message });
    if (team_id === undefined) {
      if (agent_id === undefined) say('agent_id', 'is required, or team_id');
      return;
    }
    if (agent_id !== undefined) say('team_id', 'cannot go with agent_id');
    const { max_turns, autonomy_level } = binding.safeParse(constraints).data ?? {};
    if (max_turns !== undefined || autonomy_level !== undefined) {
      say('constraints', 'of a team have no max_turns or autonomy_level: those of its agents hold');
    }
  })
  .meta({ id: 'ObjectiveRequestV1' });

const start = defineRoute({
  method: 'post',
  path: '/v1/objectives',
  access: 'runs:write',
  summary: 'Start a run for an objective; the same request_id starts it once',
  idempotent: true,
  body: objectiveRequest,
  responses: { 202: z.strictObject({ request_id: z.string(), run_id: z.uuid() }) },
  async handle({ caller, body, context, ctx, idempotency }) {
    checkVersion(body);
    const workspaceId = await workspaceOf(context, caller, body.workspace_id);
    const { traceparent } = ctx.state;
    const { agent_id: agentId, team_id: teamId } = body;
    const objective = {
      requestId: body.request_id,
      prompt: body.objective_prompt,
      context: body.context,
      constraints: body.constraints,
      ...threadOf(body.thread_id),
    };
    const answer = await afterHandoff(context, caller.tenantId, () =>
      teamId
        ? startTeamObjective(context, {
            caller: { ...caller, workspaceId },
            objective: { ...objective, teamId },
            budget: body.budget,
            traceparent,
            idempotency,
          })
        : startObjective(context, {
            tenantId: caller.tenantId,
            workspaceId,
            objective: { ...objective, agentId: agentId ?? '' },
            config: configOf(body),
            mayRaiseAutonomy: hasScope(caller.scopes, 'approvals:write'),
            requestedBy: caller.keyId,
            traceparent,
            idempotency,
          }),
    );
    return { ...answer, headers: { location: `/v1/runs/${answer.body.run_id}` } };
  },
});

type Body = z.output<typeof objectiveRequest>;

/** Throws 422 for an unknown version of the envelope. */
function checkVersion({ schema_version: version }: Body): void {
  const [path, message] = ['body.schema_version', 'must be "v1"'];
  if (version !== 'v1') throw impossible(`${path} ${message}.`, [{ path, message }]);
}

function configOf({ constraints, budget }: Body) {
  const { max_turns, autonomy_level } = binding.safeParse(constraints).data ?? {};
  return { max_turns, autonomy_level, budget };
}

/** As for `X-Workspace-Id`: 403 if the key is bound to another one, 404 if it does not exist. */
async function workspaceOf(context: Context, caller: Caller, named: string | undefined): Promise<string> {
  if (named === undefined || named === caller.workspaceId) return caller.workspaceId;
  if (caller.boundWorkspaceId !== undefined) throw forbidden('This key is bound to another workspace.');
  await requireWorkspace(context.db, { tenantId: caller.tenantId, id: named }, 'The workspace');
  return named;
}

export const OBJECTIVE_ROUTES: readonly Route[] = [start];
