/** Shared memory in the API's form. */
import { z } from 'zod';
import type { Caller } from '../../core/caller.ts';
import { LIMITS } from '../../core/limits.ts';
import { bytesOf } from '../../core/tool-output.ts';
import { CONFLICT_CHECKS } from '../../core/memory/entry.ts';
import { hasScope } from '../../core/scopes.ts';
import type { FragmentRow, SpaceRow } from '../../modules/memory/spaces.ts';

export const visibility = z.enum(['private', 'team', 'workflow', 'global']);
export const name = z.string().min(1).max(200);
const agents = z.array(name).max(1000);
const stamp = z.iso.datetime().nullable();

export const space = z
  .object({
    id: z.uuid(),
    space_id: z.uuid(),
    name: z.string().nullable(),
    team_id: z.string().nullable(),
    workflow_id: z.string().nullable(),
    scope: visibility,
    allowed_agents: agents,
    denied_agents: agents,
    max_fragments: z.int().nullable(),
    retention_policy: z.string().nullable(),
    conflict_check: z.enum(CONFLICT_CHECKS),
    created_at: z.iso.datetime(),
  })
  .meta({ id: 'MemorySpace' });

const TOO_LARGE = { message: `is longer than ${LIMITS.fragmentBytes} bytes` };

const content = z.strictObject({
  type: z.enum(['text', 'structured', 'embedding']).default('text'),
  data: z.unknown().refine((value) => bytesOf(value ?? null) <= LIMITS.fragmentBytes, TOO_LARGE),
  embedding: z.array(z.number()).max(4000).optional(),
});

export const anyContent = z
  .union([
    content,
    z
      .string()
      .min(1)
      .max(LIMITS.fragmentBytes)
      .refine((text) => bytesOf(text) <= LIMITS.fragmentBytes, TOO_LARGE),
  ])
  .transform((given) =>
    typeof given === 'string'
      ? { type: 'text' as const, data: given, embedding: undefined }
      : { ...given, embedding: given.embedding },
  );

export const fragment = z
  .object({
    id: z.uuid(),
    fragment_id: z.uuid(),
    space_id: z.uuid(),
    content: z.looseObject({ type: z.string() }),
    version: z.int(),
    visibility,
    allowed_agents: agents,
    denied_agents: agents,
    provenance: z.record(z.string(), z.unknown()),
    requires_resolution: z.boolean(),
    retention_policy: z.string().nullable(),
    expires_at: stamp,
    last_accessed: stamp.describe('When it was last found, or given to a run.'),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: 'MemoryFragment' });

export function presentSpace(row: SpaceRow): z.input<typeof space> {
  const { workspace_id: _workspace, is_of_team: _team, created_at: at, ...rest } = row;
  return { ...rest, space_id: row.id, created_at: at.toISOString() };
}

export function presentFragment(row: FragmentRow): z.input<typeof fragment> {
  return {
    id: row.id,
    fragment_id: row.id,
    space_id: row.space_id,
    content: { ...row.content },
    version: row.version,
    visibility: row.visibility,
    allowed_agents: row.allowed_agents,
    denied_agents: row.denied_agents,
    provenance: row.provenance,
    requires_resolution: row.requires_resolution,
    retention_policy: row.retention_policy,
    expires_at: row.expires_at?.toISOString() ?? null,
    last_accessed: row.last_accessed?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

/** For a caller that has written it: without content that may be others', if the caller may not read that. */
export function presentFragmentTo({ scopes }: Caller, shown: z.input<typeof fragment>): z.input<typeof fragment> {
  if (shown.version === 1 || hasScope(scopes, 'memory:read')) return shown;
  return { ...shown, content: { type: shown.content.type }, provenance: {}, allowed_agents: [], denied_agents: [] };
}
