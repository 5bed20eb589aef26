/** Teams: agents that work together, and their pattern. */
import { z } from 'zod';
import { hasScope } from '../core/scopes.ts';
import { composeTeamFor } from '../modules/agents/discover-agents.ts';
import { PATTERNS, readTeams, type TeamRow } from '../modules/agents/read-teams.ts';
import { changeTeam, createTeam, removeTeam, requireTeam } from '../modules/agents/write-team.ts';
import { idempotently } from '../modules/tenants/idempotency.ts';
import { agentIdParam } from './kit/external-ids.ts';
import { nextOf, pageFields, pageQuery } from './kit/paging.ts';
import { defineRoute, type Route } from './kit/route.ts';
import { substitutes } from './kit/substitutes.ts';
import { idParam } from './kit/validate.ts';

const member = z.strictObject({
  agent_id: agentIdParam,
  role: z.string().min(1).max(100).default('worker'),
  priority: z.int().min(0).max(1_000_000).default(0).describe('In sequential teams the lowest comes first.'),
});

const fields = {
  name: z.string().trim().min(1).max(100),
  orchestration_pattern: z.enum(PATTERNS),
  supervisor_agent_id: agentIdParam.nullable(),
  config: z.record(z.string(), z.unknown()),
  members: z.array(member).max(100),
};

const createBody = z.strictObject({
  ...fields,
  orchestration_pattern: fields.orchestration_pattern.default('hierarchical'),
  supervisor_agent_id: fields.supervisor_agent_id.default(null),
  config: fields.config.default({}),
  members: fields.members.default([]),
});

const when = z.iso.datetime();
const team = z
  .strictObject({
    id: z.uuid(),
    team_id: z.uuid(),
    workspace_id: z.uuid(),
    ...fields,
    supervisor_agent_id: z.uuid().nullable(),
    members: z.array(member.extend({ agent_id: z.uuid() })),
    created_at: when,
    updated_at: when,
  })
  .meta({ id: 'Team' });

function present(row: TeamRow): z.input<typeof team> {
  return {
    ...row,
    team_id: row.id,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

const idOnly = z.strictObject({ id: idParam });

const create = defineRoute({
  method: 'post',
  path: '/v1/teams',
  access: 'agents:write',
  summary: 'Make a team',
  idempotent: true,
  body: createBody,
  responses: { 201: team },
  async handle({ caller, body, context, idempotency }) {
    const answer = await idempotently(context, idempotency, async (tx) => ({
      status: 201,
      body: present(await createTeam(tx, caller, body)),
    }));
    return { ...answer, headers: { location: `/v1/teams/${answer.body.id}` } };
  },
});

const list = defineRoute({
  method: 'get',
  path: '/v1/teams',
  access: 'agents:read',
  summary: 'List the teams of the workspace, newest first',
  query: pageQuery(),
  responses: { 200: pageFields('teams', team) },
  async handle({ caller, query: { limit, cursor: before }, context }) {
    const { rows, more } = await context.db.withTenant(caller.tenantId, (tx) =>
      readTeams(tx, caller, { before, limit }),
    );
    return { status: 200, body: { teams: rows.map(present), ...nextOf(rows, more, ({ id }) => id) } };
  },
});

const get = defineRoute({
  method: 'get',
  path: '/v1/teams/:id',
  access: 'agents:read',
  summary: 'Get a team',
  params: idOnly,
  responses: { 200: team },
  async handle({ caller, params, context }) {
    const row = await context.db.withTenant(caller.tenantId, (tx) => requireTeam(tx, caller, params.id));
    return { status: 200, body: present(row) };
  },
});

const change = defineRoute({
  method: 'patch',
  path: '/v1/teams/:id',
  access: 'agents:write',
  summary: 'Change a team; `members` replaces all of them; 204 for a key that may not read it',
  params: idOnly,
  body: z.strictObject(fields).partial(),
  responses: { 200: team, 204: 'empty' },
  async handle({ caller, params, body: patch, context }) {
    const given = Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined));
    const row = await context.db.withTenant(caller.tenantId, (tx) =>
      changeTeam(tx, caller, { id: params.id, patch: given }),
    );
    return hasScope(caller.scopes, 'agents:read') ? { status: 200, body: present(row) } : { status: 204 };
  },
});

const remove = defineRoute({
  method: 'delete',
  path: '/v1/teams/:id',
  access: 'agents:write',
  summary: 'Delete a team; its agents stay',
  params: idOnly,
  responses: { 204: 'empty' },
  async handle({ caller, params, context }) {
    await context.db.withTenant(caller.tenantId, (tx) => removeTeam(tx, caller, params.id));
    return { status: 204 };
  },
});

const names = z.array(z.string().min(1).max(200)).max(100);
const weight = z.number().min(0).max(100);

const compose = defineRoute({
  method: 'post',
  path: '/v1/teams/compose',
  access: 'agents:read',
  summary: 'Find agents for the roles of a task',
  body: z.strictObject({
    task: z.strictObject({
      required_roles: z
        .array(
          z.strictObject({
            name: z.string().min(1).max(100),
            requirements: z
              .strictObject({
                required_capabilities: names.optional(),
                preferred_agents: names.optional(),
                excluded_agents: names.optional(),
                max_cost_tokens: z.number().positive().optional(),
                max_cost: z.number().positive().optional().describe('Another name of `max_cost_tokens`.'),
              })
              .optional(),
            required: z.boolean().default(true),
            complexity_multiplier: z.number().positive().max(1000).default(1),
          }),
        )
        .min(1)
        .max(50),
      orchestration_pattern: z.enum(PATTERNS).default('hierarchical'),
      max_team_size: z.int().min(1).max(100).default(10),
      budget: z.number().min(0).default(Number.MAX_SAFE_INTEGER).describe('Tokens for all of them.'),
    }),
    constraints: z
      .strictObject({
        diversity_weight: weight.default(0.2),
        cost_weight: weight.default(0.3),
        quality_weight: weight.default(0.5),
      })
      .prefault({}),
  }),
  responses: {
    200: z.strictObject({
      team: z.array(
        z.strictObject({
          role: z.string(),
          agent_id: z.uuid(),
          expected_cost: z.number(),
          substitutes: substitutes.optional(),
        }),
      ),
    }),
  },
  async handle({ caller, body: { task, constraints: weights }, context }) {
    const roles = task.required_roles.map(({ requirements: { max_cost, ...known } = {}, ...role }) => ({
      ...role,
      requirements: { max_cost_tokens: max_cost, ...known },
    }));
    const composed = await composeTeamFor(context, caller, { task: { ...task, required_roles: roles }, weights });
    return { status: 200, body: { team: composed } };
  },
});

export const TEAM_ROUTES: readonly Route[] = [compose, create, list, get, change, remove];
