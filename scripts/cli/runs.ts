/** `drover runs`: lists, shows and follows runs. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import { backoffMs, jitteredMs } from '../../core/backoff.ts';
import { RUN_STATUSES } from '../../core/run-status.ts';
import { agentOf } from './named.ts';
import type { Client } from './client.ts';
import { CommandError, EXIT } from './errors.ts';
import {
  connected,
  id,
  idOrExternal,
  oneOf,
  someOf,
  time,
  withPage,
  withPlace,
  type Page,
  type Shared,
} from './options.ts';
import { line, plain, pretty, print, printFields, printJson, printNext, printTable } from './print.ts';
import { addRunOutput } from './run-output.ts';
import { addRunTree } from './run-tree.ts';
import { sayIfIdle } from './say-if-idle.ts';
import { sayIfUnserved } from './say-if-unserved.ts';

interface Run {
  id: string;
  agent_id: string;
  agent_version: string;
  thread_id: string;
  status: string;
  waiting_for?: { type: string; name: string | null; until: string; next_at?: string; error?: { message: string } };
  stop_reason: string | null;
  output?: { message: string };
  error?: { code: string; message: string };
  usage: { tokens_in: number; tokens_out: number; cost_usd: number | null };
  steps: number;
  created_at: string;
  completed_at: string | null;
}

/** Adds the commands. */
export function addRuns(program: Command): void {
  const runs = program.command('runs').description('runs: how they stand, what they do, and their end');
  withPage(runs.command('list'))
    .description('list runs, newest first')
    .option(
      '--status <status,…>',
      'those that are created, executing, awaiting_human, completed, failed, …',
      someOf(...RUN_STATUSES),
    )
    .option('--agent <agent>', 'of one agent, by its id, its name or ext:<external id>')
    .option('--thread <id>', 'of one thread, by its id or ext:<external id>', idOrExternal)
    .action(list);
  withPlace(runs.command('show')).description('show a run').argument('<id>', 'the run', id).action(show);
  addRunTree(runs);
  withPlace(runs.command('cancel'))
    .description('cancel a run; again is no different')
    .argument('<id>', 'the run', id)
    .option('--reason <text>', 'why')
    .action(cancel);
  withPlace(runs.command('delete'))
    .description('erase what was said in a run, cancelled first if it has not ended; again is no different')
    .argument('<id>', 'the run', id)
    .option('--dependents', 'erase the forks and later runs that stand on it, too')
    .action(erase);
  withPlace(runs.command('retry'))
    .description('retry a run that has failed, or all that fit the options')
    .argument('[id]', 'the run', id)
    .option('--status <status>', 'failed (as a rule) or cancelled', oneOf('failed', 'cancelled'))
    .option('--error-code <code>', 'those that failed with it, such as provider_unavailable')
    .option('--agent <agent>', 'of one agent, by its id, its name or ext:<external id>')
    .option('--thread <id>', 'of one thread, by its id or ext:<external id>', idOrExternal)
    .option('--created-after <time>', 'created then or later, as in 2026-11-22T10:00:00Z', time)
    .option('--created-before <time>', 'created earlier than that', time)
    .option('--dry-run', 'only say which')
    .action(retry);
  withPlace(runs.command('follow'))
    .description('show what a run does, from its start and until its end; ends with 1 if it failed or was cancelled')
    .argument('<id>', 'the run', id)
    .option('--after <seq>', 'only what comes after this place in its log')
    .action(follow);
  addRunOutput(runs);
}

type Listing = Shared & Page & { status?: string; agent?: string; thread?: string };

async function list({ status, agent, thread, limit, cursor, ...options }: Listing): Promise<void> {
  const answer = await connected(options, async (client) => {
    const query = { status, agent: agent && (await agentOf(client, agent)), thread, limit: String(limit), cursor };
    return client.get<{ runs: Run[]; next_cursor?: string }>('/v1/runs', query);
  });
  if (options.json) return printJson(answer);
  if (answer.runs.length === 0) return print('No runs.');
  const heads = ['ID', 'STATUS', 'STEPS', 'CREATED', 'OUTCOME'];
  printTable(
    heads,
    answer.runs.map((run) => [run.id, statusOf(run), String(run.steps), run.created_at, outcomeOf(run)]),
  );
  printNext(answer.next_cursor);
}

