/** The audit log: who did what, when, from where. */
import { z } from 'zod';
import { AUDIT_ACTORS } from '../core/audit.ts';
import { LIMITS } from '../core/limits.ts';
import { readAudit, type AuditRow } from '../modules/audit/read-audit.ts';
import { verifyAudit } from '../modules/audit/verify-audit.ts';
import { integerParam, pageFields, pageOf, pageQuery } from './kit/paging.ts';
import { defineRoute, type Route } from './kit/route.ts';
import { idParam, timeTextParam } from './kit/validate.ts';

const entry = z
  .strictObject({
    id: z.uuid(),
    action: z.string(),
    actor: z.strictObject({ type: z.enum(AUDIT_ACTORS), id: z.uuid().nullable() }),
    target: z.strictObject({ type: z.string(), id: z.string().nullable() }),
    workspace_id: z.uuid().nullable(),
    digest: z.string().nullable().describe('SHA-256 of what was decided on.'),
    details: z.record(z.string(), z.unknown()),
    ip: z.string().nullable().describe('The address that the request came from.'),
    forwarded_for: z.string().nullable().describe('What a proxy said of where it came from; anybody can claim it.'),
    request_id: z.string().nullable(),
    created_at: z.iso.datetime(),
    seq: z.int().nullable().describe('Its place in the chain; null until it is sealed, seconds later.'),
    hash: z.string().nullable(),
  })
  .meta({ id: 'AuditEntry' });

function present(row: AuditRow): z.input<typeof entry> {
  const { tenant_id: _tenant, actor_type, actor_id, target_type, target_id, ...rest } = row;
  const actor = { type: actor_type as z.input<typeof entry>['actor']['type'], id: actor_id };
  return { ...rest, actor, target: { type: target_type, id: target_id } };
}

const list = defineRoute({
  method: 'get',
  path: '/v1/audit',
  access: 'admin',
  summary: 'List what was done, newest first',
  query: pageQuery().extend({
    action: z.string().max(100).optional(),
    actor: z
      .union([z.enum(AUDIT_ACTORS), idParam])
      .optional()
      .describe("A key's id, or a kind of actor."),
    target: z.string().max(200).optional().describe('The id or name of what it was done to.'),
    created_after: timeTextParam.optional(),
    created_before: timeTextParam.optional(),
  }),
  responses: { 200: pageFields('audit', entry) },
  async handle({ caller, query, context }) {
    const { limit, cursor: before, actor, action, target: targetId } = query;
    const isKind = AUDIT_ACTORS.some((kind) => kind === actor);
    const rows = await context.db.withTenant(caller.tenantId, (tx) =>
      readAudit(tx, {
        workspaceId: caller.boundWorkspaceId,
        action,
        targetId,
        ...(isKind ? { actorType: actor } : { actorId: actor }),
        createdAfter: query.created_after,
        createdBefore: query.created_before,
        before,
        limit: limit + 1,
      }),
    );
    const { items, ...page } = pageOf(rows, limit, (row) => row.id);
    return { status: 200, body: { audit: items.map(present), ...page } };
  },
});

const verify = defineRoute({
  method: 'get',
  path: '/v1/audit/verify',
  access: 'admin',
  summary: 'Walk a piece of the chain, and name its first broken link',
  query: z.strictObject({
    after: integerParam({ min: 0, max: 999_999_999 }).optional().describe('`next` of the piece before.'),
  }),
  responses: {
    200: z.strictObject({
      ok: z.boolean(),
      checked: z.int(),
      broken: z
        .strictObject({
          seq: z.int(),
          id: z.uuid().nullable(),
          reason: z.enum(['missing', 'altered', 'not the head']),
        })
        .nullable(),
      from: z.strictObject({ seq: z.int(), hash: z.string() }).describe('The link that this piece begins after.'),
      head: z.strictObject({ seq: z.int(), hash: z.string() }).describe('The last link that holds.'),
      next: z.int().nullable().describe('Where the next piece begins; null at the end.'),
      unsealed: z.strictObject({ count: z.int(), oldest: z.iso.datetime().nullable() }),
    }),
  },
  async handle({ caller, query, context }) {
    const page = { after: query.after ?? 0, limit: LIMITS.auditVerifyRows };
    const verdict = await context.db.withTenant(caller.tenantId, (tx) => verifyAudit(tx, page));
    const { count, oldest } = verdict.unsealed;
    const unsealed = { count, oldest: oldest?.toISOString() ?? null };
    return { status: 200, body: { ok: verdict.broken === null, ...verdict, unsealed } };
  },
});

export const AUDIT_ROUTES: readonly Route[] = [verify, list];
