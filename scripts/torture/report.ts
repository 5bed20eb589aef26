/** The final table of a torture. */
import type { Findings } from './examine.ts';
import type { Injected } from './faults.ts';
import { FAULT_KINDS } from './schedule.ts';

export interface Outcome {
  /** Runs that were planned. */
  planned: number;
  findings: Findings;
  injected: readonly Injected[];
  /** Requests to the API that were sent again. */
  apiRepeats: number;
  crashes: number;
  elapsedMs: number;
}

/** Violations by name, each with its sentences; all must be empty. Includes crashes: faults must not end a process. */
export function violationsOf({ findings, planned, crashes }: Outcome): Map<string, string[]> {
  const found = findings.completed + findings.lost.length + findings.unlike.length;
  const missing = Math.max(0, planned - found);
  return new Map([
    ['lost', [...findings.lost, ...(missing > 0 ? [`${missing} runs were never started`] : [])]],
    ['ended otherwise', findings.unlike],
    ['effects repeated', findings.repeated],
    ['unknowns sent again', findings.unknownViolations],
    ['gaps in sequences', findings.gaps],
    ['projections that differ', findings.differences],
    ['stuck jobs', findings.stuck],
    ['messages forgotten', findings.forgotten],
    ['ends not told', findings.untold],
    ['outputs cut short', findings.cutShort],
    ['effects not allowed', findings.unallowed],
    ['people not heard', findings.unheard],
    ['memories lost or doubled', findings.memories],
    ['drift of budgets', findings.drift],
    ['processes that crashed', crashes > 0 ? [`${crashes} processes ended by themselves`] : []],
  ]);
}

/** The table, with violations below. */
export function describeOutcome(outcome: Outcome): string {
  const { findings } = outcome;
  const violations = violationsOf(outcome);
  const count = (name: string): Row => [name, String(violations.get(name)?.length ?? 0), 'must be 0'];
  const rows: Row[] = [
    ['runs', String(outcome.planned)],
    ['completed', String(findings.completed)],
    ['workflows completed', String(findings.workflows)],
    count('lost'),
    count('ended otherwise'),
    ['tool requests', String(findings.deliveries)],
    ['effects', String(findings.effects)],
    count('effects repeated'),
    ['unknowns', String(findings.unknowns)],
    count('unknowns sent again'),
    count('gaps in sequences'),
    count('projections that differ'),
    count('stuck jobs'),
    count('messages forgotten'),
    count('ends not told'),
    ['huge outputs', String(findings.hugeOutputs)],
    count('outputs cut short'),
    ['answers of people', String(findings.answered)],
    ['decisions of people', String(findings.decided)],
    count('effects not allowed'),
    count('people not heard'),
    ['facts remembered', String(findings.remembered)],
    count('memories lost or doubled'),
    ['model calls deferred', String(findings.deferred)],
    count('drift of budgets'),
    count('processes that crashed'),
    ['requests sent again', String(outcome.apiRepeats)],
    ...recoveryRows(findings.recoveriesMs),
    ...faultRows(outcome.injected),
    ['elapsed', `${(outcome.elapsedMs / 1000).toFixed(1)} s`],
  ];
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const lines = rows.map(([name, value, note = '']) =>
    `  ${name.padEnd(widths[0] ?? 0)}  ${value.padStart(widths[1] ?? 0)}  ${note}`.trimEnd(),
  );
  return `${[...lines, ...describeViolations(violations)].join('\n')}\n`;
}

type Row = [name: string, value: string, note?: string];

const MOST_SENTENCES = 10;

function describeViolations(violations: ReadonlyMap<string, readonly string[]>): string[] {
  return [...violations].flatMap(([name, sentences]) => {
    const more = sentences.length - MOST_SENTENCES;
    const shown = sentences.slice(0, MOST_SENTENCES).map((sentence) => `    ${sentence}`);
    if (more > 0) shown.push(`    and ${more} more`);
    return sentences.length === 0 ? [] : ['', `  ${name}:`, ...shown];
  });
}

function recoveryRows(recoveriesMs: readonly number[]): Row[] {
  if (recoveriesMs.length === 0) return [['time to recovery', '-', 'no killed worker held a run']];
  const sorted = recoveriesMs.toSorted((left, right) => left - right);
  const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
  const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
  return [
    ['time to recovery, median', seconds(median), `over ${sorted.length} runs of killed workers`],
    ['time to recovery, longest', seconds(sorted.at(-1) ?? 0)],
  ];
}

function faultRows(injected: readonly Injected[]): Row[] {
  return FAULT_KINDS.flatMap((kind): Row[] => {
    const all = injected.filter(({ fault }) => fault.kind === kind);
    const skipped = all.filter((each) => each.skipped).length;
    if (all.length === 0) return [];
    const row: Row = [`fault: ${kind}`, String(all.length - skipped), skipped > 0 ? `${skipped} more hit nothing` : ''];
    return [row, ...pointRows(all)];
  });
}

function pointRows(injected: readonly Injected[]): Row[] {
  const hits = new Map<string, number>();
  for (const { fault, skipped } of injected) {
    if (fault.point && !skipped) hits.set(fault.point.name, (hits.get(fault.point.name) ?? 0) + 1);
  }
  return [...hits].map(([name, count]) => [`  ${name}`, String(count)]);
}