function statusOf({ status, waiting_for: waiting }: Run): string {
  return waiting ? `${status} (${waiting.type})` : status;
}

function outcomeOf({ output, error }: Run): string {
  return line(error?.message ?? output?.message ?? '', 60);
}

async function show(runId: string, options: Shared): Promise<void> {
  const found = await connected(options, (client) => client.get<Run>(`/v1/runs/${runId}`));
  if (options.json) return printJson(found);
  const { usage, error, output } = found;
  printFields({
    run: found.id,
    status: statusOf(found),
    until: found.waiting_for?.until,
    why: found.waiting_for?.error?.message,
    'stop reason': found.stop_reason,
    agent: `${found.agent_id} ${found.agent_version}`,
    thread: found.thread_id,
    steps: found.steps,
    tokens: `${usage.tokens_in} in, ${usage.tokens_out} out`,
    cost: usage.cost_usd === null ? 'unknown' : `$${usage.cost_usd}`,
    created: found.created_at,
    completed: found.completed_at,
    error: error && `${error.code}: ${error.message}`,
  });
  if (output) print(`\n${plain(output.message)}`);
}

async function cancel(runId: string, options: Shared & { reason?: string }): Promise<void> {
  const { reason } = options;
  const found = await connected(options, (client) => client.post<Run>(`/v1/runs/${runId}/cancel`, { reason }));
  if (options.json) return printJson(found);
  print(`${found.status}: ${found.id}`);
}

async function erase(runId: string, options: Shared & { dependents?: true }): Promise<void> {
  const query = options.dependents ? '?dependents=true' : '';
  const found = await connected(options, async (client) => {
    await client.delete(`/v1/runs/${runId}${query}`);
    return client.get<Run>(`/v1/runs/${runId}`);
  });
  if (options.json) return printJson(found);
  print(`erased: ${found.id}`);
}

interface Retrying extends Shared {
  status?: string;
  errorCode?: string;
  agent?: string;
  thread?: string;
  createdAfter?: string;
  createdBefore?: string;
  dryRun?: boolean;
}

interface Retried {
  retried?: number;
  matching?: number;
  run_ids?: string[];
  runs?: { run_id: string; new_run_id: string }[];
  more: boolean;
}

const FILTERS = '--status, --error-code, --agent, --thread, --created-after or --created-before';

async function retry(runId: string | undefined, options: Retrying): Promise<void> {
  const { status, errorCode, agent, thread, createdAfter, createdBefore, dryRun } = options;
  const filter = {
    status,
    error_code: errorCode,
    thread_id: thread,
    created_after: createdAfter,
    created_before: createdBefore,
  };
  if (runId !== undefined) {
    const others = [...Object.values(filter), agent, dryRun].some((value) => value !== undefined);
    if (others) throw new CommandError(EXIT.usage, 'Give either the id of a run or options, not both.');
    return retryOne(runId, options);
  }
  const isNamed = [...Object.values(filter), agent].some((value) => value !== undefined);
  if (!isNamed) throw new CommandError(EXIT.usage, `Say which: the id of a run, or ${FILTERS}.`);
  await connected(options, async (client) => {
    const of = agent === undefined ? filter : { ...filter, agent_id: await agentOf(client, agent) };
    const answer = await client.post<Retried>('/v1/runs/retry', { filter: of, ...(dryRun && { dry_run: true }) });
    if (options.json) printJson(answer);
    else printRetried(answer);
    if (answer.retried) sayIfIdle(client);
  });
}

function printRetried({ runs = [], run_ids = [], more, ...counted }: Retried): void {
  for (const { run_id, new_run_id } of runs) print(`${run_id} → ${new_run_id}`);
  for (const run_id of run_ids) print(run_id);
  const count = counted.retried ?? counted.matching ?? 0;
  const done = counted.retried === undefined ? 'would be retried' : 'retried';
  print(`${count} ${done}${more ? '; others fit, too: again' : ''}.`);
}

async function retryOne(runId: string, options: Shared): Promise<void> {
  const path = `/v1/runs/${runId}/retry`;
  await connected(options, async (client) => {
    const answer = await client.post<{ new_run_id: string }>(path, {});
    if (options.json) printJson(answer);
    else print(`${runId} → ${answer.new_run_id}`);
    sayIfIdle(client);
  });
}

