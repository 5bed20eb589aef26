import { z } from 'zod';
import { AGENT_STATUSES } from '../../core/agent-lifecycle.ts';
import { BUILTIN_PLANNER } from '../../core/builtin-planner.ts';
import type { Caller } from '../../core/caller.ts';
import { workflowGraph } from '../../core/graph/definition.ts';
import { agentDefinition } from '../../core/definition.ts';
import { fixedId } from '../../core/ids.ts';
import { hasScope } from '../../core/scopes.ts';
import { externalId } from '../../core/user-metadata.ts';
import type { AgentRow, AgentVersionRow } from '../../modules/agents/read-agents.ts';

const { name, version, ...others } = agentDefinition.shape;

const named = externalId.describe(
  "The client's own name for it, unique in the workspace: `ext:<external_id>` stands for its id.",
);

const suspended = z.boolean().describe('Runs wait where they stand until this is lifted; no version is published.');

/** The fields of a definition; null removes one. */
export const agentPatch = z
  .strictObject({
    name: name.optional(),
    version,
    ...mapNullable(others),
    external_id: named.nullable().optional(),
    suspended: suspended.optional(),
  })
  .meta({ id: 'AgentPatch', description: 'A field that is null is taken away; one that is absent stays.' });

/** A definition with the client's own name. */
export const agentRequest = z
  .strictObject({ ...agentDefinition.shape, external_id: named.optional() })
  .meta({ id: 'AgentRequest' });

const time = z.iso.datetime();

export const createdAgent = z
  .strictObject({
    id: z.uuid(),
    agent_id: z.uuid(),
    name: z.string(),
    version: z.string(),
    status: z.string(),
    created_at: time,
  })
  .meta({ id: 'CreatedAgent' });

export const agent = z
  .strictObject({
    ...agentDefinition.shape,
    id: z.uuid(),
    agent_id: z.uuid(),
    external_id: externalId.optional(),
    version: z.string(),
    status: z.enum(AGENT_STATUSES),
    suspended,
    workspace_id: z.uuid(),
    created_at: time,
    updated_at: time,
  })
  .meta({ id: 'Agent' });

/** As for an agent, without what belongs to its registration. */
export const builtinAgent = z
  .strictObject({
    ...agentDefinition.shape,
    id: z.uuid(),
    agent_id: z.uuid(),
    version: z.string(),
    status: z.literal('active'),
    is_builtin: z.literal(true),
  })
  .meta({ id: 'BuiltinAgent' });

export const agentVersion = z
  .strictObject({
    ...agentDefinition.shape,
    id: z.uuid().describe('Follows from `agent_id` and `version`, which name it in addresses.'),
    agent_id: z.uuid(),
    version: z.string(),
    created_at: time,
  })
  .meta({ id: 'AgentVersion' });

/** A version's graph. */
export const agentGraph = z
  .strictObject({ ...workflowGraph.shape, agent_id: z.uuid(), version: z.string() })
  .meta({ id: 'AgentGraph' });

/** The answer to a registration. */
export function presentCreated(row: AgentRow): z.input<typeof createdAgent> {
  return {
    id: row.id,
    agent_id: row.id,
    name: row.name,
    version: row.current_version,
    status: row.status,
    created_at: row.created_at.toISOString(),
  };
}

/** An agent with its definition as sent. */
export function presentAgent(row: AgentRow): z.input<typeof agent> {
  return {
    ...row.definition,
    id: row.id,
    agent_id: row.id,
    ...(row.external_id === null ? {} : { external_id: row.external_id }),
    version: row.current_version,
    status: row.status,
    suspended: row.suspended,
    workspace_id: row.workspace_id,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

/** The agent of workflows that name none. */
export function presentBuiltinPlanner(): z.input<typeof builtinAgent> {
  const { id, version: of, definition } = BUILTIN_PLANNER;
  const description = 'Plans workflows that name no agent, and checks what came of them. It is built in.';
  return { ...definition, description, id, agent_id: id, version: of, status: 'active', is_builtin: true };
}

/** For a caller that has changed it: the answer to a registration, if the caller may not read the rest. */
export function presentAgentTo({ scopes }: Caller, row: AgentRow): z.input<typeof agent | typeof createdAgent> {
  return hasScope(scopes, 'agents:read') ? presentAgent(row) : presentCreated(row);
}

export function presentVersion(row: AgentVersionRow): z.input<typeof agentVersion> {
  const { definition, agent_id, version: of } = row;
  const id = fixedId(`version of agent ${agent_id}: ${of}`);
  return { ...definition, id, agent_id, version: of, created_at: row.created_at.toISOString() };
}

type Nullable<S extends Record<string, z.ZodType>> = { [K in keyof S]: z.ZodOptional<z.ZodNullable<S[K]>> };

function mapNullable<S extends Record<string, z.ZodType>>(shape: S): Nullable<S> {
  const entries = Object.entries(shape).map(([key, field]) => [key, field.nullable().optional()]);
  return Object.fromEntries(entries) as Nullable<S>;
}
