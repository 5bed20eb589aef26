/** Checks people's answers: each is delivered once, and nothing has an effect that nobody allowed. */
import { readEvent, type RunEvent } from '../../core/events.ts';
import type { RetryingClient } from './client.ts';
import type { Delivery } from './effect-server.ts';
import { findGaps, readLog } from './examine-run.ts';
import {
  answerTo,
  editedOf,
  questionsOf,
  type Approval,
  type Decided,
  type PlannedAsking,
  type StartedAsking,
  type Verdict,
} from './people.ts';
import { answerOf } from './plan.ts';

interface ExaminedPeople {
  answered: number;
  decided: number;
  /** Effects that nobody allowed. */
  unallowed: string[];
  /** Answers that did not reach the model unchanged, and decisions without their effect. */
  unheard: string[];
  gaps: string[];
  unlike: string[];
}

interface DecidedApproval extends Approval {
  status: string;
  tool_call_id: string;
}

/** What was observed of one run. */
export interface SeenAsking {
  plan: PlannedAsking;
  decided: readonly Decided[];
  /** Each approval's end, by intent, and whether its call succeeded. */
  approvals: ReadonlyMap<string, { status: string; succeeded: boolean }>;
  /** The answers that the model got, in order. */
  answers: readonly string[];
}

/** Reads each run's results, and compares them with what people said. */
export async function examinePeople(
  client: RetryingClient,
  askings: readonly StartedAsking[],
  deliveries: readonly Delivery[],
): Promise<ExaminedPeople> {
  const found: ExaminedPeople = { answered: 0, decided: 0, unallowed: [], unheard: [], gaps: [], unlike: [] };
  for (const { plan, id, decided } of askings) {
    const { status, output } = await client.get<{ status: string; output?: { message?: string } }>(`/v1/runs/${id}`);
    if (status !== 'completed' || output?.message !== answerOf(plan.label, [])) {
      found.unlike.push(`${plan.label} (${id}) is ${status} and answered ${JSON.stringify(output?.message)}`);
    }
    const log = (await readLog(client, id)).map(readEvent);
    found.gaps.push(...findGaps(plan.label, log));
    const approvals = await client.all<DecidedApproval>(`/v1/approvals?run_id=${id}`, 'approvals');
    const done = new Set(log.flatMap((event) => (event.type === 'tool.succeeded' ? [event.payload.tool_call_id] : [])));
    const ends = approvals.map(({ id: approval, status: end, tool_call_id: call }) => {
      return [decided.get(approval)?.intent ?? approval, { status: end, succeeded: done.has(call) }] as const;
    });
    const answers = await readAnswers(client, log);
    const seen = { plan, decided: [...decided.values()], approvals: new Map(ends), answers };
    const judged = judgeAsking(seen, deliveries);
    found.unallowed.push(...judged.unallowed);
    found.unheard.push(...judged.unheard);
    found.answered += answers.length;
    found.decided += decided.size;
  }
  return found;
}

/** The answers that the model got, in order. */
async function readAnswers(client: RetryingClient, log: readonly RunEvent[]): Promise<string[]> {
  const answers: string[] = [];
  for (const event of log) {
    if (event.type !== 'tool.requested' || event.payload.name !== 'ask_user') continue;
    const path = `/v1/tool-calls/${event.payload.tool_call_id}/output`;
    const { output } = await client.get<{ output: { message?: string } | null }>(path);
    answers.push(output?.message ?? '');
  }
  return answers;
}

/** Violations: each answer must arrive once and in order; effects only after and within what was allowed. */
export function judgeAsking(
  { plan, decided, approvals, answers }: SeenAsking,
  deliveries: readonly Pick<Delivery, 'intent' | 'atMs'>[],
): Pick<ExaminedPeople, 'unallowed' | 'unheard'> {
  const unheard: string[] = [];
  const unallowed: string[] = [];
  const expected = questionsOf(plan).map(answerTo);
  if (JSON.stringify(answers) !== JSON.stringify(expected)) {
    unheard.push(`${plan.label} heard ${JSON.stringify(answers)} instead of ${JSON.stringify(expected)}`);
  }
  const decisions = new Map(decided.map((each) => [each.intent, each]));
  for (const [intent, verdict] of Object.entries(plan.verdicts)) {
    const { status = 'not asked for', succeeded = false } = approvals.get(intent) ?? {};
    const allowed = allowedBy(verdict, intent, status);
    const sinceMs = decisions.get(intent)?.atMs ?? Infinity;
    const sent = deliveries.filter((each) => each.intent === intent || each.intent === editedOf(intent));
    for (const each of sent) {
      if (each.intent !== allowed) unallowed.push(`${each.intent} was sent: ${intent} is ${status} (${verdict})`);
      else if (each.atMs < sinceMs) unallowed.push(`${each.intent} was sent before anybody had decided`);
    }
    if (!STATUSES[verdict].includes(status)) unheard.push(`${intent} is ${status} (${verdict})`);
    if (succeeded && sent.length === 0) unheard.push(`${intent} has succeeded and was never sent`);
  }
  return { unallowed, unheard };
}

/** The intent that may be sent, if any. */
function allowedBy(verdict: Verdict, intent: string, status: string): string | undefined {
  if (status !== 'approved') return undefined;
  return verdict === 'edit' ? editedOf(intent) : intent;
}

const STATUSES: Record<Verdict, readonly string[]> = {
  approve: ['approved'],
  deny: ['denied'],
  edit: ['approved'],
  contest: ['approved', 'denied'],
};
