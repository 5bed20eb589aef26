/** The tools that a run pins at its start: its agent's, at their current versions. */
import { conflict } from '../../core/errors.ts';
import type { AgentDefinition } from '../../core/definition.ts';
import type { PinnedTool } from '../../core/events.ts';
import { toolsCalled } from '../../core/graph/tools.ts';
import { bindingOf, referencesOf, remoteNameOf } from '../../core/tool-bindings.ts';
import { PURE_BUILTINS, type ToolDefinition } from '../../core/tool.ts';
import { findTools, findToolsByRemoteName } from '../../db/tools.ts';
import type { Tx } from '../../db/database.ts';
import { BUILTIN_TOOLS } from '../../tools/builtin.ts';

/** Tools of an agent that names none: harmless ones. */
const DEFAULT_TOOLS = PURE_BUILTINS.filter((name) => name !== 'json_query');

/** If results are set aside, the model needs a tool to read them. */
function readerOf({ memory_config: memory }: AgentDefinition): string[] {
  return (memory?.short_term?.strategy ?? 'fifo') === 'fifo' ? [] : ['read_tool_output'];
}

/** Tools that the agent gives its models, by id or name. */
function namedBy(definition: AgentDefinition): string[] {
  const bindings = definition.tool_bindings ?? [];
  const named = definition.tools ?? (bindings.length > 0 ? [] : DEFAULT_TOOLS);
  const ids = bindings.flatMap(({ tool_id, is_enabled: isEnabled = true }) => (isEnabled ? (tool_id ?? []) : []));
  return [...named, ...ids, ...readerOf(definition)];
}

/** Whether an agent's models have a tool, not only nodes of its graph. */
export function isForModels(definition: AgentDefinition, tool: ToolDefinition): boolean {
  const named = namedBy(definition);
  return named.includes(tool.name) || named.includes(tool.id) || bindingOf(definition, tool) !== undefined;
}

/**
 * Pins an agent's tools. Throws 409 if one was deleted since. A binding's address without a registered tool adds none;
 * disabled bindings are not pinned.
 */
export async function pinTools(tx: Tx, definition: AgentDefinition): Promise<PinnedTool[]> {
  const bindings = definition.tool_bindings ?? [];
  const wanted = [...new Set([...namedBy(definition), ...toolsCalled(definition)])];
  const builtins = new Map(BUILTIN_TOOLS.flatMap((tool) => [[tool.id, tool] as const, [tool.name, tool] as const]));
  const others = wanted.filter((reference) => !builtins.has(reference));
  const addressed = bindings.flatMap(referencesOf).filter((reference) => !builtins.has(reference));
  const asked = [...new Set([...others, ...addressed])];
  const registered = asked.length > 0 ? await findTools(tx, asked) : [];
  const found = new Map(
    registered.flatMap(({ definition: tool }) => [[tool.id, tool] as const, [tool.name, tool] as const]),
  );
  const pins = wanted.map((reference) => {
    const tool = builtins.get(reference) ?? found.get(reference);
    if (!tool) throw conflict(`The agent's tool "${reference}" is not registered any more.`);
    return tool;
  });
  const remoteNames = bindings.flatMap((binding) => remoteNameOf(binding) ?? []);
  const remote = await findToolsByRemoteName(tx, remoteNames);
  const known = [...BUILTIN_TOOLS, ...[...registered, ...remote].map(({ definition: tool }) => tool)];
  const bound = bindings.length === 0 ? [] : known.filter((tool) => bindingOf(definition, tool));
  const enabled = [...pins, ...bound].filter((tool) => bindingOf(definition, tool)?.is_enabled ?? true);
  const pinned = enabled.map(({ id, name, version }) => ({ id, name, version }));
  return [...new Map(pinned.map((pin) => [pin.id, pin])).values()];
}

/** The same versions of tools under the guards of their current ones. Those of a deleted tool are its own: it is not called. */
export async function pinGuards(tx: Tx, pinned: readonly PinnedTool[]): Promise<PinnedTool[]> {
  const rows = await findTools(
    tx,
    pinned.map(({ id }) => id),
  );
  const current = new Map(rows.map(({ definition }) => [definition.id, definition.version]));
  return pinned.map(({ id, name, version }) => {
    const guard = current.get(id) ?? version;
    return { id, name, version, ...(guard !== version && { guarded_by: guard }) };
  });
}
