/** Agent and tool versions as a run pinned them. They never change, so a process keeps those it has seen. */
import { LRUCache } from 'lru-cache';
import type { AgentDefinition } from '../../core/definition.ts';
import { BUILTIN_TOOLS } from '../../tools/builtin.ts';
import type { ToolDefinition } from '../../core/tool.ts';
import type { PinnedTool } from '../../core/events.ts';
import { loadAgentVersion } from '../../db/agents.ts';
import { loadToolVersions } from '../../db/tools.ts';
import type { Database, Tx } from '../../db/database.ts';

export interface DefinitionCache {
  /** The definition and the tools by name that a run started with. Throws where a version is gone. */
  load(pins: Pins): Promise<PinnedDefinitions>;
  /** The same within a transaction of the tenant. */
  loadIn(tx: Tx, pins: Pins): Promise<PinnedDefinitions>;
}

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

/** Of agents, and of tools. */
const MOST_KEPT = 2000;
const builtins = new Map(BUILTIN_TOOLS.map((tool) => [tool.id, tool]));

/** Keeps the versions that were asked for last. */
export function createDefinitionCache(db: Database): DefinitionCache {
  const agents = new LRUCache<string, AgentDefinition>({ max: MOST_KEPT });
  const tools = new LRUCache<string, ToolDefinition>({ max: MOST_KEPT });

  const keptTool = (tenantId: string, pin: { id: string; version: string }) =>
    builtins.get(pin.id) ?? tools.get(toolKey(tenantId, pin));

  const kept = (pins: Pins): PinnedDefinitions | undefined => {
    const definition = agents.get(agentKey(pins));
    const pinned = pins.tools.map((pin) => keptTool(pins.tenantId, pin)).filter((tool) => tool !== undefined);
    if (!definition || pinned.length < pins.tools.length) return undefined;
    return { definition, tools: new Map(pinned.map((tool) => [tool.name, tool])) };
  };

  const loadIn = async (tx: Tx, pins: Pins): Promise<PinnedDefinitions> => {
    const cached = kept(pins);
    if (cached) return cached;
    const definition = await loadAgentVersion(tx, pins.agentId, pins.agentVersion);
    if (!definition) throw new Error(`agent ${pins.agentId} has no version ${pins.agentVersion}`);
    agents.set(agentKey(pins), definition);
    const missing = pins.tools.filter((tool) => !keptTool(pins.tenantId, tool));
    for (const tool of await loadToolVersions(tx, missing)) tools.set(toolKey(pins.tenantId, tool), tool);
    const loaded = kept(pins);
    if (!loaded) throw new Error(`a tool of run's agent ${pins.agentId} has no such version any more`);
    return loaded;
  };

  return {
    load: async (pins) => kept(pins) ?? db.withTenant(pins.tenantId, (tx) => loadIn(tx, pins)),
    loadIn,
  };
}

const agentKey = (pins: Pins) => `${pins.tenantId}/${pins.agentId}/${pins.agentVersion}`;
const toolKey = (tenantId: string, tool: { id: string; version: string }) => `${tenantId}/${tool.id}/${tool.version}`;
