/** Logs of turns as they were written, with the pieces of answers that came between: what a stream is made of. */
import assert from 'node:assert/strict';
import { foldEvent } from '../../../api/wire/fold-turn.ts';
import { beforeTurn } from '../../../api/wire/turn-view.ts';
import { EVENT_TYPES } from '../../../core/events.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { lookAhead, streamRun, type StreamItem } from '../../../modules/runs/stream-run.ts';
import { findShownTurn, type ShownTurn } from '../../../db/shown-turns.ts';
import { DEFAULT_TENANT_ID } from '../../../modules/tenants/bootstrap.ts';
import type { ScriptedService } from '../service.ts';
import { waitUntil } from '../wait-until.ts';

export interface Recording {
  message: string;
  agent: string;
  turn: ShownTurn;
  /** In the order in which a client came to know of them. */
  items: StreamItem[];
  /** How many of them came before the turn. */
  before: number;
}

interface Script {
  message: string;
  autonomy?: number;
  /** What people decide, one thing after the other. */
  decisions?: ('approve' | 'deny')[];
  /** Where it is left: at its end unless this is said. */
  until?: 'it waits' | 'it is cancelled';
  timeoutSeconds?: number;
  graph?: object;
  /** Said while the model is held, which its message names first: `held NAME …`. Without it the model is let go once the run is watched. */
  meanwhile?: { mode: 'queue' | 'steer'; message: string };
}

const TWO = 'calculator {"expression":"6*7"} & calculator {"expression":"1/"}';
const LONG = `say ${'word after word, '.repeat(30)}`;

const llm = (name: string) => ({ name, type: 'llm', config: { tools: [] } });
const sum = { name: 'sum', type: 'tool', config: { tool: 'calculator', input: { expression: '6*7' } } };
const review = { name: 'review', type: 'human', config: { prompt: 'Good enough?' } };

/** Nodes one after the other. */
export function inTurn(...nodes: { name: string; type: string; config: object }[]): object {
  const edges = nodes.slice(1).map(({ name }, place) => ({ from: nodes[place]?.name, to: name, condition: null }));
  return { entry_point: nodes[0]?.name, nodes, edges };
}

/** Turns of all kinds. */
export const SCRIPTS: readonly Script[] = [
  { message: 'say hello' },
  { message: LONG },
  { message: `call ${TWO} | call calculator {"expression":"2"} | say It is 42.` },
  { message: `call calculator {"expression":"1"} | ${LONG}` },
  { message: `call ${TWO} & calculator {"expression":"3"} | say planned by itself` },
  { message: `call unknown_tool {} | say sorry` },
  { message: `think a sum is asked for; call calculator {"expression":"1+1"} | think ${LONG}; say It is 2.` },
  { message: 'think may I?; call calculator {"expression":"1+2"} | say never', autonomy: 0, until: 'it waits' },
  { message: `call ${TWO} | say one denied`, autonomy: 0, decisions: ['approve', 'deny'] },
  { message: `call ${TWO} | say both denied`, autonomy: 0, decisions: ['deny', 'deny'] },
  { message: `call ${TWO} & calculator {"expression":"3"} | say planned`, autonomy: 0, decisions: ['approve'] },
  { message: `call ${TWO} & calculator {"expression":"3"} | say refused`, autonomy: 0, decisions: ['deny'] },
  {
    message: 'call calculator {"expression":"4"} | call calculator {"expression":"5"} | say asked twice',
    autonomy: 0,
    decisions: ['approve', 'approve'],
  },
  { message: `call ${TWO} | say never`, autonomy: 0, until: 'it waits' },
  { message: `call ${TWO} & calculator {"expression":"3"} | say never`, autonomy: 0, until: 'it waits' },
  { message: `call ${TWO} | say half`, autonomy: 0, decisions: ['approve'], until: 'it waits' },
  { message: 'call ask_user {"question":"How much?"} | say never', until: 'it waits' },
  {
    message: 'call confirm {"a":1} & ask_user {"question":"How many?"} & calculator {"expression":"6*7"}',
    until: 'it waits',
  },
  { message: 'call calculator {"expression":"7"} | hang say late', timeoutSeconds: 1 },
  { message: 'call calculator {"expression":"8"} | hang say cancelled', until: 'it is cancelled' },
  { message: 'call ask_user {"question":"Really?"} | say never', until: 'it is cancelled' },
  { message: `call ${TWO} | call ${TWO} | call calculator {"expression":"9"} | ${LONG}` },
  // Written otherwise than the log has it.
  { message: 'call confirm {"zeta":1,"a":[1,2]} & ask_user {"question":"How few?"}', until: 'it waits' },
  { message: 'call calculator { "expression" : "1\\u002b1" } | say two' },
  { message: 'held broken break call calculator {"expression":"14"} | say mended' },
  { message: `held torn break think well; call ${TWO} | say mended`, until: 'it waits', autonomy: 0 },
  { message: 'held late call calculator {"expression":"15"} | break call calculator {"expression":"16"} | say mended' },
  { message: 'say drafted', graph: inTurn(llm('draft'), sum, llm('final')) },
  { message: 'say summed', graph: inTurn(llm('draft'), sum) },
  { message: 'say to be reviewed', graph: inTurn(llm('draft'), review, llm('final')), until: 'it waits' },
  {
    message: 'held steered call calculator {"expression":"10"} | call calculator {"expression":"1"} | say not told',
    meanwhile: { mode: 'steer', message: 'call calculator {"expression":"11"} | say as told' },
  },
  {
    message: 'held queued call calculator {"expression":"12"} | say first',
    meanwhile: { mode: 'queue', message: 'call calculator {"expression":"13"} | say second' },
  },
];

