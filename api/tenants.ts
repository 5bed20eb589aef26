import { z } from 'zod';
import { forbidden } from '../core/errors.ts';
import { createTenant } from '../modules/tenants/create-tenant.ts';
import { idempotently } from '../modules/tenants/idempotency.ts';
import { setSuspension } from '../modules/governance/suspend.ts';
import { defineRoute } from './kit/route.ts';
import type { Route } from './kit/route.ts';
import { idParam } from './kit/validate.ts';

const create = defineRoute({
  method: 'post',
  path: '/v1/tenants',
  access: 'operator',
  summary: 'Make a tenant with its first workspace and an admin key, which is shown this once',
  idempotent: true,
  body: z.strictObject({
    name: z.string().trim().min(1).max(200),
    plan_tier: z.string().min(1).max(100).optional(),
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

const suspension = defineRoute({
  method: 'patch',
  path: '/v1/tenants/:id',
  access: 'admin',
  summary: 'Suspend a tenant or lift that: its own admin, or the operator, whose suspension only the operator lifts',
  params: z.strictObject({ id: idParam }),
  body: z.strictObject({ suspended: z.boolean() }),
  responses: { 200: z.strictObject({ id: z.uuid(), tenant_id: z.uuid(), suspended: z.boolean() }) },
  async handle({ caller, params: { id }, body: { suspended }, context }) {
    if (caller.boundWorkspaceId !== undefined) throw forbidden('This key is bound to a workspace.');
    await setSuspension(context, caller, { kind: 'tenant', id, suspended });
    return { status: 200, body: { id, tenant_id: id, suspended } };
  },
});

export const TENANT_ROUTES: readonly Route[] = [create, suspension];
