/** Replays a run from one of its checkpoints, on a thread of its own. */
import { badRequest, conflict, forbidden, type FieldError } from '../../core/errors.ts';
import { messageFaults } from '../../core/fork.ts';
import { canonicalJson } from '../../core/canonical-json.ts';
import type { AgentDefinition } from '../../core/definition.ts';
import type { WorkflowGraph } from '../../core/graph/definition.ts';
import { keptConfig, type RequestedConfig } from '../../core/run-config.ts';
import type { Tx } from '../../db/database.ts';
import { loadAgentVersion } from '../../db/agents.ts';
import { asksPeople } from '../../core/graph/loosened-nodes.ts';
import { filesTakenBy } from '../../llm/files-taken.ts';
import { primaryModelOf } from '../agents/effective-limits.ts';
import type { Context } from '../governance/context.ts';
import { checkpointRow } from '../run-log/checkpoint.ts';
import { announceAppended, type Announcement } from '../run-log/append-to-run.ts';
import { effectsOf, forkRun, type ModifiedState, type RecordedEffect } from './creation/fork-run.ts';
import { lockOriginal } from './lock-original.ts';
import { idempotently, type IdempotentAnswer, type IdempotentRequest } from '../tenants/idempotency.ts';
import { recordAudit, type AuditedBy } from '../audit/record-audit.ts';
import { firstStartPoint, startPointAt, type StartPoint } from './creation/start-point.ts';
import { takeGiven } from './creation/take-given.ts';

export interface ReplayRun {
  tenantId: string;
  runId: string;
  /** A checkpoint's id, or `start` for before the run's first turn. */
  checkpointId: string;
  mode: 'live' | 'recorded';
  rerunEffects: boolean;
  /** `pending_sends`: as they were read, or left out; `current_node`: may be another node of the graph. */
  modified: ModifiedState & { current_node?: string | undefined; pending_sends?: unknown[] | undefined };
  config: RequestedConfig;
  mayRaiseAutonomy: boolean;
  traceparent: string | undefined;
  idempotency: IdempotentRequest;
  /** The requester, for the audit log. */
  by?: AuditedBy;
}

export interface ReplayedRun {
  id: string;
  run_id: string;
  new_run_id: string;
  thread_id: string;
  turn_id?: string;
  status: 'running' | 'awaiting_human';
  forked_from_run_id: string;
  effects: RecordedEffect[];
}

/**
 * Starts the replay. Throws 404 for an unknown run or checkpoint; 400 for an invalid state; 409 for what is erased; 422 for a
 * checkpoint that does not fit its hash, an unknown model or version, and files that no message can have.
 */
export async function replayRun(context: Context, request: ReplayRun): Promise<IdempotentAnswer<ReplayedRun>> {
  context.models.resolve(request.config.model_override ?? undefined);
  let written: Announcement | undefined;
  const answer = await idempotently<ReplayedRun>(context, request.idempotency, async (tx) => {
    const { run: original } = await lockOriginal(tx, request.runId);
    if (original.kind === 'workflow') throw conflict('The run is a workflow.');
    const { checkpointId: id } = request;
    const from = id === 'start' ? await firstStartPoint(tx, original) : await startPointAt(tx, original, id);
    const { mode, rerunEffects, config, mayRaiseAutonomy, traceparent } = request;
    const version = config.agent_version ?? original.agent_version;
    const definition = await loadAgentVersion(tx, original.agent_id, version);
    const graph = definition?.workflow_graph;
    const checked = checkedState(request.modified, { from, graph });
    if (!mayRaiseAutonomy) refuseWayAround(checked, graph);
    const { messages } = checked;
    const override = keptConfig(config, original.config).model_override;
    const takenBy = (by: AgentDefinition) => filesTakenBy(context.models.resolve(primaryModelOf(by, override)));
    // Without a definition the version is unknown, and the fork refused.
    const modified =
      messages && definition
        ? { ...checked, messages: await takeGiven(tx, { original, messages, taken: () => takenBy(definition) }) }
        : checked;
    const requestedBy = request.by?.keyId;
    const options = { mode, rerunEffects, modified, config, mayRaiseAutonomy, requestedBy, traceparent };
    const forked = await forkRun(tx, { models: context.models, original, from, ...options });
    written = forked.written;
    if (rerunEffects) {
      const details = { new_run_id: forked.runId, checkpoint_id: id, effects: forked.effects.length };
      const by = request.by ?? { tenantId: request.tenantId };
      await recordAudit(tx, by, { action: 'run.effects_rerun', target: ['run', original.id], details });
    }
    const { runId, threadId, turnId, status, effects } = forked;
    const ids = {
      id: runId,
      run_id: runId,
      new_run_id: runId,
      thread_id: threadId,
      ...(turnId && { turn_id: turnId }),
    };
    return { status: 202, body: { ...ids, status, forked_from_run_id: original.id, effects } };
  });
  if (written) announceAppended(context, written);
  return answer;
}

/** The calls with which a run had, or may have had, effects outside. */
export async function effectsOfRun(tx: Tx, runId: string): Promise<RecordedEffect[]> {
  return effectsOf(tx, runId);
}

/** Validates the channels to replace. Throws 400 with all faults. */
function checkedState(
  given: ReplayRun['modified'],
  { from, graph }: { from: StartPoint; graph: WorkflowGraph | undefined },
): ModifiedState {
  const { current_node, pending_sends, messages, custom, iteration } = given;
  const path = 'body.modified_state';
  const faults: FieldError[] = messages ? messageFaults(messages, `${path}.messages`) : [];
  const row = checkpointRow({
    tenantId: '',
    runId: '',
    parentId: null,
    trigger: 'manual',
    state: from.state,
    chain: '',
    entryPoint: graph?.entry_point,
  });
  const goesTo = current_node === row.node ? undefined : current_node;
  const fault = goesTo === undefined ? undefined : faultOfNode(goesTo, { from, graph, node: row.node });
  if (fault !== undefined) faults.push({ path: `${path}.current_node`, message: fault });
  const isSame = canonicalJson(pending_sends) === canonicalJson(row.pending_sends);
  if (pending_sends && pending_sends.length > 0 && !isSame) {
    faults.push({ path: `${path}.pending_sends`, message: 'cannot be replaced: leave it as it was, or empty' });
  }
  const [first] = faults;
  if (first) throw badRequest(`${first.path} ${first.message}`, faults);
  return { messages, custom, iteration, current_node: goesTo };
}

/**
 * Throws 403 if a caller who may not decide approvals would lead a run past a human node: by naming another node, or by
 * changing data that its edges read.
 */
function refuseWayAround({ current_node, custom }: ModifiedState, graph: WorkflowGraph | undefined): void {
  const channel = current_node === undefined ? custom && 'custom' : 'current_node';
  if (channel === undefined || !asksPeople(graph)) return;
  throw forbidden(`The graph of the agent asks people: modified_state.${channel} needs the scope approvals:write.`);
}

/** Why a replay cannot continue with a node; undefined if it can. */
function faultOfNode(
  name: string,
  { from, graph, node }: { from: StartPoint; graph: WorkflowGraph | undefined; node: string },
): string | undefined {
  if (!graph) return `must be "${node}", the only node of this run`;
  if (!graph.nodes.some((each) => each.name === name)) return `the agent's graph has no node "${name}"`;
  if (from.state.turn?.begun && from.state.graph) return undefined;
  return `no turn is open at this checkpoint, and one begins with the entry point of the graph: leave it "${node}"`;
}
