/** Checks which secrets a tool may use. Each call checks again (`tools/execute-tool.ts`). */
import type { Caller } from '../../core/caller.ts';
import { DroverError, impossible } from '../../core/errors.ts';
import { digestOf } from '../../core/ids.ts';
import { hasScope } from '../../core/scopes.ts';
import type { ToolTransport } from '../../core/tool.ts';
import type { Tx } from '../../db/database.ts';
import { findSecretHosts } from '../../db/secrets.ts';
import { hostRefusing, isToolSecret, secretNamesIn } from '../../tools/secret-values.ts';
import { destinationOf, kindOf } from '../../tools/transports.ts';

/**
 * Throws 422 for a secret that may not be sent to the transport's destination; 403 for a secret without hosts, unless
 * the caller has `admin` or the transport is unchanged.
 */
export async function checkSecrets(
  tx: Tx,
  caller: Caller,
  { transport, current }: { transport: ToolTransport; current?: ToolTransport },
): Promise<void> {
  const names = secretNamesIn(kindOf(transport)?.secretTexts(transport) ?? []);
  if (names.length === 0) return;
  const hosts = await findSecretHosts(tx, names);
  const destination = destinationOf(transport);
  for (const name of names) {
    const refused = isToolSecret(name)
      ? hostRefusing(hosts.get(name) ?? null, destination)
      : 'a tool: it is none of the tenant';
    if (refused === undefined) continue;
    const message = `The secret "${name}" may not be sent to ${refused}.`;
    throw impossible(message, [{ path: 'body.transport', message }]);
  }
  const unbound = names.find((name) => !hosts.get(name));
  const asItWas = current !== undefined && digestOf(current) === digestOf(transport);
  if (unbound === undefined || asItWas || hasScope(caller.scopes, 'admin')) return;
  const detail = `The secret "${unbound}" names no hosts: only a key with the scope "admin" may use it in a tool.`;
  throw new DroverError('forbidden', 403, detail, { extra: { scope: 'admin' } });
}
