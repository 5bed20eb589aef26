/** Events of the gate and of people's decisions: what was decided about a call, asked, and answered. */
import { z } from 'zod';
import { RULE_DECISIONS } from '../policy.ts';
import { RISK_LEVELS } from '../tool.ts';
import { defineEvent, key, requestedCall, uuid } from './event.ts';

/** What an approval is about: one call, a call batch as a whole, or neither. */
const ofApproval = { approval_id: uuid, tool_call_id: uuid.optional(), plan_id: uuid.optional() };
/** A step of a call batch. The highest risk of its steps determines what the batch may do without a person (docs/design/decisions.md). */
const callBatchStep = z.object({ tool_call_id: uuid, tool: z.string(), risk_level: z.enum(RISK_LEVELS) });
const policyRef = z.object({ id: uuid, name: z.string(), version: z.int().min(1) });

export const GOVERNANCE_EVENTS = {
  /**
   * The model's proposal is invalid and was never decided on. Follows the call that it would have been, or the empty answer if
   * there is no call.
   */
  'intent.rejected': defineEvent(2, {
    tool_call_id: uuid.optional(),
    tool_use_id: z.string().optional(),
    name: z.string().optional(),
    code: z.string(),
    message: z.string(),
    /** Consecutive answers without a valid intent, this one included; 0 if another intent of it is valid. */
    attempt: z.int().min(0),
  }),

  /** The gate's decision about a call, with its stage, and the policy and version behind it. */
  'policy.decided': defineEvent(1, {
    ...requestedCall,
    decision: z.enum(RULE_DECISIONS),
    /** Any name, since logs outlive the gate's stages. */
    stage: z.string(),
    policy: policyRef.optional(),
    reason: z.string(),
  }),

  'approval.requested': defineEvent(1, {
    ...ofApproval,
    /** `unknown`: a person is asked what happened to a call. */
    kind: z.enum(['approval', 'unknown']),
    tool: z.string(),
    /** What is asked, if no call in the ledger has it. */
    arguments: z.record(z.string(), z.unknown()).optional(),
    digest: z.string(),
    expires_in_seconds: z.number(),
    /** Why a person is asked, and the policy that requires it; without a policy the autonomy matrix does. */
    message: z.string().optional(),
    policy: policyRef.optional(),
    /** Keys that took part in the turn may not approve. */
    four_eyes: z.boolean().optional(),
    /** For a call batch: the calls that wait. */
    calls: z.array(uuid).optional(),
  }),
  /** `policy`: the one that requires the approval at the time it is granted. */
  'approval.granted': defineEvent(2, {
    ...ofApproval,
    digest: z.string(),
    edited: z.boolean(),
    reason: z.string().optional(),
    policy: policyRef.nullable().optional(),
    decided_by: key,
  }),
  'approval.denied': defineEvent(1, { ...ofApproval, reason: z.string().optional(), decided_by: key }),
  /** With a reason: the approval lapsed early. */
  'approval.expired': defineEvent(1, { ...ofApproval, reason: z.string().optional() }),
  'approval.settled': defineEvent(1, {
    ...ofApproval,
    decision: z.enum(['happened', 'rerun', 'give_up']),
    reason: z.string().optional(),
    decided_by: key,
  }),

  /** Three or more calls in one answer, decided on as a whole. */
  'plan.proposed': defineEvent(1, {
    plan_id: uuid,
    purpose: z.string(),
    max_risk_level: z.enum(RISK_LEVELS),
    auto_executing: z.boolean(),
    steps: z.array(callBatchStep),
  }),
  'plan.approved': defineEvent(1, { plan_id: uuid, approval_id: uuid }),
  'plan.rejected': defineEvent(1, { plan_id: uuid, reason: z.string().optional() }),
  /** A person wants another call batch; the model reads the requested changes. */
  'plan.refined': defineEvent(1, { plan_id: uuid, feedback: z.string() }),
  'plan.started': defineEvent(1, { plan_id: uuid }),
  'plan.completed': defineEvent(1, {
    plan_id: uuid,
    status: z.enum(['completed', 'completed_with_errors']),
    /** Steps without a result of their tool. */
    failed: z.array(z.object({ tool_call_id: uuid, tool: z.string() })),
  }),
} as const;
