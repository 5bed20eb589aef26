/** Addresses by which a run's open webhook waits can be answered. */
import { SecretUnreadableError } from '../../core/secret-box.ts';
import type { Tx } from '../../db/database.ts';
import { listWebhookTokens, listWebhookTokensUnderOtherKeys, resealWebhookToken } from '../../db/waits.ts';
import type { Context } from '../governance/context.ts';
import type { SealedKind } from '../tenants/reencrypt-secrets.ts';
import { nameOfToken, tokenOwner } from './token-owner.ts';

/** Paths by id of the wait. Without those whose encryption key was removed, which still work. */
export async function webhookPaths(
  tx: Tx,
  { keyring }: Pick<Context, 'keyring'>,
  run: { tenantId: string; id: string },
): Promise<Map<string, string>> {
  const paths = new Map<string, string>();
  for (const { id, key_id: keyId, sealed } of await listWebhookTokens(tx, run.id)) {
    try {
      paths.set(id, `/v1/hooks/${keyring.open(tokenOwner(run.tenantId, id), { keyId, sealed })}`);
    } catch (error) {
      if (!(error instanceof SecretUnreadableError)) throw error;
    }
  }
  return paths;
}

/** Tokens of open waits' addresses, for re-encryption. */
export const WEBHOOK_TOKENS: SealedKind = {
  async list(tx, page) {
    const rows = await listWebhookTokensUnderOtherKeys(tx, page);
    return rows.map((row) => ({ ...row, name: nameOfToken(row.id) }));
  },
  reseal: resealWebhookToken,
};
