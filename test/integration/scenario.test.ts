/** One story, told over HTTP alone, to real processes in each mode. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startInstallation, type Installation } from '../support/installation.ts';
import { MODES } from '../support/modes.ts';
import {
  assertSound,
  collect,
  createAgent,
  durable,
  follow,
  readLog,
  startRun,
  toolOf,
  untilRun,
  type SseMessage,
} from '../support/runs.ts';
import { waitUntil } from '../support/wait-until.ts';

for (const mode of MODES) {
  describe(`a platform in ${mode} mode`, () => {
    let drover: Installation;
    let agent: string;
    /** What the tools of this test are told, so that their deliveries can be told apart. */
    let label: string;
    const tool = (name: 'lookup' | 'record' | 'charge', args: Record<string, unknown> = {}) =>
      `${toolOf(agent, name)} ${JSON.stringify({ label, ...args })}`;
    const openRun = async () => {
      const created = await drover.call('POST', `/v1/agents/${agent}/runs`, { body: {} });
      assert.deepEqual([created.status, created.json.status], [201, 'created']);
      return { run: created.json.run_id as string, thread: created.json.thread_id as string };
    };
    const turn = (run: string, message: string, headers: Record<string, string> = {}) =>
      drover.call('POST', `/v1/runs/${run}/turns`, { body: { input: { message } }, headers });

    before(async () => {
      drover = await startInstallation(mode);
      agent = await createAgent(drover);
    });
    after(() => drover?.close());
    beforeEach(() => {
      label = randomUUID();
    });

    it('takes a turn at once, with built-in and HTTP tools, and tells of its steps', async () => {
      const { run } = await openRun();
      const script = `call calculator {"expression":"6*7"} & ${tool('record')} | call ${tool('charge')} | say fine`;
      const answer = await turn(run, script);
      assert.equal(answer.status, 200, answer.text);
      const { output, usage, checkpoint_id, turn_id } = answer.json;
      assert.deepEqual([output.message, output.status], ['fine', 'complete']);
      assert.deepEqual(
        output.tool_calls.map((call: { status: string; step: number }) => [call.status, call.step]),
        [
          ['succeeded', 1],
          ['succeeded', 1],
          ['succeeded', 2],
        ],
      );
      assert.deepEqual([usage.tokens_in, usage.tokens_out], [30, 15]);
      assert.ok(usage.cost_usd > 0);

      const detail = (await drover.call('GET', `/v1/agents/${agent}/runs/${run}/turns/${turn_id}`)).json;
      assert.deepEqual([detail.number, detail.status, detail.step_count], [1, 'complete', 3]);
      assert.equal(detail.steps.length, 3);
      assert.deepEqual(
        detail.steps.map((step: { tool_calls: unknown[] }) => step.tool_calls.length),
        [2, 1, 0],
      );
      const outputs = await Promise.all(
        detail.tool_calls.map((call: { id: string }) => drover.call('GET', `/v1/tool-calls/${call.id}/output`)),
      );
      assert.deepEqual(outputs[1].json.output, { label, count: 1 });
      assert.equal(drover.world.deliveries(label).length, 2);
      const { results } = drover.model.asked(label).at(-1) ?? { results: [] };
      assert.deepEqual(results.slice(1), [`{"count":1,"label":"${label}"}`, `{"count":2,"label":"${label}"}`]);
      assert.match(results[0] ?? '', /42/);

      const list = (await drover.call('GET', `/v1/runs/${run}/checkpoints`)).json.checkpoints;
      assert.equal(list[0].id, checkpoint_id);
      const checkpoint = (await drover.call('GET', `/v1/runs/${run}/checkpoints/${checkpoint_id}`)).json;
      assert.equal(checkpoint.sequence_num, list[0].sequence_num);
      assert.deepEqual(
        checkpoint.state.messages.map((message: { role: string }) => message.role),
        ['user', 'assistant', 'user', 'assistant', 'user', 'assistant'],
      );
      assert.deepEqual([checkpoint.state.pending_sends, checkpoint.state.iteration], [[], 3]);
      assert.match(checkpoint.integrity_hash, /^[0-9a-f]{64}$/);
      assert.equal((await drover.call('GET', `/v1/runs/${run}/checkpoints/${randomUUID()}`)).status, 404);
    });

    it('takes a turn in the background and says where to look', async () => {
      const { run } = await openRun();
      const answer = await turn(run, `wait 200 say ${label}`, { prefer: 'respond-async' });
      assert.equal(answer.status, 202, answer.text);
      assert.equal(answer.headers.get('preference-applied'), 'respond-async');
      const location = answer.headers.get('location') ?? '';
      assert.equal(location, `/v1/runs/${run}/turns/${answer.json.turn_id}`);
      await untilRun(drover, run, { states: ['awaiting_human'] });
      const done = await drover.call('GET', location);
      assert.deepEqual([done.json.status, done.json.output.message], ['complete', label]);
      const short = await turn(run, `wait 5000 say ${label}`, { prefer: 'wait=1' });
      assert.equal(short.status, 202);
      assert.equal((await drover.call('POST', `/v1/runs/${run}/cancel`, { body: {} })).status, 202);
    });

    it('streams a turn up to its done, piece by piece', async () => {
      const { run } = await openRun();
      const message = `call ${tool('lookup')} | wait 100 say two halves of an answer`;
      const events = await collect(
        follow(drover, `/v1/agents/${agent}/runs/${run}/turns/stream`, { body: { input: { message } } }),
      );
      assert.equal(events.at(-1)?.event, 'done');
      const kinds = events.map(({ event }) => event);
      for (const kind of ['status', 'tool_call', 'tool_result', 'message']) assert.ok(kinds.includes(kind), kind);
      const pieces = events.filter(({ id, event }) => id === undefined && event === 'message');
      assert.equal(pieces.map(({ data }) => data['content']).join(''), 'two halves of an answer');
      const ids = durable(events).map(({ id }) => id ?? 0);
      assert.deepEqual(
        ids,
        ids.toSorted((a, b) => a - b),
      );
      await drover.call('POST', `/v1/runs/${run}/complete`, { body: {} });
      const whole = await collect(follow(drover, `/v1/runs/${run}/stream`));
      const ofTurn = durable(whole).filter(({ data }) => data['turn_id'] !== undefined);
      assert.deepEqual(durable(events), ofTurn);
    });

    it('gives the rest of a stream after any of its events, while it runs and afterwards (lesson 6)', async () => {
      const step = `call ${tool('lookup', { ms: 30 })} & calculator {"expression":"1+1"}`;
      const { run } = await startRun(drover, agent, `${step} | wait 50 ${step} | wait 50 ${step} | say the end`);
      // Cut after every event: each reader reads one and comes back.
      const pieces: SseMessage[] = [];
      for (let lastEventId: number | undefined; ;) {
        const next = await firstDurable(follow(drover, `/v1/runs/${run}/stream`, { lastEventId }));
        if (next === undefined) break;
        pieces.push(next);
        lastEventId = next.id;
      }
      await assertSound(drover, run);
      const whole = await collect(follow(drover, `/v1/runs/${run}/stream`));
      assert.deepEqual(pieces, whole);
      assert.equal(whole.at(-1)?.event, 'done');
      const rests = await Promise.all(
        whole.map(({ id }) => collect(follow(drover, `/v1/runs/${run}/stream`, { lastEventId: id }))),
      );
      rests.forEach((rest, index) => assert.deepEqual(rest, whole.slice(index + 1)));
      const past = await drover.call('GET', `/v1/runs/${run}/stream`, {
        headers: { 'last-event-id': String(whole.at(-1)?.id) },
      });
      assert.equal(past.status, 204);
    });

    it('keeps a run open over turns until it is completed, and goes on with its thread', async () => {
      const { run, thread } = await openRun();
      for (const [index, word] of ['one', 'two', 'three'].entries()) {
        const answer = await turn(run, `call ${tool('lookup')} | say ${word} ${label}`);
        assert.equal(answer.status, 200, answer.text);
        assert.equal(answer.json.output.message, `${word} ${label}`);
        assert.equal((await drover.call('GET', `/v1/runs/${run}`)).json.turns, index + 1);
      }
      const turns = (await drover.call('GET', `/v1/runs/${run}/turns?limit=2`)).json;
      assert.deepEqual(
        turns.turns.map((each: { number: number }) => each.number),
        [1, 2],
      );
      const rest = (await drover.call('GET', `/v1/runs/${run}/turns?limit=2&cursor=${turns.next_cursor}`)).json;
      assert.deepEqual([rest.turns.length, rest.turns[0].number], [1, 3]);

      const early = await drover.call('POST', `/v1/agents/${agent}/runs`, { body: { thread_id: thread } });
      assert.deepEqual([early.status, early.json.run_id], [409, run]);
      for (let again = 0; again < 2; again++) {
        const completed = await drover.call('POST', `/v1/runs/${run}/complete`, { body: {} });
        assert.deepEqual([completed.status, completed.json.status], [200, 'completed']);
      }
      await assertSound(drover, run);
      const late = await turn(run, 'say no');
      assert.deepEqual([late.status, late.json.thread_id], [409, thread]);
      assert.equal((await drover.call('POST', `/v1/runs/${run}/cancel`, { body: {} })).status, 409);

      const body = { thread_id: thread, input: { message: `say four ${label}` } };
      const next = await drover.call('POST', `/v1/agents/${agent}/runs`, { body });
      assert.equal(next.status, 202, next.text);
      assert.equal((await untilRun(drover, next.json.run_id)).output?.message, `four ${label}`);
      const { messages } = drover.model.asked(`say four ${label}`)[0] ?? {};
      assert.equal(messages?.length, 13, 'the model sees the three turns before');
      await assertSound(drover, next.json.run_id);
    });

    it('cancels a run during a model call, a tool call, or between, at once and for good', async () => {
      const between = await openRun();
      const scripts = [`hang say ${label}`, `call ${tool('charge', { hang: true })}`];
      const runs = [between.run];
      for (const script of scripts) runs.push((await startRun(drover, agent, script)).run);
      await waitUntil('both calls are under way', () => drover.world.deliveries(label).length === 1);
      await waitUntil('both models were asked', () => drover.model.asked(label).length === 2);
      const streams = runs.map((run) => collect(follow(drover, `/v1/runs/${run}/stream`)));
      for (const run of runs) {
        const first = await drover.call('POST', `/v1/runs/${run}/cancel`, { body: { reason: 'enough' } });
        assert.deepEqual([first.status, first.json.status], [202, 'cancelled']);
        const second = await drover.call('POST', `/v1/runs/${run}/cancel`, { body: {} });
        assert.deepEqual([second.status, second.json.status], [200, 'cancelled']);
        await assertSound(drover, run, 'cancelled');
        assert.equal((await turn(run, 'say no')).status, 409);
      }
      await waitUntil('the tool is hung up on', () => drover.world.deliveries(label)[0]?.broken === true);
      const ends = (await Promise.all(streams)).map((events) => events.at(-1));
      assert.deepEqual(
        ends.map((end) => end?.event),
        ['status', 'done', 'done'],
      );
      assert.equal(drover.world.deliveries(label).length, 1);
    });

    it('refuses a second turn, and a second run on the thread, while one is under way', async () => {
      const { run, thread } = await openRun();
      const both = await Promise.all([turn(run, `wait 300 say a`), turn(run, `wait 300 say b`)]);
      assert.deepEqual(statusesOf(both), [200, 409]);
      const refused = both.find(({ status }) => status === 409);
      assert.equal(refused?.headers.get('content-type'), 'application/problem+json');
      await drover.call('POST', `/v1/runs/${run}/complete`, { body: {} });
      const body = { thread_id: thread, input: { message: 'wait 300 say c' } };
      const runs = await Promise.all([1, 2, 3].map(() => drover.call('POST', `/v1/agents/${agent}/runs`, { body })));
      assert.deepEqual(statusesOf(runs), [202, 409, 409], runs.map(({ text }) => text).join());
      const made = runs.find(({ status }) => status === 202)?.json.run_id;
      for (const { status, json } of runs) if (status === 409) assert.equal(json.run_id, made);
      await untilRun(drover, made);
    });

    it('pages through the log, after a position and by type', async () => {
      const { run } = await startRun(drover, agent, `call ${tool('lookup')} & ${tool('record')} | say done`);
      await untilRun(drover, run);
      const log = await readLog(drover, run);
      const page = async (query: string) => (await drover.call('GET', `/v1/runs/${run}/events?${query}`)).json;
      const middle = Math.floor(log.length / 2);
      assert.deepEqual((await page(`after=${middle}&limit=3`)).events, log.slice(middle, middle + 3));
      assert.deepEqual(await page(`after=${log.length}`), { events: [] });
      const types = 'tool.requested,tool.succeeded';
      const picked = log.filter(({ type }) => types.split(',').includes(type));
      assert.equal(picked.length, 4);
      assert.deepEqual((await page(`types=${types}`)).events, picked);
      const first = await page(`types=${types}&limit=1`);
      const second = await page(`types=${types}&limit=3&cursor=${first.next_cursor}`);
      assert.deepEqual([...first.events, ...second.events], picked);
      assert.equal((await drover.call('GET', `/v1/runs/${run}/events?types=tool.invented`)).status, 400);
    });

    it('does once what comes twice with one Idempotency-Key', async () => {
      const headers = { 'idempotency-key': randomUUID() };
      const body = { input: { message: `call ${tool('charge')} | say ${label}` }, config: { keep_open: true } };
      const post = (more: object = {}) =>
        drover.call('POST', `/v1/agents/${agent}/runs`, { body: { ...body, ...more }, headers });
      const answers = await Promise.all([post(), post(), post(), post()]);
      const { run_id: run } = answers[0]?.json ?? {};
      for (const answer of answers) assert.deepEqual([answer.status, answer.json], [202, answers[0]?.json]);
      assert.equal(answers.filter((answer) => answer.headers.get('idempotent-replayed') === 'true').length, 3);
      assert.equal((await post({ config: {} })).status, 422);
      await untilRun(drover, run, { states: ['awaiting_human'] });

      const message = `call ${tool('charge', { ms: 100 })} | say again ${label}`;
      const key = { 'idempotency-key': randomUUID() };
      const turns = await Promise.all([turn(run, message, key), turn(run, message, key), turn(run, message, key)]);
      for (const answer of turns) assert.deepEqual([answer.status, answer.json], [200, turns[0]?.json]);
      const later = await turn(run, message, key);
      assert.deepEqual(later.json, turns[0]?.json);
      assert.equal((await turn(run, 'say something else', key)).status, 422);
      const streamed = await collect(
        follow(drover, `/v1/runs/${run}/turns/stream`, { body: { input: { message } }, headers: key }),
      );
      assert.equal(streamed.at(-1)?.data['turn_id'], turns[0]?.json.turn_id);
      assert.equal(drover.world.deliveries(label).length, 2);
    });

    it('keeps agents, runs and events over a restart, and goes on', async () => {
      const { run } = await openRun();
      await turn(run, `call ${tool('record')} | say before`);
      const read = async () => ({
        agent: (await drover.call('GET', `/v1/agents/${agent}`)).json,
        run: (await drover.call('GET', `/v1/runs/${run}`)).json,
        runs: (await drover.call('GET', '/v1/runs?limit=200')).json,
        log: await readLog(drover, run),
      });
      const was = await read();
      await drover.endAll('SIGTERM');
      await drover.startAll();
      assert.deepEqual(await read(), was);
      const answer = await turn(run, `call ${tool('record')} | say after ${label}`);
      assert.equal(answer.json.output?.message, `after ${label}`, answer.text);
      assert.equal(drover.model.asked(`say after ${label}`)[0]?.messages.length, 5);
      await drover.call('POST', `/v1/runs/${run}/complete`, { body: {} });
      await assertSound(drover, run);
    });
  });
}

async function firstDurable(events: AsyncIterable<SseMessage>): Promise<SseMessage | undefined> {
  for await (const event of events) if (event.id !== undefined) return event;
  return undefined;
}

const statusesOf = (answers: readonly { status: number }[]) =>
  answers.map(({ status }) => status).toSorted((a, b) => a - b);
