/** Figures of a workspace for dashboards. */
import type { Caller } from '../../core/caller.ts';
import { isTerminal, type RunStatus } from '../../core/events.ts';
import { sumMoney } from '../../core/money.ts';
import { findAgentNames } from '../../db/agents.ts';
import {
  countWaiting,
  listFailedTurns,
  readOwnUsage,
  readQueueStates,
  readUsage,
  type FailedTurnRow,
  type QueueState,
  type UsageFilter,
  type UsageRow,
} from '../../db/dashboard.ts';
import { hasErrorsIndex } from '../../db/errors-index.ts';
import type { Tx } from '../../db/database.ts';
import type { OwnUsageRow } from '../../db/own-model-calls.ts';
import { builtinName } from '../agents/builtin-agent.ts';

export type { FailedTurnRow, OwnUsageRow, QueueState, UsageRow };

/** Days in UTC, `to` exclusive; of one agent, if given. */
export type DashboardRange = Pick<UsageFilter, 'from' | 'to' | 'agentId'>;

export interface RunSums {
  runs: number;
  byStatus: Partial<Record<RunStatus, number>>;
  turns: number;
  steps: number;
  tokensIn: number;
  tokensOut: number;
  /** Of calls with known price. */
  costUsd: string;
  /** Number of runs with calls of unknown price. */
  unpriced: number;
  /** Of ended runs; null if there are none. */
  successRate: number | null;
  averageDurationMs: number | null;
  averageTokens: number | null;
}

/** Sums of runs, in total or by day or agent. */
export async function readRunSums(
  tx: Tx,
  caller: Caller,
  { by, ...range }: DashboardRange & { by: 'day' | 'agent' | 'all' },
): Promise<{ total: RunSums; groups: { key: string; sums: RunSums }[] }> {
  const rows = await readUsage(tx, { ...ownerOf(caller), ...range, by, kinds: ['run'] });
  const keys = by === 'all' ? [] : [...new Set(rows.map(({ key }) => key))];
  const groups = keys.map((key) => ({ key, sums: sumsOf(rows.filter((row) => row.key === key)) }));
  return { total: sumsOf(rows), groups };
}

/** Sums by agent, with the agents' names. */
export async function readAgentSums(
  tx: Tx,
  caller: Caller,
  range: DashboardRange,
): Promise<{ id: string; name: string | undefined; sums: RunSums }[]> {
  const { groups } = await readRunSums(tx, caller, { ...range, by: 'agent' });
  const names = await findAgentNames(
    tx,
    groups.map(({ key }) => key),
  );
  return groups.map(({ key: id, sums }) => ({ id, name: names.get(id) ?? builtinName(id), sums }));
}

/** Sums by model or tool, in total or by day. */
export async function readUsageSums(
  tx: Tx,
  caller: Caller,
  { kind, ...range }: DashboardRange & { kind: 'model' | 'tool' },
): Promise<UsageRow[]> {
  return readUsage(tx, { ...ownerOf(caller), ...range, by: 'all', kinds: [kind] });
}

/** Usage of Drover's own model calls that is no run's. */
export async function readOwnSums(tx: Tx, caller: Caller, range: DashboardRange): Promise<OwnUsageRow[]> {
  return readOwnUsage(tx, { ...ownerOf(caller), ...range });
}

/** The tenant's work by queue. */
export async function readQueues(tx: Tx, caller: Caller): Promise<QueueState[]> {
  return readQueueStates(tx, caller.tenantId);
}

/** A page of failed turns, newest first. */
export async function readErrors(
  tx: Tx,
  caller: Caller,
  page: Partial<DashboardRange> & { before: string | undefined; limit: number },
): Promise<FailedTurnRow[]> {
  const withoutIndex = page.agentId !== undefined && !(await hasErrorsIndex(tx));
  return listFailedTurns(tx, { ...ownerOf(caller), ...page, withoutIndex });
}

/** Numbers of open approvals and questions; of one agent, if given. */
export async function readWaitingPeople(
  tx: Tx,
  caller: Caller,
  agentId: string | undefined,
): Promise<{ approvals: number; questions: number }> {
  return countWaiting(tx, { ...ownerOf(caller), agentId });
}

function ownerOf({ tenantId, workspaceId }: Caller): Pick<UsageFilter, 'tenantId' | 'workspaceId'> {
  return { tenantId, workspaceId };
}

function sumsOf(rows: readonly UsageRow[]): RunSums {
  const sum = (of: (row: UsageRow) => number) => rows.reduce((total, row) => total + of(row), 0);
  const ended = rows.filter(({ name }) => isTerminal(name as RunStatus)).reduce((total, row) => total + row.count, 0);
  const countOf = (status: RunStatus) => sum((row) => (row.name === status ? row.count : 0));
  const byStatus: RunSums['byStatus'] = {};
  for (const { name, count } of rows) byStatus[name as RunStatus] = (byStatus[name as RunStatus] ?? 0) + count;
  const runs = sum(({ count }) => count);
  const tokensIn = sum((row) => row.tokens_in);
  const tokensOut = sum((row) => row.tokens_out);
  return {
    runs,
    byStatus,
    turns: sum(({ turns }) => turns),
    steps: sum(({ steps }) => steps),
    tokensIn,
    tokensOut,
    costUsd: sumMoney(rows.map((row) => row.cost_usd)) ?? '0',
    unpriced: sum((row) => row.unpriced),
    successRate: ended === 0 ? null : countOf('completed') / ended,
    averageDurationMs: ended === 0 ? null : Math.round(sum((row) => row.duration_ms) / ended),
    averageTokens: runs === 0 ? null : Math.round((tokensIn + tokensOut) / runs),
  };
}
