/** Caches agent and tool versions as runs pinned them. They never change. */
import { LRUCache } from 'lru-cache';
import { BUILTIN_PLANNER } from '../../core/builtin-planner.ts';
import type { AgentDefinition } from '../../core/definition.ts';
import { BUILTIN_TOOLS } from '../../tools/builtin.ts';
import { guardedBy } from '../../core/stricter-tool.ts';
import type { ToolDefinition } from '../../core/tool.ts';
import { withOverrides } from '../../core/tool-bindings.ts';
import type { PinnedTool } from '../../core/events.ts';
import { loadAgentVersion } from '../../db/agents.ts';
import { loadToolVersions } from '../../db/tools.ts';
import type { Database, Tx } from '../../db/database.ts';
import { isBuiltinAgent } from './builtin-agent.ts';

export interface DefinitionCache {
  /** The definition and the tools by name that a run started with. Throws if a version is missing. */
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

/** For agents and tools each. */
const MOST_KEPT = 2000;
const builtins = new Map(BUILTIN_TOOLS.map((tool) => [tool.id, tool]));

/** Keeps the most recently used versions. */
export function createDefinitionCache(db: Database, mostKept = MOST_KEPT): DefinitionCache {
  const agents = new LRUCache<string, AgentDefinition>({ max: mostKept });
  const tools = new LRUCache<string, ToolDefinition>({ max: mostKept });

  const keptOf = (tenantId: string, versions: readonly Version[]): ToolDefinition[] =>
    versions
      .map((version) => builtins.get(version.id) ?? tools.get(toolKey(tenantId, version)))
      .filter((tool) => tool !== undefined);

  const kept = (pins: Pins): PinnedDefinitions | undefined => {
    const definition = agents.get(agentKey(pins));
    const versions = versionsOf(pins);
    const found = keptOf(pins.tenantId, versions);
    return definition && found.length === versions.length
      ? { definition, tools: byName(definition, pinnedTools(pins, found)) }
      : undefined;
  };

  // Combines what was found and loaded, not the cache's content afterwards: a run with more tools than are kept would
  // evict its own.
  const loadIn = async (tx: Tx, pins: Pins): Promise<PinnedDefinitions> => {
    const definition = agents.get(agentKey(pins)) ?? (await loadAgent(tx, pins));
    if (!definition) throw new Error(`agent ${pins.agentId} has no version ${pins.agentVersion}`);
    const versions = versionsOf(pins);
    const found = keptOf(pins.tenantId, versions);
    const known = new Set(found.map(pinKey));
    const missing = versions.filter((version) => !known.has(pinKey(version)));
    const loaded = missing.length === 0 ? [] : await loadToolVersions(tx, missing);
    if (loaded.length < missing.length) throw new Error(`a tool of agent ${pins.agentId} has lost its pinned version`);
    agents.set(agentKey(pins), definition);
    for (const tool of loaded) tools.set(toolKey(pins.tenantId, tool), tool);
    return { definition, tools: byName(definition, pinnedTools(pins, [...found, ...loaded])) };
  };

  return {
    load: async (pins) => kept(pins) ?? db.withTenant(pins.tenantId, (tx) => loadIn(tx, pins)),
    loadIn,
  };
}

/** The agent that is built in is in no table. */
function loadAgent(tx: Tx, { agentId, agentVersion }: Pins): Promise<AgentDefinition | undefined> {
  return isBuiltinAgent(agentId)
    ? Promise.resolve(BUILTIN_PLANNER.definition)
    : loadAgentVersion(tx, agentId, agentVersion);
}

/** A version of a tool. */
type Version = Pick<PinnedTool, 'id' | 'version'>;

const agentKey = (pins: Pins) => `${pins.tenantId}/${pins.agentId}/${pins.agentVersion}`;
const pinKey = ({ id, version }: Version) => `${id}/${version}`;
const toolKey = (tenantId: string, tool: Version) => `${tenantId}/${pinKey(tool)}`;
const byName = (definition: AgentDefinition, found: readonly ToolDefinition[]) =>
  new Map(found.map((tool) => [tool.name, withOverrides(definition, tool)]));

/** The versions that are needed for the pinned tools. */
function versionsOf({ tools }: Pins): Version[] {
  return tools.flatMap(({ id, version, guarded_by: guard }) => [
    { id, version },
    ...(guard === undefined ? [] : [{ id, version: guard }]),
  ]);
}

/** In pinned order: the provider's prompt cache compares bytes. */
function pinnedTools({ tools }: Pins, found: readonly ToolDefinition[]): ToolDefinition[] {
  const byPin = new Map(found.map((tool) => [pinKey(tool), tool]));
  return tools.flatMap((pin) => {
    const tool = byPin.get(pinKey(pin));
    const guard = pin.guarded_by && byPin.get(pinKey({ id: pin.id, version: pin.guarded_by }));
    return tool && guard ? guardedBy(tool, guard) : (tool ?? []);
  });
}
