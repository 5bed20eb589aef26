import { ASK_USER_TOOL, type RiskLevel } from '../../../core/tool.ts';
import type { GatedCall, StageVerdict } from './stage.ts';

/** The risks that need no approval, by autonomy level (docs/design/decisions.md; for single calls and plans alike). */
const RUNS_ALONE: readonly (readonly RiskLevel[])[] = [
  [],
  ['READ_ONLY'],
  ['READ_ONLY', 'WRITE_LOW_RISK'],
  ['READ_ONLY', 'WRITE_LOW_RISK', 'WRITE_HIGH_RISK'],
];

const UNASKED: readonly string[] = [ASK_USER_TOOL, 'remember'];

/** Compares the tool's risk with the run's autonomy level. */
export function judgeAutonomy({ tool, autonomyLevel }: GatedCall): StageVerdict | undefined {
  // Asking a person needs no approval, and memory has rules of its own.
  if (tool.transport.type === 'builtin' && UNASKED.includes(tool.name)) return undefined;
  if (RUNS_ALONE[autonomyLevel]?.includes(tool.risk_level)) return undefined;
  const message = `A ${tool.risk_level} call needs a person's approval at autonomy level ${autonomyLevel}.`;
  return { kind: 'ask', code: 'needs_approval', message };
}
