/** Bindings of an agent's tools: which tools, which of their calls are allowed, how often, and with what settings. */
import { z } from 'zod';
import { effectOf, type ToolDefinition } from './tool.ts';

const overrides = z.strictObject({
  timeout_ms: z.int().min(1).max(3_600_000).optional(),
  retry_config: z
    .strictObject({
      max_retries: z.int().min(0).max(10).optional(),
      backoff_ms: z.int().min(0).max(60_000).optional(),
    })
    .optional(),
});

export const toolBinding = z
  .strictObject({
    tool_uri: z.string().min(1).max(2000).optional().describe('`mcp://host/tool`, `builtin://name`, or a name.'),
    tool_id: z.string().min(1).max(200).optional().describe('A registered tool by id or by name.'),
    protocol: z.string().max(50).optional(),
    permissions: z
      .array(z.enum(['read', 'write', 'execute']))
      .max(3)
      .optional()
      .describe('`read` for tools that only read, `write` for the others, `execute` for all.'),
    rate_limit: z.int().min(1).max(1_000_000).optional().describe('Calls of the agent in a minute.'),
    config_overrides: overrides.optional(),
    is_enabled: z.boolean().optional(),
  })
  .refine((binding) => binding.tool_uri ?? binding.tool_id, { message: 'names no tool: tool_uri or tool_id' })
  .meta({ id: 'ToolBinding' });
export type ToolBinding = z.output<typeof toolBinding>;

type Bound = Pick<ToolDefinition, 'id' | 'name' | 'transport'>;
type WithBindings = { tool_bindings?: readonly ToolBinding[] | undefined };

/** Possible names and ids of a binding's tool in the registry. */
export function referencesOf({ tool_id, tool_uri }: ToolBinding): string[] {
  const { name } = tool_uri === undefined ? { name: undefined } : partsOf(tool_uri);
  const names = [tool_id, name, name?.replaceAll(/[^A-Za-z0-9_]/g, '_')];
  return [...new Set(names.filter((each) => each !== undefined))];
}

/** The tool's name at its server, for bindings by address, as `plainName` writes it; the registry may add a prefix. */
export function remoteNameOf({ tool_uri }: ToolBinding): string | undefined {
  const { host, name } = tool_uri === undefined ? { host: undefined, name: '' } : partsOf(tool_uri);
  return host === undefined ? undefined : plainName(name);
}

/** The first binding that applies to a tool; undefined if none does. */
export function bindingOf({ tool_bindings: bindings = [] }: WithBindings, tool: Bound): ToolBinding | undefined {
  return bindings.find((binding) => isBoundTo(binding, tool));
}

/** Whether a binding applies to a tool. An address only matches tools at its host. */
export function isBoundTo({ tool_id, tool_uri }: ToolBinding, tool: Bound): boolean {
  if (tool_id !== undefined && (tool_id === tool.id || tool_id === tool.name)) return true;
  if (tool_uri === undefined) return false;
  const { host, name } = partsOf(tool_uri);
  if (host === undefined) return isSameName(name, tool.name) || name === tool.id;
  const { endpoint, tool: remote } = tool.transport as { endpoint?: unknown; tool?: unknown };
  if (typeof endpoint !== 'string' || !URL.canParse(endpoint) || new URL(endpoint).host !== host) return false;
  return isSameName(name, tool.name) || (typeof remote === 'string' && isSameName(name, remote));
}

/** Why a binding forbids a call; `isOverRate`: the agent has used up its calls per minute. */
export function bindingFault(
  binding: ToolBinding,
  tool: Pick<ToolDefinition, 'name' | 'risk_level' | 'annotations'>,
  isOverRate = false,
): { code: string; message: string } | undefined {
  const { is_enabled: isEnabled = true, permissions, rate_limit: most } = binding;
  if (!isEnabled) return { code: 'tool_disabled', message: `The tool "${tool.name}" is not enabled for this agent.` };
  const needed = effectOf(tool) === 'read_only' ? 'read' : 'write';
  if (permissions && !permissions.includes('execute') && !permissions.includes(needed)) {
    const message = `Permission denied: the agent's binding of "${tool.name}" lacks "${needed}".`;
    return { code: 'permission_denied', message };
  }
  if (most === undefined || !isOverRate) return undefined;
  return {
    code: 'rate_limited',
    message: `The tool "${tool.name}" was called ${most} times in the last minute: wait.`,
  };
}

