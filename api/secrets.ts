import { z } from 'zod';
import { badRequest } from '../core/errors.ts';
import { LIMITS } from '../core/limits.ts';
import {
  forgetSecret,
  keepSecret,
  readSecretNames,
  requireSecret,
  type SecretRow,
} from '../modules/tenants/keep-secrets.ts';
import { readHostPattern } from '../tools/secret-hosts.ts';
import { pageFields, pageOf, pageQuery } from './kit/paging.ts';
import { defineRoute } from './kit/route.ts';
import type { Route } from './kit/route.ts';

const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}$/;
const byName = z.strictObject({ name: z.string() });

const value = z
  .string()
  .min(1)
  .refine((text) => Buffer.byteLength(text) <= LIMITS.secretBytes, `must be at most ${LIMITS.secretBytes} bytes`);

const hosts = z
  .array(
    z
      .string()
      .max(300)
      .transform((text, refined) => {
        const pattern = readHostPattern(text);
        if (pattern !== undefined) return pattern;
        refined.addIssue({ code: 'custom', message: 'must be a host: name, *.name or name:port' });
        return z.NEVER;
      }),
  )
  .min(1)
  .max(100)
  .describe(
    'Where it may be sent: `name`, `*.name`, `name:port`. Null takes them away; absent, they stay as they are.',
  );

const secret = z
  .strictObject({
    id: z.string().describe('Its name.'),
    name: z.string(),
    hosts: z
      .array(z.string())
      .optional()
      .describe('Where it may be sent. Absent: a tool that uses it needs an `admin`.'),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: 'Secret', description: 'Its value is never shown.' });

const put = defineRoute({
  method: 'put',
  path: '/v1/secrets/:name',
  access: 'admin',
  tenantWide: true,
  summary: 'Store a secret, in place of an earlier one of this name',
  params: byName,
  body: z.strictObject({ value, hosts: hosts.nullable().optional() }),
  responses: { 200: secret, 201: secret },
  async handle({ caller, params, body, context }) {
    if (!NAME.test(params.name)) {
      const message = 'must be up to 200 letters, digits, _, - or ., the first a letter, digit or _';
      throw badRequest(`The name of a secret ${message}.`, [{ path: 'path.name', message }]);
    }
    const { name } = params;
    const { created, ...row } = await keepSecret(context, caller, { name, ...body });
    return { status: created ? 201 : 200, body: presentSecret(row) };
  },
});

const get = defineRoute({
  method: 'get',
  path: '/v1/secrets/:name',
  access: 'admin',
  summary: 'Whether there is such a secret, and since when',
  params: byName,
  responses: { 200: secret },
  async handle({ caller, params, context }) {
    const row = await context.db.withTenant(caller.tenantId, (tx) => requireSecret(tx, params.name));
    return { status: 200, body: presentSecret(row) };
  },
});

const list = defineRoute({
  method: 'get',
  path: '/v1/secrets',
  access: 'admin',
  summary: 'List secrets by name, without their values',
  query: pageQuery(z.string()),
  responses: { 200: pageFields('secrets', secret) },
  async handle({ caller, query, context }) {
    const { limit, cursor: after } = query;
    const rows = await context.db.withTenant(caller.tenantId, (tx) => readSecretNames(tx, { after, limit: limit + 1 }));
    const { items, ...page } = pageOf(rows, limit, (row) => row.name);
    return { status: 200, body: { secrets: items.map(presentSecret), ...page } };
  },
});

const remove = defineRoute({
  method: 'delete',
  path: '/v1/secrets/:name',
  access: 'admin',
  tenantWide: true,
  summary: 'Delete a secret; calls that need it fail from now on',
  params: byName,
  responses: { 204: 'empty' },
  async handle({ caller, params, context }) {
    await context.db.withTenant(caller.tenantId, (tx) => forgetSecret(tx, caller, params.name));
    return { status: 204 };
  },
});

export const SECRET_ROUTES: readonly Route[] = [list, put, get, remove];

function presentSecret(row: SecretRow): z.input<typeof secret> {
  const [created_at, updated_at] = [row.created_at.toISOString(), row.updated_at.toISOString()];
  return { id: row.name, name: row.name, ...(row.hosts && { hosts: row.hosts }), created_at, updated_at };
}
