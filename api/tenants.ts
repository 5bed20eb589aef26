import { z } from 'zod';
import { forbidden } from '../core/errors.ts';
import { createTenant } from '../modules/tenants/create-tenant.ts';
import { updateTenant } from '../modules/tenants/update-tenant.ts';
import { idempotently } from '../modules/tenants/idempotency.ts';
import { setSuspension } from '../modules/governance/suspend.ts';
import { defineRoute } from './kit/route.ts';
import type { Route } from './kit/route.ts';
import { idParam } from './kit/validate.ts';

const planTier = z.string().min(1).max(100).describe('free, standard, enterprise; another one counts as standard.');
const rate = z.int().min(1).max(1_000_000_000).nullable().optional();
const rateLimits = z.strictObject({
  requests_per_minute: rate,
  key_requests_per_minute: rate,
  chats_per_hour: rate,
  executes_per_minute: rate,
  open_requests: rate,
});
const bytes = z.int().min(0).max(Number.MAX_SAFE_INTEGER).optional();
const settings = z
  .strictObject({
    rate_limits: rateLimits.optional().describe("In place of the tier's figures; null: no limit."),
    files: z
      .strictObject({ file_bytes: bytes, total_bytes: bytes })
      .optional()
      .describe('In place of the usual limits.'),
  })
  .meta({ id: 'TenantSettings' });

const create = defineRoute({
  method: 'post',
  path: '/v1/tenants',
  access: 'operator',
  summary: 'Make a tenant with its first workspace and an admin key, which is shown this once',
  idempotent: true,
  body: z.strictObject({
    name: z.string().trim().min(1).max(200),
    plan_tier: planTier.optional(),
    settings: settings.optional(),
  }),
  responses: {
    201: z.strictObject({
      id: z.uuid(),
      tenant_id: z.uuid(),
      name: z.string(),
      workspace_id: z.uuid(),
      key: z.string().optional().describe('Missing where the answer is a repeated one.'),
    }),
  },
  async handle({ caller, body, context, idempotency }) {
    return idempotently(context, idempotency, async (tx) => {
      const { id, name, workspaceId, key } = await createTenant(tx, caller, body);
      const shown = { id, tenant_id: id, name, workspace_id: workspaceId };
      return { status: 201, body: { ...shown, key }, store: shown };
    });
  },
});

const change = defineRoute({
  method: 'patch',
  path: '/v1/tenants/:id',
  access: 'admin',
  summary:
    'Suspend a tenant or lift that (its own admin, or the operator, whose suspension only the operator lifts); set its tier and rates (the operator)',
  params: z.strictObject({ id: idParam }),
  body: z
    .strictObject({ suspended: z.boolean().optional(), plan_tier: planTier.optional(), settings: settings.optional() })
    .refine((body) => Object.values(body).some((value) => value !== undefined), 'names nothing to change'),
  responses: {
    200: z.strictObject({
      id: z.uuid(),
      tenant_id: z.uuid(),
      suspended: z.boolean(),
      plan_tier: z.string(),
      settings,
    }),
  },
  async handle({ caller, params: { id }, body: { suspended, ...others }, context, app }) {
    if (caller.boundWorkspaceId !== undefined) throw forbidden('This key is bound to a workspace.');
    // First the part that may be refused: only the operator changes the rest, and the operator's suspension is never
    // refused.
    const changed = await updateTenant(context.db, caller, { id, ...others });
    if (suspended !== undefined) await setSuspension(context, caller, { kind: 'tenant', id, suspended });
    const now = suspended === undefined ? changed : { ...changed, suspended };
    app.authenticator.forgetTenant(id);
    const { rate_limits } = now.settings;
    const shown = { suspended: now.suspended, plan_tier: now.plan_tier, settings: rate_limits ? { rate_limits } : {} };
    return { status: 200, body: { id, tenant_id: id, ...shown } };
  },
});

export const TENANT_ROUTES: readonly Route[] = [create, change];
