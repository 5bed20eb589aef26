import { z } from 'zod';
import { SCOPES } from '../core/scopes.ts';
import { createApiKey } from '../modules/tenants/create-api-key.ts';
import { idempotently } from '../modules/tenants/idempotency.ts';
import { announceKeyEnd } from '../modules/runs/watch-key.ts';
import { endApiKey, readApiKeys, requireApiKey, updateApiKey, type ApiKeyRow } from '../modules/tenants/read-keys.ts';
import { pageFields, pageOf, pageQuery } from './kit/paging.ts';
import { defineRoute } from './kit/route.ts';
import type { Route } from './kit/route.ts';
import { idParam, timeTextParam } from './kit/validate.ts';

const fields = {
  id: z.uuid(),
  api_key_id: z.uuid(),
  name: z.string(),
  scopes: z.array(z.enum(SCOPES)),
  workspace_id: z.uuid().nullable(),
  expires_at: z.iso.datetime().nullable(),
  revoked_at: z.iso.datetime().nullable(),
  created_at: z.iso.datetime(),
};
const apiKey = z.strictObject(fields).meta({ id: 'ApiKey' });

const keyName = z.string().trim().min(1).max(200);
const idOnly = z.strictObject({ id: idParam });

const create = defineRoute({
  method: 'post',
  path: '/v1/api-keys',
  access: 'admin',
  summary: 'Make a key; it is shown this once',
  idempotent: true,
  body: z.strictObject({
    name: keyName,
    scopes: z
      .array(z.enum(SCOPES))
      .min(1)
      .max(SCOPES.length)
      .transform((scopes) => [...new Set(scopes)]),
    workspace_id: idParam.optional(),
    expires_at: timeTextParam.optional(),
  }),
  responses: {
    201: z.strictObject({
      ...fields,
      key: z.string().optional().describe('Missing where the answer is a repeated one.'),
    }),
  },
  async handle({ caller, body, context, idempotency }) {
    return idempotently(context, idempotency, async (tx) => {
      const { row, key } = await createApiKey(tx, caller, body);
      const shown = presentKey(row);
      return { status: 201, body: { ...shown, key }, store: shown };
    });
  },
});

const list = defineRoute({
  method: 'get',
  path: '/v1/api-keys',
  access: 'admin',
  summary: 'List keys without their secrets, newest first',
  query: pageQuery(),
  responses: { 200: pageFields('api_keys', apiKey) },
  async handle({ caller, query, context }) {
    const { limit, cursor: before } = query;
    const rows = await context.db.withTenant(caller.tenantId, (tx) =>
      readApiKeys(tx, caller, { before, limit: limit + 1 }),
    );
    const { items, ...page } = pageOf(rows, limit, (row) => row.id);
    return { status: 200, body: { api_keys: items.map(presentKey), ...page } };
  },
});

const get = defineRoute({
  method: 'get',
  path: '/v1/api-keys/:id',
  access: 'admin',
  summary: 'Get a key without its secret',
  params: idOnly,
  responses: { 200: apiKey },
  async handle({ caller, params, context }) {
    const row = await context.db.withTenant(caller.tenantId, (tx) => requireApiKey(tx, caller, params.id));
    return { status: 200, body: presentKey(row) };
  },
});

const change = defineRoute({
  method: 'patch',
  path: '/v1/api-keys/:id',
  access: 'admin',
  summary: 'Give a key another name or another end; what it may do stays',
  params: idOnly,
  body: z.strictObject({
    name: keyName.optional(),
    expires_at: timeTextParam.nullable().optional().describe('`null`: never. Other processes know it within 5 s.'),
  }),
  responses: { 200: apiKey },
  async handle({ caller, params: { id }, body: { name, expires_at: expiresAt }, context, app }) {
    const row = await context.db.withTenant(caller.tenantId, (tx) => updateApiKey(tx, caller, { id, name, expiresAt }));
    app.authenticator.forget(id);
    return { status: 200, body: presentKey(row) };
  },
});

const revoke = defineRoute({
  method: 'delete',
  path: '/v1/api-keys/:id',
  access: 'admin',
  summary: 'Revoke a key; it ends at once here, within 5 s in other processes',
  params: idOnly,
  responses: { 204: 'empty' },
  async handle({ caller, params, context, app }) {
    await context.db.withTenant(caller.tenantId, (tx) => endApiKey(tx, caller, params.id));
    app.authenticator.forget(params.id);
    announceKeyEnd(context.bus, params.id);
    return { status: 204 };
  },
});

export const API_KEY_ROUTES: readonly Route[] = [create, list, get, change, revoke];

function presentKey(row: ApiKeyRow): z.input<typeof apiKey> {
  return {
    id: row.id,
    api_key_id: row.id,
    name: row.name,
    scopes: row.scopes,
    workspace_id: row.workspace_id,
    expires_at: row.expires_at?.toISOString() ?? null,
    revoked_at: row.revoked_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
  };
}
