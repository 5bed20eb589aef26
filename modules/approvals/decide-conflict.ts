/** Lets a person decide a contradiction in memory: for the new text (`approve`), the old one (`deny`), or another (`edit`). */
import type { Caller } from '../../core/caller.ts';
import { conflict, impossible } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { bytesOf } from '../../core/tool-output.ts';
import { canonicalJson } from '../../core/canonical-json.ts';
import { findAnyApproval, type ConflictRow } from '../../db/approvals.ts';
import type { Tx } from '../../db/database.ts';
import { lockMemoryOf } from '../../db/memory-lock.ts';
import { findFragment } from '../../db/memory-fragments.ts';
import { reasonGiven, recordAudit } from '../audit/record-audit.ts';
import type { Context } from '../governance/context.ts';
import { embedSoon } from '../memory/add-memory.ts';
import type { MemoryContext } from '../memory/memory-context.ts';
import { resolveMemories, type Side } from '../memory/contradictions.ts';
import { askAgain, closeConflict, endDisputes } from '../memory/conflicts.ts';
import { embedFragmentsSoon } from '../memory/embed-fragments.ts';
import { contentOf, resolveFragment } from '../memory/resolve-fragment.ts';
import type { ApprovalDecision } from './decide-approval.ts';

type Decider = Caller & { approvalId: string };

const STATUS = { approve: 'approved', deny: 'denied', edit: 'approved' } as const;
type Decision = keyof typeof STATUS;

/**
 * Decides a conflict; undefined if the approval is of another kind. Repeating a decision changes nothing. Throws 409
 * for a different or late decision, 422 for a decision or an `edit` that does not fit.
 */
export async function decideConflict(
  context: MemoryContext,
  decider: Decider,
  decided: ApprovalDecision,
): Promise<ConflictRow | undefined> {
  const { db } = context;
  const { tenantId, workspaceId, approvalId: id } = decider;
  const outcome = await db.withTenant(tenantId, async (tx): Promise<Outcome | undefined> => {
    const found = await findConflict(tx, { id, workspaceId });
    if (!found) return undefined;
    const { decision, args } = readDecision(decided);
    const approval = await asHeld(tx, found);
    if (approval.status !== 'pending') return repeated(approval, decision, args);
    if (approval.is_due) {
      await closeConflict(tx, { tenantId, workspaceId, id }, { status: 'expired' });
      return { refusal: 'The approval has expired.' };
    }
    const changed = await resolve(tx, decider, { approval, decision, args });
    const end = {
      status: STATUS[decision],
      decision,
      reason: decided.reason,
      decidedBy: decider.keyId,
      arguments: args,
    };
    if (!(await closeConflict(tx, { tenantId, workspaceId, id }, end)))
      throw conflict('The approval is decided already.');
    if (changed.gone) await endDisputes(tx, { tenantId, workspaceId, keyId: decider.keyId, ids: changed.gone });
    if (changed.again) await askAgain(tx, decider, changed.again);
    const details = { decision, kind: 'conflict', tool: approval.tool, ...reasonGiven(decided.reason) };
    await recordAudit(tx, decider, {
      action: 'approval.decided',
      target: ['approval', id],
      digest: approval.digest,
      details,
    });
    return changed;
  });
  if (!outcome) return undefined;
  if (outcome.refusal !== undefined) throw conflict(outcome.refusal);
  const { spaceId, agentId } = outcome;
  if (spaceId !== undefined) embedFragmentsSoon(context, { tenantId, spaceId });
  if (agentId !== undefined) embedSoon(context, { tenantId, agentId });
  return db.withTenant(tenantId, (tx) => findConflict(tx, { id, workspaceId }));
}

/** Expires a conflict: both sides stay, with their mark. Returns false if it was decided meanwhile. */
export async function expireConflict(
  { db }: Pick<Context, 'db'>,
  { tenantId, id }: { tenantId: string; id: string },
): Promise<boolean> {
  return db.withTenant(tenantId, async (tx) => {
    const approval = await findConflict(tx, { id });
    if (!approval) return false;
    return closeConflict(tx, { tenantId, workspaceId: approval.workspace_id, id }, { status: 'expired' });
  });
}

async function findConflict(tx: Tx, of: { id: string; workspaceId?: string }): Promise<ConflictRow | undefined> {
  const found = await findAnyApproval(tx, of);
  return found?.run_id === null ? found : undefined;
}

