/** Agent and tool versions as a run pinned them. They never change, so a process keeps those it has seen. */
import type { AgentDefinition } from '../core/definition.ts';
import { BUILTIN_TOOLS } from '../tools/builtin.ts';
import type { ToolDefinition } from '../core/tool.ts';
import type { PinnedTool } from '../core/events.ts';
import { loadAgentVersion } from '../db/agents.ts';
import { loadToolVersions } from '../db/tools.ts';
import type { Database } from '../db/database.ts';

const KEPT = 2000;
const agents = new Map<string, AgentDefinition>();
const tools = new Map<string, ToolDefinition>();

interface Pins {
  tenant: string;
  agentId: string;
  agentVersion: string;
  tools: PinnedTool[];
}

export interface PinnedDefinitions {
  definition: AgentDefinition;
  tools: Map<string, ToolDefinition>;
}

/** The definition and the tools by name that a run started with. Throws where a version is gone. */
export async function loadDefinitions(db: Database, pins: Pins): Promise<PinnedDefinitions> {
  const agentKey = `${pins.tenant}/${pins.agentId}/${pins.agentVersion}`;
  const toolKey = (tool: PinnedTool) => `${pins.tenant}/${tool.id}/${tool.version}`;
  for (const tool of BUILTIN_TOOLS) tools.set(toolKey({ ...tool }), tool);
  const missingTools = pins.tools.filter((tool) => !tools.has(toolKey(tool)));
  if (!agents.has(agentKey) || missingTools.length > 0) {
    await db.withTenant(pins.tenant, async (tx) => {
      const definition = await loadAgentVersion(tx, pins.agentId, pins.agentVersion);
      if (definition) keep(agents, agentKey, definition);
      if (missingTools.length === 0) return;
      for (const tool of await loadToolVersions(tx, missingTools)) keep(tools, toolKey(tool), tool);
    });
  }
  const definition = agents.get(agentKey);
  if (!definition) throw new Error(`agent ${pins.agentId} has no version ${pins.agentVersion}`);
  const byName = new Map<string, ToolDefinition>();
  for (const pin of pins.tools) {
    const tool = tools.get(toolKey(pin));
    if (!tool) throw new Error(`tool ${pin.name} has no version ${pin.version}`);
    byName.set(tool.name, tool);
  }
  return { definition, tools: byName };
}

/** A pinned tool that this process has at hand. */
export function keptTool(tenant: string, pin: PinnedTool): ToolDefinition | undefined {
  return BUILTIN_TOOLS.find((tool) => tool.id === pin.id) ?? tools.get(`${tenant}/${pin.id}/${pin.version}`);
}

function keep<V>(cache: Map<string, V>, key: string, value: V): void {
  cache.set(key, value);
  const oldest = cache.keys().next().value;
  if (cache.size > KEPT && oldest !== undefined) cache.delete(oldest);
}