/**
 * Bindings whose restrictions were loosened, with their replacements; `to` is null if there is none. This includes bindings
 * that are now preceded by a looser one, since the first that applies to a tool counts.
 */
export function loosenedBindings(
  is: readonly ToolBinding[] = [],
  was: readonly ToolBinding[] = [],
): { from: ToolBinding; to: ToolBinding | null }[] {
  return was.flatMap((before, place) => {
    if (!isLooser({}, before) || was.findIndex((other) => isSameSubject(other, before)) < place) return [];
    const now = is.findIndex((other) => isSameSubject(other, before));
    const after = is[now];
    if (!after || isLooser(after, before)) return [{ from: before, to: after ?? null }];
    const inFront = is.slice(0, now).find((other) => isLooser(other, before) && !isAmong(was.slice(0, place), other));
    return inFront ? [{ from: before, to: inFront }] : [];
  });
}

function isAmong(bindings: readonly ToolBinding[], wanted: ToolBinding): boolean {
  return bindings.some((binding) => isSameSubject(binding, wanted));
}

function isSameSubject(one: ToolBinding, other: ToolBinding): boolean {
  return one.tool_id === other.tool_id && one.tool_uri === other.tool_uri;
}

/** Whether a binding allows effects, rates or settings that another does not. Absent settings are the tool's own. */
function isLooser(is: Partial<ToolBinding>, was: Partial<ToolBinding>): boolean {
  const [now, before] = [is.config_overrides ?? {}, was.config_overrides ?? {}];
  return (
    ((is.is_enabled ?? true) && !(was.is_enabled ?? true)) ||
    effectsOf(is).some((effect) => !effectsOf(was).includes(effect)) ||
    (is.rate_limit ?? Infinity) > (was.rate_limit ?? Infinity) ||
    (now.timeout_ms ?? Infinity) > (before.timeout_ms ?? Infinity) ||
    (now.retry_config?.max_retries ?? Infinity) > (before.retry_config?.max_retries ?? Infinity) ||
    (now.retry_config?.backoff_ms ?? 0) < (before.retry_config?.backoff_ms ?? 0)
  );
}

function effectsOf({ permissions }: Partial<ToolBinding>): readonly ('read' | 'write')[] {
  if (!permissions || permissions.includes('execute')) return ['read', 'write'];
  return permissions.filter((permission) => permission !== 'execute');
}

/** The tool with its binding's settings applied. */
export function withOverrides(definition: WithBindings, tool: ToolDefinition): ToolDefinition {
  const { timeout_ms, retry_config } = bindingOf(definition, tool)?.config_overrides ?? {};
  if (timeout_ms === undefined && retry_config === undefined) return tool;
  const known = tool.execution;
  const retry = {
    max_retries: retry_config?.max_retries ?? known.retry_config.max_retries,
    backoff_ms: retry_config?.backoff_ms ?? known.retry_config.backoff_ms,
  };
  return { ...tool, execution: { ...known, timeout_ms: timeout_ms ?? known.timeout_ms, retry_config: retry } };
}

const ADDRESS = /^([a-z][a-z0-9+.-]*):\/\/([^/?#]*)\/?([^?#]*)/i;
const LOCAL: readonly string[] = ['builtin', 'tool'];

function partsOf(uri: string): { host: string | undefined; name: string } {
  const [, scheme, host = '', path = ''] = ADDRESS.exec(uri) ?? [];
  if (scheme === undefined) return { host: undefined, name: uri };
  const last = path.split('/').findLast((part) => part !== '');
  if (LOCAL.includes(scheme.toLowerCase())) return { host: undefined, name: last ?? host };
  return { host, name: last ?? host };
}

function isSameName(one: string, other: string): boolean {
  return plainName(one) === plainName(other);
}

/** A name without the differences between servers' and registries' spelling. */
function plainName(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '_');
}