/** The approval read again under a lock on its subject: the same decision may have come meanwhile. */
async function asHeld(tx: Tx, approval: ConflictRow): Promise<ConflictRow> {
  const { id, workspace_id: workspaceId, subject_id: subjectId, status } = approval;
  if (status !== 'pending') return approval;
  if (approval.subject_type === 'fragment') await findFragment(tx, { id: subjectId, workspaceId, lock: true });
  else await lockMemoryOf(tx, String(approval.arguments['agent_id']));
  return (await findConflict(tx, { id, workspaceId })) ?? approval;
}

function readDecision(decided: ApprovalDecision): { decision: Decision; args: Record<string, unknown> | undefined } {
  const { decision } = decided;
  if (decision !== 'approve' && decision !== 'deny' && decision !== 'edit') {
    const message = 'must be one of approve, deny, edit for an approval of kind "conflict"';
    throw impossible(`body.decision ${message}.`, [{ path: 'body.decision', message }]);
  }
  if (decision !== 'edit') return { decision, args: undefined };
  const path = 'body.arguments.content';
  if (contentOf(decided.arguments['content']) === undefined || Object.keys(decided.arguments).length !== 1) {
    const message = 'is what is so instead, and all that an edit takes';
    throw impossible(`${path} ${message}.`, [{ path, message }]);
  }
  if (bytesOf(decided.arguments['content']) > LIMITS.fragmentBytes) {
    const message = `is longer than ${LIMITS.fragmentBytes} bytes`;
    throw impossible(`${path} ${message}.`, [{ path, message }]);
  }
  return { decision, args: decided.arguments };
}

function repeated(approval: ConflictRow, decision: Decision, args: Record<string, unknown> | undefined) {
  const isSame = approval.decision === decision && (!args || canonicalJson(args) === canonicalJson(approval.arguments));
  if (isSame) return {};
  throw conflict(`The approval is ${approval.status} already.`, { status_of_approval: approval.status });
}

interface Resolving {
  approval: ConflictRow;
  decision: Decision;
  args: Record<string, unknown> | undefined;
}

/** The space or agent whose memory has a new text; neither if it was decided before. */
interface Outcome {
  spaceId?: string;
  agentId?: string;
  /** Entries that were decided against. */
  gone?: string[];
  /** A contradiction that is open again, now that what had been written on top of it is gone. */
  again?: { earlier: ConflictRow; version: number } | undefined;
  /** Why it was not decided. */
  refusal?: string;
}

async function resolve(tx: Tx, decider: Decider, { approval, decision, args }: Resolving): Promise<Outcome> {
  const { subject_id: id, arguments: asked } = approval;
  if (approval.subject_type === 'fragment') {
    const given = decision === 'edit' ? args?.['content'] : asked[decision === 'approve' ? 'version_b' : 'version_a'];
    const content = contentOf(given);
    if (!content) throw conflict('There is nothing left to decide between.');
    const version = typeof asked['version'] === 'number' ? asked['version'] : undefined;
    const isUndecided = decision === 'deny' && 'earlier_approval_id' in asked;
    const asRead = { id, content, agentId: undefined, version, settles: false, isUndecided };
    const fragment = await resolveFragment(tx, decider, asRead);
    const earlierId = isUndecided && asked['earlier_approval_id'];
    const earlier = typeof earlierId === 'string' ? await findConflict(tx, { id: earlierId }) : undefined;
    return { spaceId: fragment.space_id, again: earlier && { earlier, version: fragment.version } };
  }
  const content = args?.['content'];
  if (decision === 'edit' && typeof content !== 'string') {
    const [path, message] = ['body.arguments.content', 'must be a text for an entry'];
    throw impossible(`${path} ${message}.`, [{ path, message }]);
  }
  if (typeof content === 'string' && content.length > LIMITS.memoryChars) {
    const [path, message] = ['body.arguments.content', `is longer than ${LIMITS.memoryChars} characters`];
    throw impossible(`${path} ${message}.`, [{ path, message }]);
  }
  const side: Side =
    typeof content === 'string' ? { content } : { keep: decision === 'approve' ? ('new' as const) : ('old' as const) };
  const also: unknown = asked['also_conflicts_with'];
  const others = Array.isArray(also) ? also.map(String) : [];
  const ids = { newer: id, older: String(asked['conflicts_with']), others };
  const agentId = String(asked['agent_id']);
  return { agentId, gone: await resolveMemories(tx, decider, { agentId, ids, side }) };
}
