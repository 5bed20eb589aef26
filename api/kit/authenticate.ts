import { DroverError, forbidden, unauthorized } from '../../core/errors.ts';
import { requestRates } from '../../core/rate-limits.ts';
import { hasScope } from '../../core/scopes.ts';
import { isLocalRequest } from '../../lib/is-local-request.ts';
import type { Context } from '../../modules/governance/context.ts';
import { requireWorkspace } from '../../modules/tenants/workspaces.ts';
import type { Caller, Origin } from '../../core/caller.ts';
import type { Authenticator } from '../../modules/tenants/authenticate-key.ts';
import { holdToRates } from './rate-limit.ts';
import type { Access, AppParts, Route } from './route.ts';
import type { ApiContext } from './state.ts';
import { idParam } from './validate.ts';

/**
 * Who is calling, where the access asks for it. Throws: 401 without a valid key, 403 without the scope, and for a
 * workspace in `X-Workspace-Id` that is not there (404) or not the key's (403); 429 where its tenant or key asks too often.
 */
export async function authenticate(
  ctx: ApiContext,
  { access, tenantWide = false }: Pick<Route, 'access' | 'tenantWide'>,
  { authenticator, counter, db }: Pick<AppParts, 'authenticator' | 'counter'> & Pick<Context, 'db'>,
): Promise<Caller | undefined> {
  if (access === 'open') return undefined;
  if ((access === 'loopback' || access === 'loopback-operator') && isLocalRequest(ctx.req)) return undefined;
  const caller = await callerOf(ctx, authenticator);
  // Set before anything is refused, so that the log knows whom.
  ctx.state.caller = caller;
  // What is refused counts, too. Not where whoever watches the service asks.
  if (!access.startsWith('loopback')) await holdToRates(ctx, counter, requestRates(caller));
  checkAccess(caller, access);
  if (tenantWide && caller.boundWorkspaceId !== undefined) {
    throw forbidden('This key is bound to a workspace, and this belongs to all workspaces of the tenant.');
  }
  const inWorkspace = await pickWorkspace(ctx, caller, db);
  ctx.state.caller = inWorkspace;
  return inWorkspace;
}

async function callerOf(ctx: ApiContext, authenticator: Authenticator): Promise<Caller> {
  const header = ctx.get('authorization');
  const key = /^Bearer +([\x21-\x7e]{1,1000})$/i.exec(header)?.[1];
  const caller = key === undefined ? undefined : await authenticator.byKey(key);
  if (caller) return { ...caller, origin: originOf(ctx) };
  ctx.set('WWW-Authenticate', header === '' ? 'Bearer realm="drover"' : 'Bearer realm="drover", error="invalid_token"');
  if (header === '') throw unauthorized('A key is needed: Authorization: Bearer <key>.');
  throw unauthorized(
    key === undefined ? 'Authorization must be: Bearer <key>.' : 'The key is unknown, expired or revoked.',
  );
}

function originOf(ctx: ApiContext): Origin {
  const forwardedFor = ctx.get('x-forwarded-for').slice(0, 200);
  const { remoteAddress: ip } = ctx.req.socket;
  return { ip, requestId: ctx.state.requestId, ...(forwardedFor !== '' && { forwardedFor }) };
}

function checkAccess(caller: Caller, access: Exclude<Access, 'open'>): void {
  if (access === 'any-key' || access === 'loopback') return;
  if (access === 'operator' || access === 'loopback-operator') {
    if (!caller.isOperator) throw forbidden("This is for the operator: the default tenant's admin key.");
    return;
  }
  if (hasScope(caller.scopes, access)) return;
  throw new DroverError('forbidden', 403, `The key does not have the scope "${access}".`, { extra: { scope: access } });
}

async function pickWorkspace(ctx: ApiContext, caller: Caller, db: Context['db']): Promise<Caller> {
  const header = ctx.get('x-workspace-id');
  if (header === '') return caller;
  const workspaceId = idParam.safeParse(header).data;
  if (workspaceId === caller.workspaceId) return caller;
  if (caller.boundWorkspaceId !== undefined) throw forbidden('This key is bound to another workspace.');
  await requireWorkspace(db, { tenantId: caller.tenantId, id: workspaceId }, 'The workspace of X-Workspace-Id');
  return { ...caller, workspaceId: workspaceId ?? caller.workspaceId };
}
