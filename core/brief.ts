/** Briefs for other agents. The same brief passed on from agent to agent is work that nobody does. Pure. */
import { sha256 } from './ids.ts';

/** Equal for briefs that differ only in case, white space and the marks at both ends. */
function briefHash(brief: string): string {
  const words = brief.normalize('NFKC').toLowerCase().replaceAll(/\s+/gu, ' ');
  return sha256(words.replaceAll(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, '')).toString('hex');
}

/** What an agent asks of another one, as the tool `delegate` takes it. */
export interface DelegatedWork {
  description: string;
  agent?: string;
  capability?: string;
  context?: unknown;
  max_cost_tokens?: number;
}

/** A run, and what it was asked to do. */
export interface BriefedRun {
  run_id: string;
  brief: string;
}

/** Finds the run above that was given the same brief; undefined if there is none. */
export function unchangedBrief(brief: string, above: readonly BriefedRun[]): BriefedRun | undefined {
  const hash = briefHash(brief);
  return above.find((run) => briefHash(run.brief) === hash);
}
