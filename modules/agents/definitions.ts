/** Agent and tool versions as a run pinned them. They never change, so a process keeps those it has seen. */
import type { AgentDefinition } from '../../core/definition.ts';
import { BUILTIN_TOOLS } from '../../tools/builtin.ts';
import type { ToolDefinition } from '../../core/tool.ts';
import type { PinnedTool } from '../../core/events.ts';
import { loadAgentVersion } from '../../db/agents.ts';
import { loadToolVersions } from '../../db/tools.ts';
import type { Database, Tx } from '../../db/database.ts';

const KEPT = 2000;
const agents = new Map<string, AgentDefinition>();
const tools = new Map<string, ToolDefinition>();
const builtins = new Map(BUILTIN_TOOLS.map((tool) => [tool.id, tool]));

interface Pins {
  tenantId: string;
  agentId: string;
  agentVersion: string;
  tools: PinnedTool[];
}

export interface PinnedDefinitions {
  definition: AgentDefinition;
  tools: ReadonlyMap<string, ToolDefinition>;
}

/** The definition and the tools by name that a run started with. Throws where a version is gone. */
export async function loadDefinitions(db: Database, pins: Pins): Promise<PinnedDefinitions> {
  return keptDefinitions(pins) ?? (await db.withTenant(pins.tenantId, (tx) => loadDefinitionsIn(tx, pins)));
}

/** The same within a transaction of the tenant. */
export async function loadDefinitionsIn(tx: Tx, pins: Pins): Promise<PinnedDefinitions> {
  const kept = keptDefinitions(pins);
  if (kept) return kept;
  const definition = await loadAgentVersion(tx, pins.agentId, pins.agentVersion);
  if (!definition) throw new Error(`agent ${pins.agentId} has no version ${pins.agentVersion}`);
  keep(agents, agentKey(pins), definition);
  const missing = pins.tools.filter((tool) => !keptTool(pins.tenantId, tool));
  for (const tool of await loadToolVersions(tx, missing)) keep(tools, toolKey(pins.tenantId, tool), tool);
  const loaded = keptDefinitions(pins);
  if (!loaded) throw new Error(`a tool of run's agent ${pins.agentId} has no such version any more`);
  return loaded;
}

function keptDefinitions(pins: Pins): PinnedDefinitions | undefined {
  const definition = agents.get(agentKey(pins));
  const pinned = pins.tools.map((pin) => keptTool(pins.tenantId, pin)).filter((tool) => tool !== undefined);
  if (!definition || pinned.length < pins.tools.length) return undefined;
  return { definition, tools: new Map(pinned.map((tool) => [tool.name, tool])) };
}

function keptTool(tenantId: string, pin: { id: string; version: string }): ToolDefinition | undefined {
  return builtins.get(pin.id) ?? tools.get(toolKey(tenantId, pin));
}

const agentKey = (pins: Pins) => `${pins.tenantId}/${pins.agentId}/${pins.agentVersion}`;
const toolKey = (tenantId: string, tool: { id: string; version: string }) => `${tenantId}/${tool.id}/${tool.version}`;

function keep<V>(cache: Map<string, V>, key: string, value: V): void {
  cache.set(key, value);
  const oldest = cache.keys().next().value;
  if (cache.size > KEPT && oldest !== undefined) cache.delete(oldest);
}
