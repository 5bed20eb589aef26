/** Short-lived tokens for one run or thread, which a front end holds instead of a key. Sealed, so no table stores them. */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { Caller } from '../../core/caller.ts';
import { hasScope, type Scope } from '../../core/scopes.ts';
import { SecretUnreadableError, type Keyring } from '../../core/secret-box.ts';
import { readClock, readClockIn } from '../../db/clock.ts';
import type { Database, Tx } from '../../db/database.ts';
import { recordAudit } from '../audit/record-audit.ts';
import type { Authenticator } from './authenticate-key.ts';

/** `read` shows the run or thread; `answer` answers what a run waits for, and talks on a thread. */
export const TOKEN_SCOPES = ['read', 'answer'] as const;
export type TokenScope = (typeof TOKEN_SCOPES)[number];

/** The single run or thread that a token opens. */
export type TokenTarget = { kind: 'run' | 'thread'; id: string };

/** Scopes that a token gives, as far as its key has them. */
const SCOPES_OF: Readonly<Record<TokenScope, readonly Scope[]>> = {
  read: ['runs:read'],
  answer: ['runs:write', 'approvals:write'],
};

interface Deps {
  db: Database;
  keyring: Keyring;
}

/** Makes a token that expires after `ttlSeconds` by the database's clock, or when the caller's key ends. */
export async function issueToken(
  { tx, keyring }: { tx: Tx; keyring: Keyring },
  caller: Caller,
  { target, scopes, ttlSeconds }: { target: TokenTarget; scopes: readonly TokenScope[]; ttlSeconds: number },
): Promise<{ token: string; expiresAt: Date }> {
  const { tenantId, workspaceId, keyId } = caller;
  const expiresAt = new Date((await readClockIn(tx)).getTime() + ttlSeconds * 1000);
  const content: Content = { scopes: [...scopes], keyId, workspaceId, expiresAt: expiresAt.toISOString() };
  const { keyId: sealedBy, sealed } = keyring.seal(ownerOf(tenantId, target), JSON.stringify(content), randomBytes(12));
  await recordAudit(tx, caller, {
    action: `${target.kind}_token.created`,
    target: [target.kind, target.id],
    details: { scopes, expires_at: content.expiresAt },
  });
  return {
    token: `${PREFIXES[target.kind]}_${sealedBy}.${tenantId}.${target.id}.${sealed.toString('base64url')}`,
    expiresAt,
  };
}

/** The holder of a valid token, and what it opens. */
interface TokenHolder {
  caller: Caller;
  target: TokenTarget;
  scopes: readonly TokenScope[];
  /** Its remaining time. */
  leftMs: number;
}

/** Whether a credential has the form of a token, and so is no key. */
export function isToken(text: string): boolean {
  return FORM.test(text);
}

/** Undefined if it is no token, altered or expired, or its key has ended. */
export async function readToken(
  { db, keyring, authenticator }: Deps & { authenticator: Authenticator },
  text: string,
): Promise<TokenHolder | undefined> {
  const [, prefix = '', sealedBy = '', tenantId = '', id = '', sealed = ''] = FORM.exec(text) ?? [];
  const target: TokenTarget = { kind: prefix === PREFIXES.run ? 'run' : 'thread', id };
  const content = sealed === '' ? undefined : open(keyring, { sealedBy, tenantId, target, sealed });
  if (!content) return undefined;
  const leftMs = Date.parse(content.expiresAt) - (await readClock(db)).getTime();
  const key = leftMs > 0 ? await authenticator.byKeyId(content.keyId) : undefined;
  if (key?.tenantId !== tenantId) return undefined;
  const { workspaceId } = content;
  const scopes = content.scopes.flatMap((scope) => SCOPES_OF[scope]).filter((scope) => hasScope(key.scopes, scope));
  const bound = target.kind === 'thread' && { boundThreadId: id };
  const caller = { ...key, workspaceId, boundWorkspaceId: workspaceId, scopes, isOperator: false, ...bound };
  return { caller, target, scopes: content.scopes, leftMs };
}

const UUID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';
const PREFIXES = { run: 'drt', thread: 'dtt' } as const;
const FORM = new RegExp(`^(drt|dtt)_([0-9a-f]{16})\\.(${UUID})\\.(${UUID})\\.([A-Za-z0-9_-]{40,800})$`);

const content = z.object({
  scopes: z.array(z.enum(TOKEN_SCOPES)),
  keyId: z.uuid(),
  workspaceId: z.uuid(),
  expiresAt: z.iso.datetime(),
});
type Content = z.output<typeof content>;

function open(
  keyring: Keyring,
  token: { sealedBy: string; tenantId: string; target: TokenTarget; sealed: string },
): Content | undefined {
  const stored = { keyId: token.sealedBy, sealed: Buffer.from(token.sealed, 'base64url') };
  try {
    return content.parse(JSON.parse(keyring.open(ownerOf(token.tenantId, token.target), stored)));
  } catch (error) {
    if (error instanceof SecretUnreadableError) return undefined;
    throw error;
  }
}

/** No tenant's secret can have this name. */
function ownerOf(tenantId: string, { kind, id }: TokenTarget) {
  return { tenantId, name: `token of ${kind} ${id}` };
}
