import { z } from 'zod';
import { createTenant } from '../services/create-tenant.ts';
import { idempotently } from '../services/idempotency.ts';
import { defineRoute } from './kit/route.ts';
import type { Route } from './kit/route.ts';

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

export const TENANT_ROUTES: readonly Route[] = [create];
