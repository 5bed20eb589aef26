import type { ToolDefinition } from '../../core/tool.ts';
import type { Tx } from '../../db/database.ts';
import { findTools } from '../../db/tools.ts';
import { BUILTIN_TOOLS } from '../../tools/builtin.ts';

/** Current definitions of tools by id or name, in the given order; undefined for unknown ones. */
export async function resolveTools(tx: Tx, idsOrNames: readonly string[]): Promise<(ToolDefinition | undefined)[]> {
  const registered = await findTools(tx, idsOrNames);
  const known = [...BUILTIN_TOOLS, ...registered.map(({ definition }) => definition)];
  const byId = new Map(known.map((tool) => [tool.id, tool]));
  const byName = new Map(known.map((tool) => [tool.name, tool]));
  return idsOrNames.map((named) => byId.get(named.toLowerCase()) ?? byName.get(named));
}
