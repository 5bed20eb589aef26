/** Short-lived tokens for one run, which a front end holds in place of a key. Sealed, so no table knows them. */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { Caller } from '../../core/caller.ts';
import { hasScope, type Scope } from '../../core/scopes.ts';
import { SecretUnreadableError, type Keyring } from '../../core/secret-box.ts';
import { readClock } from '../../db/clock.ts';
import type { Database } from '../../db/database.ts';
import { recordAudit } from '../audit/record-audit.ts';
import type { Authenticator } from './authenticate-key.ts';

/** What a token is for: `read` shows the run, `answer` answers what it waits for. */
export const TOKEN_SCOPES = ['read', 'answer'] as const;
export type TokenScope = (typeof TOKEN_SCOPES)[number];

/** What the key of a token must have, and what the token can do with it. */
export const SCOPES_OF: Readonly<Record<TokenScope, readonly Scope[]>> = {
  read: ['runs:read'],
  answer: ['runs:write', 'approvals:write'],
};

interface Deps {
  db: Database;
  keyring: Keyring;
}

/** Makes a token that ends after `ttlSeconds` by the database's clock, and with the caller's key. */
export async function issueRunToken(
  { db, keyring }: Deps,
  caller: Caller,
  { runId, scopes, ttlSeconds }: { runId: string; scopes: readonly TokenScope[]; ttlSeconds: number },
): Promise<{ token: string; expiresAt: Date }> {
  const { tenantId, workspaceId, keyId } = caller;
  const expiresAt = new Date((await readClock(db)).getTime() + ttlSeconds * 1000);
  const content: Content = { scopes: [...scopes], keyId, workspaceId, expiresAt: expiresAt.toISOString() };
  const { keyId: sealedBy, sealed } = keyring.seal(ownerOf(tenantId, runId), JSON.stringify(content), randomBytes(12));
  await db.withTenant(tenantId, (tx) => {
    const details = { scopes, expires_at: content.expiresAt };
    return recordAudit(tx, caller, { action: 'run_token.created', target: ['run', runId], details });
  });
  return { token: `drt_${sealedBy}.${tenantId}.${runId}.${sealed.toString('base64url')}`, expiresAt };
}

/** Who holds a valid token, and what it opens. */
export interface TokenHolder {
  caller: Caller;
  runId: string;
  scopes: readonly TokenScope[];
  /** What is left of it. */
  leftMs: number;
}

/** Whether a credential has the form of a token: it is then no key. */
export function isRunToken(text: string): boolean {
  return FORM.test(text);
}

/** Undefined for what is none, was changed, has expired, or whose key has ended. */
export async function readRunToken(
  { db, keyring, authenticator }: Deps & { authenticator: Authenticator },
  text: string,
): Promise<TokenHolder | undefined> {
  const [, sealedBy = '', tenantId = '', runId = '', sealed = ''] = FORM.exec(text) ?? [];
  const content = sealed === '' ? undefined : open(keyring, { sealedBy, tenantId, runId, sealed });
  if (!content) return undefined;
  const leftMs = Date.parse(content.expiresAt) - (await readClock(db)).getTime();
  const key = leftMs > 0 ? await authenticator.byKeyId(content.keyId) : undefined;
  if (key?.tenantId !== tenantId) return undefined;
  const { workspaceId } = content;
  const scopes = content.scopes.flatMap((scope) => SCOPES_OF[scope]).filter((scope) => hasScope(key.scopes, scope));
  const caller = { ...key, workspaceId, boundWorkspaceId: workspaceId, scopes, isOperator: false };
  return { caller, runId, scopes: content.scopes, leftMs };
}

const UUID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';
const FORM = new RegExp(`^drt_([0-9a-f]{16})\\.(${UUID})\\.(${UUID})\\.([A-Za-z0-9_-]{40,800})$`);

const content = z.object({
  scopes: z.array(z.enum(TOKEN_SCOPES)),
  keyId: z.uuid(),
  workspaceId: z.uuid(),
  expiresAt: z.iso.datetime(),
});
type Content = z.output<typeof content>;

function open(
  keyring: Keyring,
  token: { sealedBy: string; tenantId: string; runId: string; sealed: string },
): Content | undefined {
  const stored = { keyId: token.sealedBy, sealed: Buffer.from(token.sealed, 'base64url') };
  try {
    return content.parse(JSON.parse(keyring.open(ownerOf(token.tenantId, token.runId), stored)));
  } catch (error) {
    if (error instanceof SecretUnreadableError) return undefined;
    throw error;
  }
}

/** No secret of a tenant can have this name. */
function ownerOf(tenantId: string, runId: string) {
  return { tenantId, name: `token of run ${runId}` };
}
