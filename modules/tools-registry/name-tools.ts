import { digestOf } from '../../core/ids.ts';
import type { ToolDefinition } from '../../core/tool.ts';
import { identityOf, locateTool } from '../../tools/transports.ts';
import type { ImportedTool } from '../../tools/transport-kind.ts';
import { isNameOf, uniqueName } from '../../tools/unique-name.ts';

/** A tool with what tells its place: its server and its name there. */
export type PlacedTool = Pick<ToolDefinition, 'name' | 'transport'>;

/**
 * A server's tools, by its own names, each named as it is `registered` there, whatever else the server has by now; others
 * as none of the server's is.
 */
export function nameTools(
  own: ReadonlyMap<string, ImportedTool>,
  prefix: string,
  registered: readonly PlacedTool[],
): Map<string, ImportedTool> {
  const namesAt = new Map<string, string[]>();
  const taken = new Set<string>();
  for (const tool of registered) {
    if (!tool.name.startsWith(prefix)) continue;
    const place = placeOf(tool);
    namesAt.set(place, [...(namesAt.get(place) ?? []), tool.name]);
    taken.add(tool.name.slice(prefix.length));
  }
  const nameOf = (ownName: string, tool: ImportedTool): string => {
    const names = namesAt.get(placeOf({ ...tool, name: prefix + tool.name })) ?? [];
    const kept = names.find((name) => isNameOf(name.slice(prefix.length), ownName));
    return kept ?? prefix + uniqueName(ownName, taken);
  };
  return new Map([...own].map(([name, tool]) => [name, { ...tool, name: nameOf(name, tool) }]));
}

/** A digest of a tool's server and its name there, without credentials. */
export function placeOf(tool: PlacedTool): string {
  return digestOf([identityOf(tool.transport) ?? null, locateTool(tool)?.tool ?? null]);
}

/** The server's name for its tool. */
export function ownNameOf(tool: PlacedTool): string {
  return locateTool(tool)?.tool ?? tool.name;
}
