import { badRequest, notFound } from '../../core/errors.ts';
import type { ToolDefinition } from '../../core/tool.ts';
import type { Tx } from '../../db/database.ts';
import type { Page } from '../../db/page-bytes.ts';
import { findTool, listTools, type ToolRow } from '../../db/tools.ts';
import { BUILTIN_TOOLS } from '../../tools/builtin.ts';

export type { ToolRow };

interface ToolFilter {
  builtin?: boolean;
  name?: string;
}

interface ListedTool {
  definition: ToolDefinition;
  row?: ToolRow;
}

/** Parses `builtin:true,name:search`. Throws 400 for anything else. */
export function parseFilter(terms: readonly string[]): ToolFilter {
  const filter: ToolFilter = {};
  for (const term of terms) {
    const [, key, value] = /^(builtin|name):(.{1,200})$/.exec(term) ?? [];
    if (key === 'name' && value !== undefined) filter.name = value;
    else if (key === 'builtin' && (value === 'true' || value === 'false')) filter.builtin = value === 'true';
    else {
      const message = 'takes builtin:true, builtin:false and name:…, separated by commas';
      throw badRequest(`query.filter ${message}.`, [{ path: 'query.filter', message }]);
    }
  }
  return filter;
}

/** A page of tools: built-in ones first, then registered ones, newest first. `after`: the last id of the page before. */
export async function listAllTools(
  tx: Tx,
  page: { after?: string | undefined; limit: number; filter: ToolFilter; permissions?: string[] | undefined },
): Promise<Page<ListedTool>> {
  const { after, limit, filter, permissions = [] } = page;
  const place = BUILTIN_TOOLS.findIndex(({ id }) => id === after);
  const builtins = filter.builtin === false || (after !== undefined && place < 0) ? [] : BUILTIN_TOOLS.slice(place + 1);
  const fitting = builtins.filter((tool) => fits(tool, filter, permissions)).map((definition) => ({ definition }));
  if (fitting.length > limit || filter.builtin === true)
    return { rows: fitting.slice(0, limit), more: fitting.length > limit };
  const before = place < 0 ? after : undefined;
  const rest = { before, limit: limit - fitting.length, name: filter.name, permissions };
  const { rows, more } = await listTools(tx, rest);
  return { rows: [...fitting, ...rows.map((row) => ({ definition: row.definition, row }))], more };
}

/** A registered tool. Throws 404. */
export async function requireTool(tx: Tx, id: string): Promise<ToolRow> {
  const row = await findTool(tx, id);
  if (!row) throw notFound('This tool');
  return row;
}

function fits(tool: ToolDefinition, filter: ToolFilter, permissions: readonly string[]): boolean {
  if (filter.name !== undefined && tool.name !== filter.name) return false;
  return permissions.every((needed) => tool.permissions.some(({ name }) => name === needed));
}