/** Records the turn of a script, from its beginning to where it is left; where a message waits for its end, both turns. */
export async function record(api: ScriptedService, script: Script): Promise<Recording[]> {
  const { message, autonomy = 2, decisions = [], until, timeoutSeconds, graph, meanwhile } = script;
  const execution_config = timeoutSeconds === undefined ? {} : { timeout_seconds: timeoutSeconds };
  const more = { execution_config, llm_config: { base_delay: 0.001 }, ...(graph && { workflow_graph: graph }) };
  const agent = await api.newAgent(undefined, { autonomy_level: autonomy, ...more });
  const config = meanwhile ? { keep_open: true } : {};
  const { json } = await api.call('POST', `/v1/agents/${agent}/runs`, { body: { input: { message }, config } });
  const path = `/v1/runs/${json.run_id}`;
  const tenantId = DEFAULT_TENANT_ID;
  const isBrokenOff = until === 'it is cancelled' && message.includes(' hang say ');
  const leave = new AbortController();
  const items: StreamItem[] = [];
  let isOver = false;
  const about = { tenantId, runId: json.run_id, signal: leave.signal };
  const recorder = watch(api.context, about, items).finally(() => (isOver = true));
  const read = async () => (await api.call('GET', path)).json;
  for (const decision of decisions) {
    await waitUntil(`${message} asks`, async () => ((await read()).waits ?? []).length > 0);
    const [{ wait_id }] = (await read()).waits;
    const body = { wait_id, decision: { decision } };
    await api.call('POST', `${path}/resume`, { body, headers: { prefer: 'respond-async' } });
    await waitUntil('it is decided', async () => !JSON.stringify((await read()).waits ?? []).includes(wait_id));
  }
  if (until === 'it is cancelled') {
    await waitUntil('it works', async () => api.model.asked(message).length > 0);
    if (isBrokenOff) await waitUntil('its answer is watched', () => items.some(({ kind }) => kind === 'delta'));
    await api.call('POST', `${path}/cancel`, { body: {} });
  }
  if (message.startsWith('held ') && !meanwhile) {
    await waitUntil('its pieces are watched', () => items.some(isAsked));
    api.model.release(message.split(' ')[1] ?? '');
  }
  if (meanwhile) await sayMeanwhile(api, { agent, threadId: json.thread_id, script, items });
  const ended = ['completed', 'failed', 'cancelled'];
  const find = () => api.context.db.withTenant(tenantId, (tx) => findShownTurn(tx, json.thread_id));
  const isLeft = async () => {
    if (until === 'it waits') return isPaused(items);
    return meanwhile ? (await find())?.isOpen === false : ended.includes((await read()).status);
  };
  const seqOf = (item: StreamItem | undefined) => (item?.kind === 'logged' ? item.event.seq : 0);
  let turn: ShownTurn | undefined;
  await waitUntil(`${message} is over and recorded`, async () => {
    // Its head is looked up once there is no more to come.
    if (!(await isLeft())) return false;
    turn = await find();
    const { head = Infinity } = turn ?? {};
    // What comes after the end of a run is in no stream. A pause that was recorded may have been answered meanwhile.
    return (isOver || items.some((item) => seqOf(item) >= head)) && (await isLeft());
  });
  assert.ok(turn);
  leave.abort();
  await recorder;
  if (isBrokenOff) await keepPartial(api.context, about, items);
  const turns = items.filter((item) => item.kind === 'logged' && item.event.type === 'turn.started').length;
  assert.equal(turns, meanwhile?.mode === 'queue' ? 2 : 1, `turns of ${message}`);
  if (meanwhile?.mode !== 'queue') return [{ message, agent, turn, items, before: 0 }];
  return twoTurns({ message, agent, turn, items, before: 0 }, meanwhile.message);
}

