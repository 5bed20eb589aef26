/** Briefs that agents hand on: the same one, handed from one agent to the next, is work that nobody does. Pure. */
import { sha256 } from './ids.ts';

/** The same for briefs that differ in case, space and the marks at their ends alone. */
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

/** The run among these that was asked the same; undefined if the brief is a new one. */
export function unchangedBrief(brief: string, above: readonly BriefedRun[]): BriefedRun | undefined {
  const hash = briefHash(brief);
  return above.find((run) => briefHash(run.brief) === hash);
}
