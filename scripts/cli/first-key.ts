import { loadConfig } from '../../config.ts';
import { openDatabase } from '../../db/open-database.ts';
import type { ApiKeyRequest } from '../../modules/tenants/create-api-key.ts';
import { createOperatorKey } from '../../modules/tenants/create-operator-key.ts';
import { isUnreachable } from '../../db/database-errors.ts';
import { lineOfDatabaseWork } from '../../modules/platform/run-once.ts';
import { CommandError, EXIT } from './errors.ts';

/** Makes a key directly in the database of DATABASE_URL, without a service or a key. */
export async function createDirectly(request: ApiKeyRequest, tenantId?: string) {
  const config = loadConfig();
  if (config.databaseUrl === undefined) {
    throw new CommandError(
      EXIT.usage,
      '--direct needs DATABASE_URL; embedded mode keeps its first key in its data directory.',
    );
  }
  const db = await openDatabase(config).catch((error: unknown) => {
    throw new CommandError(isUnreachable(error) ? EXIT.unreachable : EXIT.refused, lineOfDatabaseWork(error), {
      cause: error,
    });
  });
  try {
    const { row, key } = await createOperatorKey(db, request, tenantId);
    return { id: row.id, key };
  } finally {
    await db.close();
  }
}