/** What an answer that was broken off had is logged after the end of its turn: recordings have it there, as later readers do. */
async function keepPartial(
  context: Context,
  about: { tenantId: string; runId: string },
  items: readonly StreamItem[],
): Promise<void> {
  await waitUntil('what was said is kept', async () => {
    const { events } = await lookAhead(context, { ...about, after: 0, types: ['turn.interrupted'] });
    const { partial } = events[0] ?? {};
    for (const item of items)
      if (item.kind === 'logged' && item.event.type === 'turn.interrupted') item.event.partial = partial ?? null;
    return partial != null;
  });
}

interface Meanwhile {
  agent: string;
  threadId: string;
  script: Script;
  items: readonly StreamItem[];
}

/** Lets the model go on once the message waits. */
async function sayMeanwhile(api: ScriptedService, { agent, threadId, script, items }: Meanwhile): Promise<void> {
  const { message, meanwhile } = script;
  await waitUntil('it works', () => api.model.asked(message).length > 0);
  const parts = [{ type: 'text', text: meanwhile?.message }];
  const body = { id: threadId, mode: meanwhile?.mode, messages: [{ role: 'user', parts }] };
  const told = api.call('POST', `/v1/agents/${agent}/ui-stream`, { body });
  const waits = () => items.some((item) => item.kind === 'logged' && item.event.type === 'message.queued');
  await waitUntil('the message waits', waits);
  api.model.release(message.split(' ')[1] ?? '');
  const { status, text } = await told;
  assert.equal(status, 200, text);
}

/** The turn at whose end a message waits, and the one that the message begins. */
function twoTurns(recording: Recording, message: string): Recording[] {
  const { items, turn } = recording;
  const placeOf = (type: string, turnId?: string) =>
    items.findIndex(
      (item) =>
        item.kind === 'logged' &&
        item.event.type === type &&
        (turnId === undefined || (item.event.turn_id ?? '') === turnId),
    );
  const [begins, ends, next] = [
    placeOf('turn.started'),
    placeOf('turn.completed'),
    placeOf('turn.started', turn.turnId),
  ];
  const first = items[begins];
  assert.ok(first?.kind === 'logged' && first.event.turn_id !== null && begins < ends && ends < next);
  const firstTurn = { ...turn, turnId: first.event.turn_id, start: first.event.seq };
  return [
    { ...recording, turn: firstTurn, items: items.slice(0, ends + 1) },
    { ...recording, message, before: next + 1 },
  ];
}

async function watch(
  context: Context,
  of: { tenantId: string; runId: string; signal: AbortSignal },
  items: StreamItem[],
): Promise<void> {
  const request = { ...of, after: 0, types: EVENT_TYPES, withAllPieces: true };
  for await (const item of streamRun(context, request)) items.push(...inShorterPieces(item));
}

const SHORT_CHARS = 7;

/** As they come where the model writes more slowly than a frame is long. */
function inShorterPieces(item: StreamItem): StreamItem[] {
  if (item.kind !== 'call_piece' || item.text === '') return [item];
  return Array.from({ length: Math.ceil(item.text.length / SHORT_CHARS) }, (_, place) => {
    const start = place * SHORT_CHARS;
    return { ...item, text: item.text.slice(start, start + SHORT_CHARS), at: item.at + start };
  });
}

const isAsked = (item: StreamItem) => item.kind === 'logged' && item.event.type === 'model.called';

/** Whether nothing of it goes on before somebody answers. */
function isPaused(items: readonly StreamItem[]): boolean {
  const events = items.flatMap((item) => (item.kind === 'logged' ? [item.event] : []));
  const view = beforeTurn(events.find(({ type }) => type === 'turn.started')?.turn_id ?? '');
  for (const event of events) foldEvent(view, event);
  return view.isPaused;
}
