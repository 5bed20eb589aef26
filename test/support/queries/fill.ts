/** Fills the tables of a test with many rows at once. */
import type { Database } from '../../../db/database.ts';

type Run = (text: string, values?: readonly unknown[]) => Promise<unknown>;

/** Ids of a series of rows, by its name, as SQL over `i`. */
export const idsOf = (series: string) => `md5('${series}' || i)::uuid`;

/**
 * Runs the statements that `fill` sends as the owner of the tables, without foreign keys and row level security, which would
 * only take time, and then has the planner know what there is. `names`: what `$name` stands for in a statement.
 */
export async function fillTables(
  db: Pick<Database, 'asOwner'>,
  names: Readonly<Record<string, string>>,
  fill: (run: Run) => Promise<void>,
): Promise<void> {
  await db.asOwner(async (client) => {
    await client.query('set session_replication_role = replica; set row_security = off');
    await fill((text, values) => {
      const named = Object.entries(names).reduce(
        (sql, [name, value]) => sql.replaceAll(`$${name}`, `'${value}'`),
        text,
      );
      return client.query(named, values && [...values]);
    });
    await client.query('set session_replication_role = origin; set row_security = on; analyze');
  });
}
