/** The built-in tool `read_tool_output`: gives a model access to outputs that were cut or set aside. */
import { LIMITS } from '../../core/limits.ts';
import type { ToolAttempt, ToolOutcome } from '../../core/tool.ts';
import type { Database } from '../../db/database.ts';
import { readOutputOfUse } from '../../db/outputs.ts';
import type { DomainArguments } from '../../tools/builtin/builtin-type.ts';

/** `{tool_use_id, offset?, limit?} → {text, next_offset?}`, in characters; only for calls in the run's own conversation. */
export async function readToolOutput(
  db: Database,
  attempt: ToolAttempt<DomainArguments['read_tool_output']>,
): Promise<ToolOutcome> {
  const { tool_use_id, offset = 0, limit = LIMITS.outputPieceChars } = attempt.arguments;
  if (attempt.runId === '') return { kind: 'error', code: 'no-run', message: 'Outputs are read within a run alone.' };
  const piece = await db.withTenant(attempt.tenantId, (tx) =>
    // One extra character tells whether more follows.
    readOutputOfUse(tx, { runId: attempt.runId, toolUseId: tool_use_id }, { from: offset, chars: limit + 1 }),
  );
  if (piece === undefined) {
    const message = `No earlier call of this conversation has the id "${tool_use_id}" and an output.`;
    return { kind: 'error', code: 'unknown-call', message };
  }
  const characters = Array.from(piece.text);
  const text = characters.slice(0, limit).join('');
  const output = characters.length > limit ? { text, next_offset: offset + limit } : { text };
  // As untrusted as the original.
  return { kind: 'succeeded', output, ...(piece.trust === 'untrusted' && { untrusted: true }) };
}
