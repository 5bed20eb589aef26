import { ASK_USER_TOOL } from '../../../core/tool.ts';
import type { GatedCall, StageVerdict } from './stage.ts';

/** Asks a person about a call with effects that a model requests after reading untrusted content (docs/security.md). */
export function judgeTaint({ tool, taintedBy = [] }: GatedCall): StageVerdict | undefined {
  if (taintedBy.length === 0 || tool.risk_level === 'READ_ONLY' || tool.accepts_tainted) return undefined;
  // Asking a person is what this stage wants.
  if (tool.transport.type === 'builtin' && tool.name === ASK_USER_TOOL) return undefined;
  const message = `The model had read untrusted content in this turn (events ${shown(taintedBy)}) when it asked for this call.`;
  return { kind: 'ask', code: 'tainted', message };
}

const MOST_SHOWN = 10;

function shown(seqs: readonly number[]): string {
  return seqs.length > MOST_SHOWN ? `${seqs.slice(0, MOST_SHOWN).join(', ')}, …` : seqs.join(', ');
}
