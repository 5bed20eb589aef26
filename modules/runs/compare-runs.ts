/** Compares two runs step by step. */
import { textOf } from '../../core/content.ts';
import { canonicalJson } from '../../core/canonical-json.ts';
import type { Tx } from '../../db/database.ts';
import { findFork, listSteps, type StepRow } from '../../db/run-steps.ts';

/** The aspects in which steps may differ, in the order of comparison; `missing`: only one of the runs has the step. */
export const DIFFERENCES = ['missing', 'tools', 'arguments', 'results', 'message'] as const;
type Difference = (typeof DIFFERENCES)[number];

export interface ComparedStep {
  step: number;
  a: StepRow | null;
  b: StepRow | null;
  differs: Difference[];
}

/** The steps of both runs by number. A fork's first steps are its original's. */
export async function compareRuns(tx: Tx, a: string, b: string): Promise<ComparedStep[]> {
  const left = await stepsOf(tx, a);
  const right = await stepsOf(tx, b);
  const numbers = [...new Set([...left.keys(), ...right.keys()])].toSorted((one, other) => one - other);
  return numbers.map((step) => {
    const pair = { a: left.get(step) ?? null, b: right.get(step) ?? null };
    return { step, ...pair, differs: differencesOf(pair.a, pair.b) };
  });
}

const MOST_FORKS = 100;

async function stepsOf(tx: Tx, runId: string): Promise<Map<number, StepRow>> {
  const steps = new Map<number, StepRow>();
  let at: { runId: string; steps: number } | undefined = { runId, steps: 2_147_483_647 };
  for (let depth = 0; at && depth < MOST_FORKS; depth++) {
    for (const row of await listSteps(tx, at.runId, at.steps)) if (!steps.has(row.step)) steps.set(row.step, row);
    const fork = await findFork(tx, at.runId);
    at = fork && { runId: fork.run, steps: Math.min(fork.steps, at.steps) };
  }
  return steps;
}

function differencesOf(a: StepRow | null, b: StepRow | null): Difference[] {
  if (!a || !b) return ['missing'];
  const [left, right] = [aspectsOf(a), aspectsOf(b)];
  return DIFFERENCES.filter((aspect) => canonicalJson(left[aspect]) !== canonicalJson(right[aspect]));
}

function aspectsOf({ calls, content }: StepRow): Record<Difference, unknown> {
  return {
    missing: null,
    tools: calls.map((call) => call.tool),
    arguments: calls.map((call) => call.arguments),
    results: calls.map((call) => [call.status, call.output_md5]),
    message: textOf(content ?? []),
  };
}
