/** Finds changes of tools and agents that weaken the gate. New ones are compared with the defaults. */
import type { Caller } from './caller.ts';
import { DEFAULT_AUTONOMY, type AgentDefinition } from './definition.ts';
import { DroverError } from './errors.ts';
import { digestOf } from './ids.ts';
import { loosenedNodes } from './graph/loosened-nodes.ts';
import { toolParametersIn } from './provider-settings.ts';
import { hasScope } from './scopes.ts';
import { loosenedBindings } from './tool-bindings.ts';
import { DEFAULT_RISK, RISK_LEVELS, trustOf, type RiskLevel, type ToolDefinition } from './tool.ts';

/** Old and new value by field. Empty if the change is as safe as before, or safer. */
export type Loosening = Record<string, { from: unknown; to: unknown }>;

type Rated = Pick<
  ToolDefinition,
  'name' | 'risk_level' | 'annotations' | 'transport' | 'permissions' | 'accepts_tainted' | 'output_trust'
>;

/** `earlier.current` is the tool before the change. For a new tool, risk, trust and permissions of the last `deleted` one of its name count. */
export function looseningOfTool(after: Rated, earlier: { current?: Rated; deleted?: Rated | undefined }): Loosening {
  const { current, deleted } = earlier;
  const risk = current?.risk_level ?? riskier(deleted?.risk_level ?? DEFAULT_RISK, DEFAULT_RISK);
  const loosened: Loosening = {};
  if (rank(after.risk_level) < rank(risk)) loosened['risk_level'] = { from: risk, to: after.risk_level };
  for (const hint of ['readOnlyHint', 'idempotentHint'] as const) {
    if (after.annotations[hint] && !current?.annotations[hint]) loosened[hint] = { from: false, to: true };
  }
  if (after.accepts_tainted && !current?.accepts_tainted) loosened['accepts_tainted'] = { from: false, to: true };
  const before = current ?? deleted;
  if (before && trustOf(before) === 'untrusted' && trustOf(after) === 'trusted') {
    loosened['output_trust'] = { from: 'untrusted', to: 'trusted' };
  }
  const [required, requires] = [requiredBy(before), requiredBy(after)];
  if (required.some((name) => !requires.includes(name))) {
    loosened['permissions'] = { from: required, to: requires };
  }
  if (current && isLowered(current) && isLowered(after)) {
    const [from, to] = [digestOf(current.transport), digestOf(after.transport)];
    // The rating was lowered for what the tool called then. As digests, since transports may contain secrets.
    if (from !== to) loosened['transport'] = { from, to };
  }
  return loosened;
}

/** `before` is the current definition; undefined for a new agent. */
export function looseningOfAgent(after: AgentDefinition, before: AgentDefinition | undefined): Loosening {
  const loosened: Loosening = {};
  const [was, is] = [gateOf(before), gateOf(after)];
  const note = (field: keyof typeof is, looser: boolean) => {
    if (looser) loosened[field] = { from: was[field], to: is[field] };
  };
  note('autonomy_level', is.autonomy_level > was.autonomy_level);
  note('on_unknown', is.on_unknown === 'retry' && was.on_unknown !== 'retry');
  note('four_eyes', was.four_eyes && !is.four_eyes);
  note('max_calls_per_turn', (is.max_calls_per_turn ?? Infinity) > (was.max_calls_per_turn ?? Infinity));
  note('allowed_tools', !allowsNoMore(is.allowed_tools, was.allowed_tools));
  note(
    'server_tools',
    is.server_tools.some((type) => !was.server_tools.includes(type)),
  );
  note(
    'output_rails',
    was.output_rails.some((schema) => !is.output_rails.includes(schema)),
  );
  const bindings = loosenedBindings(after.tool_bindings, before?.tool_bindings);
  if (bindings.length > 0) {
    loosened['tool_bindings'] = { from: bindings.map(({ from }) => from), to: bindings.map(({ to }) => to) };
  }
  const nodes = loosenedNodes(after.workflow_graph, before?.workflow_graph);
  if (nodes.from.length > 0) loosened['workflow_graph'] = nodes;
  return loosened;
}

/** Throws 403 if something is loosened and the caller may not approve calls: without the right to allow one call, none to allow all. */
export function checkMayLoosen({ scopes }: Pick<Caller, 'scopes'>, loosened: readonly string[]): void {
  if (loosened.length === 0 || hasScope(scopes, 'approvals:write')) return;
  const detail = `This loosens what guards calls (${loosened.join(', ')}): it needs the scope "approvals:write" or "admin".`;
  throw new DroverError('forbidden', 403, detail, { extra: { scope: 'approvals:write' } });
}

/** Details for an audit row; empty if nothing was loosened. */
export function looseningDetails(loosened: Loosening): { loosened?: Loosening } {
  return Object.keys(loosened).length === 0 ? {} : { loosened };
}

/** An agent's fields that the gate reads, with defaults. */
function gateOf(agent: AgentDefinition | undefined) {
  const rails = agent?.guardrail_config?.tool_rails;
  return {
    autonomy_level: agent?.autonomy_level ?? DEFAULT_AUTONOMY,
    on_unknown: agent?.execution_config?.on_unknown ?? 'ask',
    four_eyes: agent?.execution_config?.four_eyes ?? false,
    max_calls_per_turn: rails?.max_calls_per_turn ?? null,
    allowed_tools: rails?.allowed_tools ?? ('all' as const),
    // The provider executes them: they do not pass the gate.
    server_tools: serverToolsOf(agent),
    // As digests, since nobody can tell which of two schemas is looser.
    output_rails: (agent?.guardrail_config?.output_rails ?? []).map(({ config }) => digestOf(config.schema)),
  };
}

function serverToolsOf(agent: AgentDefinition | undefined): string[] {
  const { server_tools: tools = [], api_kwargs = {} } = { ...agent?.model_preferences, ...agent?.llm_config };
  const parameters = toolParametersIn(api_kwargs).map(([name, value]) => `api_kwargs.${name} ${digestOf({ value })}`);
  return [...tools.map(({ type }) => type), ...parameters];
}

function allowsNoMore(is: 'all' | string[], was: 'all' | string[]): boolean {
  return was === 'all' || (is !== 'all' && is.every((name) => was.includes(name)));
}

/** The permissions without which an agent may not call the tool. */
function requiredBy(tool: Rated | undefined): string[] {
  return (tool?.permissions ?? []).filter(({ required }) => required).map(({ name }) => name);
}

function isLowered({ risk_level: risk, annotations, accepts_tainted: acceptsTainted }: Rated): boolean {
  const { readOnlyHint, idempotentHint } = annotations;
  return rank(risk) < rank(DEFAULT_RISK) || !!readOnlyHint || !!idempotentHint || !!acceptsTainted;
}

function riskier(one: RiskLevel, other: RiskLevel): RiskLevel {
  return rank(one) > rank(other) ? one : other;
}

function rank(risk: RiskLevel): number {
  return RISK_LEVELS.indexOf(risk);
}
