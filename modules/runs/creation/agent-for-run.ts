/** The agent version that a new run starts with, and the tools that it pins. */
import { looseningOfAgent } from '../../../core/loosening.ts';
import { autonomyOf, type AgentDefinition } from '../../../core/definition.ts';
import { conflict, forbidden, impossible, notFound } from '../../../core/errors.ts';
import type { PinnedLimits } from '../../../core/events.ts';
import { findAgent, findVersionAsOf, loadAgentVersion } from '../../../db/agents.ts';
import type { Tx } from '../../../db/database.ts';
import type { Context } from '../../governance/context.ts';
import type { Governance } from '../../governance/governance.ts';
import type { Start } from '../../agents/start-cache.ts';
import { effectiveLimits, primaryModelOf } from '../../agents/effective-limits.ts';
import type { Parent } from './run-created.ts';
import { pinTools } from '../../tools-registry/pin-tools.ts';

interface WantedStart {
  agentId: string;
  workspaceId: string;
  config: { agent_version?: string | undefined };
  /** For a child: its parent, whose start pins the versions of agents. */
  child?: { parent: Pick<Parent, 'id' | 'created_at'> } | undefined;
}

/**
 * The wanted version, or the current one. Throws 404 for an agent of another workspace; 409 for one that is deprecated or
 * inactive, or lacks a tool; 422 for an unknown version.
 */
export async function readStart(tx: Tx, wanted: WantedStart): Promise<Start> {
  const agent = await agentForRun(tx, wanted);
  return { ...agent, tools: await pinTools(tx, agent.definition) };
}

/** Like `readStart`, without the tools. */
export async function agentForRun(tx: Tx, wanted: WantedStart): Promise<Omit<Start, 'tools'>> {
  const agent = await findAgent(tx, wanted.agentId, wanted.workspaceId);
  if (!agent) throw notFound('The agent');
  if (agent.status === 'deprecated') throw conflict('The agent is deprecated; it takes no new runs.');
  if (agent.definition.is_active === false)
    throw conflict('The agent is not active (is_active); it takes no new runs.');
  const version = wanted.config.agent_version;
  const sinceMs = agent.version_created_at.getTime();
  const current = { version: agent.current_version, definition: agent.definition, sinceMs };
  if (version === undefined && isSince(current, wanted)) {
    const parent = wanted.child?.parent.id ?? '';
    const then = await findVersionAsOf(tx, { agentId: agent.id, runId: parent });
    return then && then.version !== current.version ? { version: then.version, definition: then.definition } : current;
  }
  if (version === undefined || version === agent.current_version) return current;
  const definition = await loadAgentVersion(tx, agent.id, version);
  if (!definition) {
    const message = `The agent has no version ${version}.`;
    throw impossible(message, [{ path: 'body.config.agent_version', message }]);
  }
  const { autonomy_level: _level, ...loosened } = looseningOfAgent(definition, agent.definition);
  const older = { level: autonomyOf(agent.definition), loosened: Object.keys(loosened) };
  return { version, definition, older };
}

/** Whether the current version may be newer than the start of the child's parent. */
function isSince({ sinceMs = Number.NaN }: Pick<Start, 'sinceMs'>, { child }: WantedStart): boolean {
  return child !== undefined && !(sinceMs < Date.parse(child.parent.created_at ?? ''));
}

/** Like `readStart`, cached, with the tenant's policy epoch at the time: the run is committed under that epoch or not at all. */
export async function cachedStart(
  context: Context,
  wanted: WantedStart & { tenantId: string },
): Promise<{ start: Start; policyEpoch: number }> {
  const { tenantId } = wanted;
  const last = context.governance.last(tenantId);
  const cached = last && context.starts.find(last, keyOf(wanted));
  if (cached) return { start: cached, policyEpoch: last.epoch };
  return context.db.withTenant(tenantId, async (tx) => {
    // The epoch is read first, so that the commit detects later changes.
    const governance = await context.governance.current(tx, tenantId);
    return { start: await startUnder(context, { tx, governance }, wanted), policyEpoch: governance.epoch };
  });
}

/** The same in a transaction that has read its tenant's governance. */
export async function startUnder(
  { starts }: Pick<Context, 'starts'>,
  { tx, governance }: { tx: Tx; governance: Governance },
  wanted: WantedStart,
): Promise<Start> {
  const key = keyOf(wanted);
  const cached = starts.find(governance, key);
  if (cached && !isSince(cached, wanted)) return cached;
  const start = await readStart(tx, wanted);
  // A version pinned by a parent's start holds only for its children, and is not cached.
  if (wanted.child === undefined || start.sinceMs !== undefined) starts.keep(governance, key, start);
  return start;
}

function keyOf({ workspaceId, agentId, config }: WantedStart): string {
  return `${workspaceId} ${agentId} ${config.agent_version ?? ''}`;
}

/**
 * Throws 403 if the caller may not raise the autonomy level, and the run's level would exceed the agent's, or its older
 * version guards calls less than the current one.
 */
export function checkAutonomy(
  level: number | undefined,
  { definition, older }: Pick<Start, 'definition' | 'older'>,
  mayRaise: boolean,
): void {
  if (mayRaise) return;
  const own = autonomyOf(definition);
  if ((level ?? 0) > own)
    throw forbidden("Raising the autonomy level above the agent's needs the scope approvals:write.");
  if (!older) return;
  const loosened = [...((level ?? own) > older.level ? ['autonomy_level'] : []), ...older.loosened];
  if (loosened.length === 0) return;
  const what = loosened.join(', ');
  throw forbidden(
    `The current version of the agent guards calls more (${what}): this one needs the scope approvals:write.`,
  );
}

/** A run's settings, at the autonomy level of its agent's current version at most. */
export function atLevelOf<C extends { autonomy_level?: number | undefined }>(
  config: C,
  { definition, older }: Pick<Start, 'definition' | 'older'>,
): C {
  const own = autonomyOf(definition);
  const most = Math.min(own, older?.level ?? own);
  return (config.autonomy_level ?? own) > most ? { ...config, autonomy_level: most } : config;
}

/** The limits that a new run pins; undefined for a model unknown to all providers, which fails the run when asked. */
export function limitsOf(
  { models }: Pick<Context, 'models'>,
  definition: AgentDefinition,
  override: string | null | undefined,
): PinnedLimits | undefined {
  const window = models.contextWindow(primaryModelOf(definition, override));
  return window && effectiveLimits(definition, window);
}
