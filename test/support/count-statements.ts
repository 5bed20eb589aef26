/** Counts what goes to the database in transactions of tenants. */
import type { Database, Tx } from '../../db/database.ts';

/** Counts from now on, until `stop`, which answers how many there were. */
export function countStatements(db: Database): { stop: () => number } {
  const withTenant = db.withTenant.bind(db);
  let statements = 0;
  db.withTenant = (tenantId, work) =>
    withTenant(tenantId, (tx) => {
      const query: Tx['query'] = (...asked) => {
        statements += 1;
        return tx.query(...asked);
      };
      return work({ ...tx, query });
    });
  return {
    stop: () => {
      db.withTenant = withTenant;
      return statements;
    },
  };
}
