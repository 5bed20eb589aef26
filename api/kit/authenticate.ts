import { badRequest, DroverError, forbidden, unauthorized } from '../../core/errors.ts';
import { requestRates } from '../../core/rate-limits.ts';
import { hasScope } from '../../core/scopes.ts';
import { isLocalRequest } from '../../lib/is-local-request.ts';
import type { Context } from '../../modules/governance/context.ts';
import { keyIn } from '../../modules/tenants/authenticate-key.ts';
import { isToken, readToken, type TokenTarget } from '../../modules/tenants/tokens.ts';
import { isShownCall, runOfCall, threadOfRun } from '../../modules/runs/read-runs.ts';
import { threadIdOf } from '../../modules/sessions/converse.ts';
import { requireWorkspace } from '../../modules/tenants/workspaces.ts';
import type { Caller, Origin } from '../../core/caller.ts';
import { holdToRates } from './rate-limit.ts';
import type { Access, AppParts, Route } from './route.ts';
import type { ApiContext } from './state.ts';
import { idParam } from './validate.ts';

/**
 * Returns the caller, if the access needs one. Throws 401 without a valid key or token, 403 without the scope, 404 or
 * 403 for a workspace in `X-Workspace-Id` that does not exist or is not the key's, 429 if its tenant or key asks too
 * often.
 */
export async function authenticate(
  ctx: ApiContext,
  route: Pick<Route, 'access' | 'tenantWide' | keyof Tokens>,
  deps: AuthenticateDeps,
): Promise<Caller | undefined> {
  const { access, tenantWide = false } = route;
  if (access === 'open') return undefined;
  if ((access === 'loopback' || access === 'loopback-operator') && isLocalRequest(ctx.req)) return undefined;
  const caller = await callerOf(ctx, route, deps);
  // Set before any refusal, for the log.
  ctx.state.caller = caller;
  // Refused requests count, too; those of monitoring do not.
  if (!access.startsWith('loopback')) await holdToRates(ctx, deps.counter, requestRates(caller));
  checkAccess(caller, access);
  if (tenantWide && caller.boundWorkspaceId !== undefined) {
    throw forbidden('This key is bound to a workspace, and this belongs to all workspaces of the tenant.');
  }
  const inWorkspace = await pickWorkspace(ctx, caller, deps.db);
  ctx.state.caller = inWorkspace;
  return inWorkspace;
}

type AuthenticateDeps = Pick<AppParts, 'authenticator' | 'counter'> & Pick<Context, 'db' | 'keyring'>;

type Tokens = Pick<Route, 'runToken' | 'namesCall' | 'threadToken' | 'tokenInQuery'>;

async function callerOf(ctx: ApiContext, route: Tokens, deps: AuthenticateDeps): Promise<Caller> {
  const header = ctx.get('authorization');
  const { token: inQuery } = ctx.query;
  if (header !== '' && route.tokenInQuery && inQuery !== undefined)
    throw badRequest('A token comes in the header Authorization or in the query, not in both.');
  if (header === '' && route.tokenInQuery && typeof inQuery === 'string') {
    return holderOf(ctx, route, { token: inQuery, deps });
  }
  const key = keyIn(header);
  if (key !== undefined && isToken(key)) return holderOf(ctx, route, { token: key, deps });
  const caller = key === undefined ? undefined : await deps.authenticator.byKey(key);
  if (caller) return { ...caller, origin: originOf(ctx) };
  ctx.set('WWW-Authenticate', header === '' ? 'Bearer realm="drover"' : 'Bearer realm="drover", error="invalid_token"');
  if (header === '') throw unauthorized('A key is needed: Authorization: Bearer <key>.');
  throw unauthorized(
    key === undefined ? 'Authorization must be: Bearer <key>.' : 'The key is unknown, expired or revoked.',
  );
}

/** The holder of a token for what the path is about, if the route admits it. A key is no token, least of all in a query. */
async function holderOf(
  ctx: ApiContext,
  { runToken, namesCall, threadToken }: Tokens,
  { token, deps }: { token: string; deps: AuthenticateDeps },
): Promise<Caller> {
  const holder = await readToken(deps, token);
  if (!holder) {
    ctx.set('WWW-Authenticate', 'Bearer realm="drover", error="invalid_token"');
    throw unauthorized('The token is unknown or expired.');
  }
  const { caller, target, scopes, leftMs } = holder;
  const known = { ...caller, origin: originOf(ctx), tokenUntilMs: performance.now() + leftMs };
  ctx.state.caller = known;
  const isOfThread = target.kind === 'thread' && threadToken !== undefined;
  const needed = isOfThread ? threadToken.scope : runToken;
  if (!needed) throw forbidden(`A token for a ${target.kind} does not open this; a key may.`);
  const of = { caller, deps };
  const isIts = isOfThread
    ? await isAboutThread(ctx, threadToken, { ...of, target })
    : await isAboutRun(ctx, { ...of, target, namesCall });
  if (!isIts) throw forbidden(`The token is for one ${target.kind}, and this is not about it.`);
  if (scopes.includes(needed)) return known;
  throw forbidden(`The token is not for "${needed}".`);
}

interface TokenUse {
  caller: Caller;
  deps: AuthenticateDeps;
  target: TokenTarget;
}

/** If no parameter names the thread, the code that finds it in the request checks `boundThreadId`. */
async function isAboutThread(
  ctx: ApiContext,
  { param }: NonNullable<Tokens['threadToken']>,
  { caller, deps, target }: TokenUse,
): Promise<boolean> {
  if (param === undefined) return true;
  const asked = String(ctx.params[param]);
  if (asked.toLowerCase() === target.id) return true;
  const { tenantId, workspaceId } = caller;
  return target.id === (await deps.db.withTenant(tenantId, (tx) => threadIdOf(tx, { workspaceId }, asked)));
}

/** A thread's token opens its runs like tokens for each of them, and the calls that it shows. */
async function isAboutRun(
  ctx: ApiContext,
  { caller, deps, target, namesCall }: TokenUse & { namesCall: true | undefined },
): Promise<boolean> {
  const { run, id } = ctx.params as { run?: string; id?: string };
  const named = idParam.safeParse(namesCall ? id : run).data;
  if (named === undefined) return false;
  return deps.db.withTenant(caller.tenantId, async (tx) => {
    if (target.kind === 'run') return target.id === (namesCall ? await runOfCall(tx, named) : named);
    if (namesCall) return isShownCall(tx, { id: named, threadId: target.id });
    return (await threadOfRun(tx, named)) === target.id;
  });
}

/** Where the request came from. */
export function originOf(ctx: ApiContext): Origin {
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
