import { z } from 'zod';
import { forbidden } from '../core/errors.ts';
import { createTenant } from '../modules/tenants/create-tenant.ts';
import { readTenants, requireTenant, type TenantRow } from '../modules/tenants/read-tenants.ts';
import { updateTenant } from '../modules/tenants/update-tenant.ts';
import { idempotently } from '../modules/tenants/idempotency.ts';
import { setSuspension } from '../modules/governance/suspend.ts';
import { pageFields, pageOf, pageQuery } from './kit/paging.ts';
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
const files = z.strictObject({ file_bytes: bytes, total_bytes: bytes });
const settings = z
  .strictObject({
    rate_limits: rateLimits.optional().describe("In place of the tier's figures; null: no limit."),
    files: files.optional().describe('In place of the usual limits.'),
  })
  .meta({ id: 'TenantSettings' });
const settingsChange = z
  .strictObject({
    rate_limits: rateLimits.nullish().describe("In place of the present ones; null: the tier's figures."),
    files: files.nullish().describe('In place of the present ones; null: the usual limits.'),
  })
  .describe('What is not named stays.')
  .meta({ id: 'TenantSettingsChange' });

const tenant = z
  .strictObject({
    id: z.uuid(),
    tenant_id: z.uuid(),
    name: z.string(),
    suspended: z.boolean(),
    plan_tier: z.string(),
    settings,
    created_at: z.iso.datetime(),
  })
  .meta({ id: 'Tenant' });

function present(row: TenantRow): z.input<typeof tenant> {
  const { id, name, suspended, plan_tier, created_at } = row;
  const { rate_limits, files: ofFiles } = row.settings;
  const shown = { ...(rate_limits && { rate_limits }), ...(ofFiles && { files: ofFiles }) };
  return { id, tenant_id: id, name, suspended, plan_tier, settings: shown, created_at: created_at.toISOString() };
}

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
    .strictObject({
      suspended: z.boolean().optional(),
      plan_tier: planTier.optional(),
      settings: settingsChange.optional(),
    })
    .refine((body) => Object.values(body).some((value) => value !== undefined), 'names nothing to change'),
  responses: { 200: tenant },
  async handle({ caller, params: { id }, body: { suspended, ...others }, context, app }) {
    if (caller.boundWorkspaceId !== undefined) throw forbidden('This key is bound to a workspace.');
    // First the part that may be refused: only the operator changes the rest, and the operator's suspension is never
    // refused.
    const changed = await updateTenant(context.db, caller, { id, ...others });
    if (suspended !== undefined) await setSuspension(context, caller, { kind: 'tenant', id, suspended });
    const now = suspended === undefined ? changed : { ...changed, suspended };
    app.authenticator.forgetTenant(id);
    return { status: 200, body: present(now) };
  },
});

const get = defineRoute({
  method: 'get',
  path: '/v1/tenants/:id',
  access: 'admin',
  tenantWide: true,
  summary: 'Get a tenant with its tier and settings (its own admin, or the operator)',
  params: z.strictObject({ id: idParam }),
  responses: { 200: tenant },
  async handle({ caller, params: { id }, context }) {
    return { status: 200, body: present(await requireTenant(context.db, caller, id)) };
  },
});

const list = defineRoute({
  method: 'get',
  path: '/v1/tenants',
  access: 'admin',
  tenantWide: true,
  summary: 'List tenants, the default one and then the newest first: all for the operator, its own for any other admin',
  query: pageQuery(),
  responses: { 200: pageFields('tenants', tenant) },
  async handle({ caller, query: { limit, cursor }, context }) {
    const rows = await readTenants(context.db, caller, { before: cursor, limit: limit + 1 });
    const { items, ...page } = pageOf(rows, limit, ({ id }) => id);
    return { status: 200, body: { tenants: items.map(present), ...page } };
  },
});

export const TENANT_ROUTES: readonly Route[] = [create, list, get, change];
