/** What a new run of an agent starts with: which version, and which tools it pins. */
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
  /** The run that it is to work for: that pins the versions of agents that there were when it began. */
  child?: { parent: Pick<Parent, 'id' | 'created_at'> } | undefined;
}

/**
 * The version that is wanted, or the current one. Throws 404 for an agent of another workspace, 409 for one that
 * is deprecated or not active, or has a tool that is gone, 422 for a version that there is not.
 */
export async function readStart(tx: Tx, wanted: WantedStart): Promise<Start> {
  const agent = await agentForRun(tx, wanted);
  return { ...agent, tools: await pinTools(tx, agent.definition) };
}

/** Throws as `readStart` does, but for the tools. */
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

/** Whether the current version may have come after the run that it is to work for had begun. */
function isSince({ sinceMs = Number.NaN }: Pick<Start, 'sinceMs'>, { child }: WantedStart): boolean {
  return child !== undefined && !(sinceMs < Date.parse(child.parent.created_at ?? ''));
}

/**
 * The same from memory, with the tenant's policy epoch under which it was read: a run that starts so is
 * committed at that version or not at all. Throws as `readStart` does.
 */
export async function cachedStart(
  context: Context,
  wanted: WantedStart & { tenantId: string },
): Promise<{ start: Start; policyEpoch: number }> {
  const { tenantId } = wanted;
  const last = context.governance.last(tenantId);
  const cached = last && context.starts.find(last, keyOf(wanted));
  if (cached) return { start: cached, policyEpoch: last.epoch };
  return context.db.withTenant(tenantId, async (tx) => {
    // The epoch is read first: a change that comes after it is seen at the commit.
    const governance = await context.governance.current(tx, tenantId);
    return { start: await startUnder(context, { tx, governance }, wanted), policyEpoch: governance.epoch };
  });
}

/** The same in a transaction that has read what governs its tenant. */
export async function startUnder(
  { starts }: Pick<Context, 'starts'>,
  { tx, governance }: { tx: Tx; governance: Governance },
  wanted: WantedStart,
): Promise<Start> {
  const key = keyOf(wanted);
  const cached = starts.find(governance, key);
  if (cached && !isSince(cached, wanted)) return cached;
  const start = await readStart(tx, wanted);
  // What a run has pinned is what its children alone start with.
  if (wanted.child === undefined || start.sinceMs !== undefined) starts.keep(governance, key, start);
  return start;
}

function keyOf({ workspaceId, agentId, config }: WantedStart): string {
  return `${workspaceId} ${agentId} ${config.agent_version ?? ''}`;
}

/**
 * Throws 403 where the caller may not raise the autonomy level, and the run would have a higher one than its agent, or is of an older
 * version by which calls are guarded less than by the current one.
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

/** The limits that a new run pins; undefined for a model that no provider knows, which fails the run when it is asked. */
export function limitsOf(
  { models }: Pick<Context, 'models'>,
  definition: AgentDefinition,
  override: string | null | undefined,
): PinnedLimits | undefined {
  const window = models.contextWindow(primaryModelOf(definition, override));
  return window && effectiveLimits(definition, window);
}
