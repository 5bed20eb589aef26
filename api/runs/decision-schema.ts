/** A person's decision: the body of `POST /v1/approvals/{id}`, and a part of other requests. */
import { z } from 'zod';
import { badRequest } from '../../core/errors.ts';
import type { ApprovalDecision } from '../../modules/approvals/decide-approval.ts';

const reason = z.string().max(5000).optional();

export const decisionBody = z
  .strictObject({
    decision: z.enum(['approve', 'deny', 'edit', 'happened', 'rerun', 'give_up']),
    arguments: z.record(z.string(), z.unknown()).optional().describe('The arguments instead, with `edit`.'),
    result: z.unknown().optional().describe('What the call gave, with `happened`.'),
    reason,
  })
  .meta({ id: 'ApprovalDecision' });

/** Converts a body at path `where`. Throws 400 for `edit` without arguments, and for fields of another decision. */
export function toDecision(body: z.output<typeof decisionBody>, where: string): ApprovalDecision {
  const { decision } = body;
  // Silently ignored, they would seem to be approved.
  if (decision !== 'edit' && body.arguments) throw notWith(`${where}.arguments`, 'edit');
  if (decision !== 'happened' && body.result !== undefined) throw notWith(`${where}.result`, 'happened');
  if (decision === 'edit') {
    const path = `${where}.arguments`;
    if (!body.arguments) throw badRequest(`${path} is required with "edit".`, [{ path, message: 'is required' }]);
    return { decision, arguments: body.arguments, reason: body.reason };
  }
  if (decision === 'happened') return { decision, result: body.result, reason: body.reason };
  return { decision, reason: body.reason };
}

function notWith(path: string, decision: string) {
  const message = `goes with the decision "${decision}" only`;
  return badRequest(`${path} ${message}.`, [{ path, message }]);
}