const ATTEMPTS = 10;
const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5000;

async function follow(runId: string, options: Shared & { after?: string }): Promise<void> {
  await connected(options, async (client) => {
    const { status: first } = await client.get<Run>(`/v1/runs/${runId}`);
    if (client.isIdle && !ENDED.includes(first)) {
      throw new CommandError(
        EXIT.unreachable,
        'No service runs that would go on with the run. `drover start` starts one.',
      );
    }
    const stopAsking = ENDED.includes(first) ? () => undefined : sayIfUnserved(client);
    try {
      await showToEnd(client, runId, options);
    } finally {
      stopAsking();
    }
  });
}

const ENDED = ['completed', 'failed', 'cancelled'];

async function showToEnd(client: Client, runId: string, options: Shared & { after?: string }): Promise<void> {
  let lastEventId = options.after;
  // A broken stream, as during a restart of the service, is resumed.
  for (let attempt = 0; ; attempt += 1) {
    const before = lastEventId;
    lastEventId = await showStream(client, runId, { lastEventId, json: options.json === true });
    const status = await statusNow(client, runId);
    if (status === 'completed') return;
    if (status === 'failed' || status === 'cancelled') throw new CommandError(EXIT.refused, `The run is ${status}.`);
    if (lastEventId !== before) attempt = 0;
    if (attempt >= ATTEMPTS) throw new CommandError(EXIT.unreachable, 'The stream breaks again and again.');
    const waitMs = backoffMs({ firstMs: FIRST_WAIT_MS, mostMs: LONGEST_WAIT_MS, attempt: attempt + 1 });
    await delay(jitteredMs(waitMs, 0.25, Math.random()));
  }
}

/** Undefined if nothing answers. */
async function statusNow(client: Client, runId: string): Promise<string | undefined> {
  try {
    return (await client.get<Run>(`/v1/runs/${runId}`)).status;
  } catch (error) {
    if (error instanceof CommandError && error.exitCode === EXIT.unreachable) return undefined;
    throw error;
  }
}

interface Showing {
  lastEventId: string | undefined;
  json: boolean;
}

/** Shows the stream to its end or until it breaks; returns the id to resume after. */
async function showStream(client: Client, runId: string, { lastEventId, json }: Showing): Promise<string | undefined> {
  let last = lastEventId;
  try {
    for await (const message of client.follow(`/v1/runs/${runId}/stream`, last)) {
      const data = JSON.parse(message.data) as Record<string, unknown>;
      // Pieces of a text have no id; the whole text follows.
      if (data['done'] === false) continue;
      if (json) printJson({ id: message.lastEventId, event: message.event, data });
      else showEvent(message.event, data);
      last = message.lastEventId;
    }
  } catch (error) {
    if (error instanceof CommandError && error.exitCode !== EXIT.unreachable) throw error;
  }
  return last;
}

function showEvent(event: string, data: Record<string, unknown>): void {
  const text = (name: string) => (typeof data[name] === 'string' ? data[name] : '');
  const tool = plain(text('tool'));
  if (event === 'message' || event === 'thought') return print(`${event}: ${plain(text('content'))}`);
  if (event === 'tool_call') return print(`call: ${tool} ${plain(JSON.stringify(data['input']))}`);
  if (event === 'tool_result') return print(`${text('status')}: ${tool} ${resultOf(data)}`);
  if (event === 'approval') return print(`approval: ${plain(JSON.stringify(data))}`);
  if (event === 'status' && text('node') !== '')
    return print(`node: ${line(text('node'))} ${text('status')}`.trimEnd());
  if (event === 'status') {
    const { error: why, next_at: nextAt } = (data['waiting_for'] ?? {}) as NonNullable<Run['waiting_for']>;
    if (!why) return print(`status: ${text('to') || text('status')}`);
    return print(`waits for its provider: ${line(why.message, 300)} (asked again at ${line(nextAt ?? '')})`);
  }
  print(`${event}: ${event === 'done' ? text('status') : pretty(data)}`);
}

function resultOf({
  output,
  output_ref: ref,
  output_bytes: bytes,
  tool_call_id: call,
}: Record<string, unknown>): string {
  if (typeof ref === 'string') return `(${String(bytes)} bytes: drover runs output ${String(call)})`;
  return line(JSON.stringify(output ?? ''), 500);
}
