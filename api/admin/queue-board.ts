/** Bull Board at `/admin/queues` for the operator: by Bearer key, or in a browser with a session after signing in. */
import { z } from 'zod';
import { forbidden, notFound } from '../../core/errors.ts';
import type { Context } from '../../modules/governance/context.ts';
import type { Caller } from '../../core/caller.ts';
import { authenticate, originOf } from '../kit/authenticate.ts';
import { isOverTls } from '../kit/public-origin.ts';
import { readText } from '../kit/read-text.ts';
import type { ApiContext, Middleware } from '../kit/state.ts';
import type { AppParts } from '../kit/route.ts';
import { BOARD as BASE, placeOnBoard, SIGN_IN, SIGN_OUT } from './board-paths.ts';
import type { MountedBoard } from './mount-board.ts';
import { signInPage, signOutPage } from './pages.ts';
import { recordBoardAct } from './record-board-act.ts';
import { runPage } from './run-page.ts';
import { SESSION_END_PATH, SESSION_END_SCRIPT, withSessionEnd } from './session-end.ts';
import { createSessionCookies, SESSION_MS } from './session-cookie.ts';
import type { SessionCookies } from './session-cookie.ts';
import type { TurnsAdapter } from './turns-adapter.ts';

const RUNS = `${BASE}/runs/`;
const COOKIE = 'drover_admin';

/** At most so many turns on a run's page. */
const MOST_TURNS = 100;

// The board has inline styles and a link to external fonts, without which it works, on any network.
const BOARD_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; " +
  "connect-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'";
const FORM_POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

interface Desk {
  context: Context;
  parts: AppParts;
  sessions: SessionCookies;
}

const FORM_BYTES = 8192;

/** Answers everything under `/admin/queues`. */
export function queueBoard(context: Context, parts: AppParts): Middleware {
  const desk: Desk = { context, parts, sessions: createSessionCookies(context.config.secretKeys[0]) };
  let mounting: Promise<MountedBoard> | undefined;
  // Loaded on first use: most processes never serve it, and its packages are a tenth of what an API loads.
  const mounted = () => (mounting ??= import('./mount-board.ts').then((module) => module.mountBoard(context, parts)));
  return async (koaContext, next) => {
    const ctx = koaContext as ApiContext;
    if (ctx.path !== BASE && !ctx.path.startsWith(`${BASE}/`)) return next();
    ctx.state.route = BASE;
    // With `no-referrer`, browsers would hide the origin of forms, which is checked below.
    ctx.set('Referrer-Policy', 'same-origin');
    const isAct = ctx.method !== 'GET' && ctx.method !== 'HEAD';
    if (isAct) refuseOtherSites(ctx);
    if (ctx.path === SIGN_IN && ctx.method === 'POST') return signIn(ctx, desk);
    if (ctx.path === SIGN_OUT) return signOut(ctx);
    const caller = await visitorOf(ctx, desk);
    if (!caller) return showForm(ctx, 401, { to: ctx.url });
    ctx.state.caller = caller;
    const { board, turns } = await mounted();
    if (ctx.path.startsWith(RUNS)) return showRun(ctx, turns);
    if (ctx.path === SESSION_END_PATH) return showScript(ctx);
    ctx.set('Content-Security-Policy', BOARD_POLICY);
    if (isAct) await recordBoardAct(context, caller, ctx);
    await board(ctx, next);
    if (typeof ctx.body === 'string' && ctx.type === 'text/html') ctx.body = withSessionEnd(ctx.body);
  };
}

function showScript(ctx: ApiContext): void {
  ctx.type = 'text/javascript; charset=utf-8';
  ctx.body = SESSION_END_SCRIPT;
}

async function showRun(ctx: ApiContext, adapter: TurnsAdapter): Promise<void> {
  const run = ctx.path.slice(RUNS.length);
  const turns = z.uuid().safeParse(run).success ? await adapter.turnsOf(run, MOST_TURNS) : [];
  const [last] = turns;
  if (!last) throw notFound(`Run ${run.slice(0, 100)}`);
  showPage(ctx, 200, runPage(last, turns));
}

/** The caller, by session or key. Undefined if a browser asks for a page without either: it gets the form, not a problem. */
async function visitorOf(ctx: ApiContext, { context, parts, sessions }: Desk): Promise<Caller | undefined> {
  const { authenticator } = parts;
  const keyId = sessions.read(ctx.cookies.get(COOKIE) ?? '');
  const caller = keyId === undefined ? undefined : await authenticator.byKeyId(keyId);
  if (caller?.isOperator === true) return { ...caller, origin: originOf(ctx) };
  if (ctx.get('authorization') === '' && ctx.accepts('json', 'html') === 'html') return undefined;
  return authenticate(ctx, { access: 'operator' }, { ...parts, ...context });
}

const field = z.string().trim().catch('');
const signInForm = z.object({ key: field, to: field }).catch({ key: '', to: '' });

async function signIn(ctx: ApiContext, { parts, sessions }: Desk): Promise<void> {
  const isForm = ctx.request.is('application/x-www-form-urlencoded') !== false;
  const form = isForm ? await readText(ctx.req, { maxBytes: FORM_BYTES, room: parts.bodyRoom.of(undefined) }) : '';
  const { key, to } = signInForm.parse(Object.fromEntries(new URLSearchParams(form)));
  const caller = key === '' ? undefined : await parts.authenticator.byKey(key);
  if (!caller) return showForm(ctx, 401, { to, problem: 'This key is unknown, expired or revoked.' });
  ctx.state.caller = caller;
  if (!caller.isOperator)
    return showForm(ctx, 403, { to, problem: 'This key is not an admin key of the default tenant.' });
  setCookie(ctx, sessions.issue(caller.keyId));
  ctx.redirect(placeOnBoard(to));
  ctx.status = 303;
}

function signOut(ctx: ApiContext): void {
  if (ctx.method !== 'POST') {
    showPage(ctx, 200, signOutPage(SIGN_OUT));
    return;
  }
  setCookie(ctx, null);
  ctx.redirect(BASE);
  ctx.status = 303;
}

function setCookie(ctx: ApiContext, value: string | null): void {
  const secure = isOverTls(ctx);
  // The library refuses `secure` cookies on an insecure connection, but behind a proxy only a header tells.
  ctx.cookies.secure = secure;
  ctx.cookies.set(COOKIE, value, {
    httpOnly: true,
    sameSite: 'strict',
    path: BASE,
    secure,
    signed: false,
    ...(value === null ? {} : { maxAge: SESSION_MS }),
  });
}

function showForm(ctx: ApiContext, status: number, { to, problem }: { to: string; problem?: string }): void {
  showPage(ctx, status, signInPage({ action: SIGN_IN, to: placeOnBoard(to), problem }));
}

function showPage(ctx: ApiContext, status: number, html: string): void {
  ctx.status = status;
  ctx.set('Content-Security-Policy', FORM_POLICY);
  ctx.type = 'text/html; charset=utf-8';
  ctx.body = html;
}

/** Refuses forms and scripts of other sites, or of another port here, which SameSite allows. Throws 403. */
function refuseOtherSites(ctx: ApiContext): void {
  const site = ctx.get('sec-fetch-site');
  const origin = ctx.get('origin');
  const foreign = site === '' ? origin !== '' && hostOf(origin) !== ctx.get('host') : site !== 'same-origin';
  if (foreign) throw forbidden('This request comes from another site.');
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}
