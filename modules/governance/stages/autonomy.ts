import { ASK_USER_TOOL, type RiskLevel } from '../../../core/tool.ts';
import type { GatedCall, StageVerdict } from './stage.ts';

/** What runs without a person, by autonomy level (docs/design/decisions.md; the same for single calls and for plans). */
const RUNS_ALONE: readonly (readonly RiskLevel[])[] = [
  [],
  ['READ_ONLY'],
  ['READ_ONLY', 'WRITE_LOW_RISK'],
  ['READ_ONLY', 'WRITE_LOW_RISK', 'WRITE_HIGH_RISK'],
];

const UNASKED: readonly string[] = [ASK_USER_TOOL, 'remember'];

/** The autonomy level of the run against the risk of the tool. */
export function judgeAutonomy({ tool, autonomyLevel }: GatedCall): StageVerdict | undefined {
  // Asking a person needs no person's leave, and what an agent remembers has its own rules.
  if (tool.transport.type === 'builtin' && UNASKED.includes(tool.name)) return undefined;
  if (RUNS_ALONE[autonomyLevel]?.includes(tool.risk_level)) return undefined;
  const message = `A ${tool.risk_level} call needs a person's approval at autonomy level ${autonomyLevel}.`;
  return { kind: 'ask', code: 'needs_approval', message };
}
