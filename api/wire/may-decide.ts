import type { Caller } from '../../core/caller.ts';
import { forbidden } from '../../core/errors.ts';
import { hasScope } from '../../core/scopes.ts';
import type { WaitAnswer } from '../../modules/sessions/converse.ts';

/** Throws 403 if the answers include a decision and the key may make none. */
export function requireMayDecide({ scopes }: Caller, answers: readonly WaitAnswer[]): void {
  if (!answers.some(({ kind }) => kind === 'decision') || hasScope(scopes, 'approvals:write')) return;
  throw forbidden('The key does not have the scope "approvals:write", which a decision needs.');
}
