import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { ROUTES } from '../../api/routes.ts';
import { assertAsDescribed, request, type Answer, type Call } from '../support/api.ts';
import { MODES } from '../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { createAgent, readLog, startRun, toolOf, untilRun, type LogEvent } from '../support/runs.ts';
import { startScriptedModel, type ScriptedModel } from '../support/scripted-model.ts';
import { waitUntil } from '../support/wait-until.ts';
import { startWorld, type World } from '../support/world.ts';

for (const mode of MODES) {
  describe(`replay and retry in ${mode} mode`, () => {
    let platform: TestPlatform;
    let model: ScriptedModel;
    let world: World;
    let agent: string;
    let label: string;
    const call = async (method: string, path: string, options: Call = {}): Promise<Answer> => {
      const answer = await request(`${platform.url}${path}`, method, { key: platform.apiKey, ...options });
      assertAsDescribed(ROUTES, `${method} ${path}`, answer);
      return answer;
    };
    const post = (path: string, body: unknown = {}, headers: Record<string, string> = {}) =>
      call('POST', path, { body, headers });
    const get = async (path: string) => (await call('GET', path)).json;
    const tool = (name: 'lookup' | 'record' | 'charge', more: object = {}) =>
      `${toolOf(agent, name)} ${JSON.stringify({ label, ...more })}`;
    const made = () => world.deliveries(label).length;
    const checkpointsOf = async (run: string) => (await get(`/v1/runs/${run}/checkpoints`)).checkpoints;
    const done = (run: string) => untilRun({ call }, run);
    const settled = (run: string) => untilRun({ call }, run, { states: ['awaiting_human', 'completed', 'failed'] });
    const begin = (message: string, by = agent) => startRun({ call }, by, message);
    /** Starts a replay that must be accepted; answers what it said. */
    const replay = async (run: string, body: Record<string, unknown>) => {
      const answer = await post(`/v1/runs/${run}/replay`, body);
      assert.equal(answer.status, 202, answer.text);
      return answer.json;
    };
    const responses = async (run: string) =>
      (await readLog({ call }, run)).filter(({ type }) => type === 'model.responded').map(({ payload }) => payload);
    const callsOf = async (run: string) => {
      const { turns } = await get(`/v1/runs/${run}/turns`);
      const details = [];
      for (const turn of turns) details.push(await get(`/v1/runs/${run}/turns/${turn.id}`));
      return details.flatMap((detail) => detail.tool_calls);
    };

    before(async () => {
      [model, world] = [await startScriptedModel(), await startWorld()];
      platform = await openTestPlatform(mode, {
        workers: true,
        api: true,
        env: { ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'test', DROVER_EGRESS_ALLOW: '127.0.0.1' },
      });
      agent = await createAgent({ call, world }, { execution_config: { checkpoint_frequency: 'on_change' } });
    });
    after(async () => {
      await platform.close();
      await Promise.all([model.close(), world.close()]);
    });
    beforeEach(() => {
      label = randomUUID();
    });

    describe('a replay', () => {
      it('goes on in the middle of a turn and answers effects from the record', async () => {
        const { run } = await begin(
          `call ${tool('lookup')} | call ${tool('charge')} & ${tool('record')} | say all ${label}`,
        );
        await done(run);
        assert.equal(made(), 3);
        const first = (await checkpointsOf(run)).at(-1);
        const started = await replay(run, { checkpoint_id: first.id });
        assert.equal(started.status, 'running');
        assert.deepEqual(
          started.effects.map((effect: { tool: string }) => effect.tool),
          [toolOf(agent, 'charge'), toolOf(agent, 'record')],
        );
        assert.notEqual(started.thread_id, (await get(`/v1/runs/${run}`)).thread_id);
        const end = await done(started.new_run_id);
        assert.deepEqual([end.status, end.output?.message], ['completed', `all ${label}`]);
        assert.equal(end['forked_from_run_id'], run);
        assert.equal(end['forked_at_seq'], first.sequence_num);
        assert.equal(made(), 4, 'only what reads is called again');
        const calls = await callsOf(started.new_run_id);
        const effects = new Set(started.effects.map((effect: { tool_call_id: string }) => effect.tool_call_id));
        assert.deepEqual(
          calls.map((each: { recorded_from: string | null }) => effects.has(each.recorded_from)),
          [false, true, true],
        );
        const { results } = model.asked(label).at(-1) ?? { results: [] };
        assert.deepEqual(results.slice(1), model.asked(label)[2]?.results.slice(1));
        const [answer] = await responses(started.new_run_id);
        assert.equal(answer?.['recorded'], true, 'the answer before the point is not asked for again');
        assert.equal(model.asked(label).length, 3 + 2);
        await assertSoundFork(started.new_run_id, 1);
      });

      it('makes effects again where that is asked for, by those who may', async () => {
        const { run } = await begin(`call ${tool('charge')} | say ok ${label}`);
        await done(run);
        const [, first] = await checkpointsOf(run);
        const body = { checkpoint_id: first.id, rerun_effects: true };
        const { key } = (await post('/v1/api-keys', { name: 'writer', scopes: ['runs:write'] })).json;
        assert.equal((await call('POST', `/v1/runs/${run}/replay`, { key, body })).status, 403);
        const started = await replay(run, body);
        assert.equal(started.effects.length, 1);
        assert.equal((await done(started.run_id)).status, 'completed');
        assert.equal(made(), 2);
        const keys = new Set(world.deliveries(label).map((delivery) => delivery.key));
        assert.equal(keys.size, 2, 'it is another call for the tool, too');
      });

      it('asks the turn that followed again, from the end of the one before', async () => {
        const run = await openRun();
        await take(run, `say one ${label}`);
        const [end] = await checkpointsOf(run);
        await take(run, `call ${tool('charge')} | say two ${label}`);
        const started = await replay(run, { checkpoint_id: end.id });
        const state = await settled(started.run_id);
        assert.equal(state.status, 'awaiting_human');
        assert.equal(state.output?.message, `two ${label}`);
        assert.equal(made(), 1);
        assert.equal(state['turns'], 2);
        assert.equal(model.asked(`say two ${label}`).at(-1)?.messages[0]?.role, 'user');
        // Once its record is used up, the same call is a new one.
        await take(started.run_id, `call ${tool('charge')} | say three ${label}`);
        assert.equal(made(), 2);
        await post(`/v1/runs/${started.run_id}/complete`);
        await assertSoundFork(started.run_id, 1);
      });

      it('waits for a turn where none followed', async () => {
        const { run } = await begin(`say end ${label}`);
        await done(run);
        const [end] = await checkpointsOf(run);
        const started = await replay(run, { checkpoint_id: end.id });
        assert.deepEqual([started.status, started.turn_id], ['awaiting_human', undefined]);
        const turn = await take(started.run_id, `say more ${label}`);
        assert.equal(turn.output.message, `more ${label}`);
        assert.equal(model.asked(`say more ${label}`)[0]?.messages.length, 3);
        await post(`/v1/runs/${started.run_id}/complete`);
        await assertSoundFork(started.run_id, 1);
      });

      it('starts from the very start with another model', async () => {
        const { run } = await begin(`call ${tool('charge')} | say ok ${label}`);
        await done(run);
        const model_override = 'anthropic/claude-other';
        const started = await replay(run, { checkpoint_id: 'start', config: { model_override } });
        assert.equal((await done(started.run_id)).status, 'completed');
        assert.deepEqual(
          (await responses(started.run_id)).map(({ model: by }) => by),
          ['claude-other', 'claude-other'],
        );
        assert.equal(made(), 1);
      });

      it('starts with another version of the agent', async () => {
        const other = await createAgent({ call, world });
        const { run } = await begin(`say ok ${label}`, other);
        await done(run);
        const version = (await call('PATCH', `/v1/agents/${other}`, { body: { system_prompt: 'Be other.' } })).json
          .version;
        const started = await replay(run, { checkpoint_id: 'start', config: { agent_version: version } });
        assert.equal((await done(started.run_id))['agent_version'], version);
        const unknown = await post(`/v1/runs/${run}/replay`, {
          checkpoint_id: 'start',
          config: { agent_version: '9.9.9' },
        });
        assert.equal(unknown.status, 422);
      });

      it('is made once for one Idempotency-Key', async () => {
        const { run } = await begin(`say ok ${label}`);
        await done(run);
        const headers = { 'idempotency-key': randomUUID() };
        const answers = await Promise.all(
          [1, 2, 3].map(() => post(`/v1/runs/${run}/replay`, { checkpoint_id: 'start' }, headers)),
        );
        for (const answer of answers) assert.deepEqual(answer.json, answers[0]?.json);
        assert.equal(
          (await post(`/v1/runs/${run}/replay`, { checkpoint_id: 'start', mode: 'recorded' }, headers)).status,
          422,
        );
        await done(answers[0]?.json.run_id);
      });

      it('can itself be replayed, and knows what both have done', async () => {
        const { run } = await begin(`call ${tool('charge')} | call ${tool('lookup')} | say ok ${label}`);
        await done(run);
        const [second] = (await checkpointsOf(run)).slice(1);
        const one = await replay(run, { checkpoint_id: second.id });
        assert.deepEqual(one.effects, []);
        await done(one.run_id);
        const two = await replay(one.run_id, { checkpoint_id: 'start' });
        assert.equal((await done(two.run_id)).output?.message, `ok ${label}`);
        assert.equal(world.deliveries(label).length, 1 + 3);
        const three = await replay(run, { checkpoint_id: 'start' });
        await done(three.run_id);
        const four = await replay(three.run_id, { checkpoint_id: 'start' });
        await done(four.run_id);
        const charges = world.deliveries(label).length - 5;
        assert.equal(charges, 1, 'it was charged once, by the first run');
      });

      it('refuses what it cannot do', async () => {
        const { run } = await begin(`say ok ${label}`);
        await done(run);
        const [end] = await checkpointsOf(run);
        const status = async (body: unknown) => (await post(`/v1/runs/${run}/replay`, body)).status;
        assert.equal(await status({}), 400);
        assert.equal(await status({ checkpoint_id: randomUUID() }), 404);
        assert.equal(await status({ checkpoint_id: end.id, mode: 'dry' }), 400);
        assert.equal(await status({ checkpoint_id: end.id, modified_state: { memory: [] } }), 400);
        assert.equal(await status({ checkpoint_id: end.id, modified_state: { current_node: 'other' } }), 400);
        assert.equal(await status({ checkpoint_id: end.id, config: { model_override: 'nobody/knows' } }), 422);
        const use = { type: 'tool_use', id: 'toolu_1', name: 'calculator', input: {} };
        const messages = [
          { role: 'user', content: [{ type: 'text', text: 'hi' }] },
          { role: 'assistant', content: [use] },
        ];
        const refused = await post(`/v1/runs/${run}/replay`, { checkpoint_id: end.id, modified_state: { messages } });
        assert.equal(refused.status, 400);
        assert.equal(refused.json.errors[0].path, 'body.modified_state.messages.1.content');
      });
    });

    describe('a replay with another state', () => {
      it('answers a question that was put in the place of the first one', async () => {
        const { run } = await begin(`say one ${label}`);
        await done(run);
        const [end] = await checkpointsOf(run);
        const { state } = await get(`/v1/runs/${run}/checkpoints/${end.id}`);
        const messages = [{ role: 'user', content: [{ type: 'text', text: `say other ${label}` }] }];
        const started = await replay(run, {
          checkpoint_id: end.id,
          modified_state: { ...state, messages, custom: { tone: 'dry' } },
        });
        assert.equal((await done(started.run_id)).output?.message, `other ${label}`);
        const [saved] = await checkpointsOf(started.run_id);
        const after = (await get(`/v1/runs/${started.run_id}/checkpoints/${saved.id}`)).state;
        assert.deepEqual(after.messages[0], messages[0]);
        assert.deepEqual(after.custom, { tone: 'dry' });
        assert.equal((await get(`/v1/runs/${run}/checkpoints/${end.id}`)).state.messages.length, 2);
        await assertSoundFork(started.run_id, 1);
      });

      it('shares the messages that are the same, and goes on with the turn after an edited result', async () => {
        const { run } = await begin(`call ${tool('lookup')} | say it ${label}`);
        await done(run);
        const first = (await checkpointsOf(run)).at(-1);
        const { state } = await get(`/v1/runs/${run}/checkpoints/${first.id}`);
        const messages = structuredClone(state.messages);
        messages[2].content[0].content = 'edited';
        const started = await replay(run, { checkpoint_id: first.id, modified_state: { ...state, messages } });
        assert.equal((await done(started.run_id)).status, 'completed');
        assert.deepEqual(model.asked(label).at(-1)?.results, ['edited']);
        const [created] = await readLog({ call }, started.run_id);
        const base = created?.payload['lineage_base'] as { length: number }[];
        assert.deepEqual([base.map(({ length }) => length), created?.payload['base_length']], [[2], 3]);
        await assertSoundFork(started.run_id, 2);
      });
    });

    describe('a recorded replay', () => {
      it('asks nobody while its requests are those of the record', async () => {
        const { run } = await begin(
          `call ${tool('lookup')} & calculator {"expression":"6*7"} | call ${tool('charge')} | say ${label}`,
        );
        const was = await done(run);
        const asked = model.asked(label).length;
        const started = await replay(run, { checkpoint_id: 'start', mode: 'recorded' });
        const end = await done(started.run_id);
        assert.deepEqual([end.status, end.output?.message], ['completed', label]);
        assert.deepEqual([model.asked(label).length, made()], [asked, 2]);
        assert.deepEqual(end['usage'], { tokens_in: 0, tokens_out: 0, cost_usd: 0 });
        assert.notDeepEqual(was['usage'], end['usage']);
        for (const payload of await responses(started.run_id)) {
          assert.deepEqual([payload['recorded'], payload['cost_usd']], [true, '0']);
        }
        const compared = await get(`/v1/runs/${run}/compare/${started.run_id}`);
        assert.equal(compared.first_difference, null);
        assert.deepEqual(
          compared.steps.map((step: { same: boolean }) => step.same),
          [true, true, true],
        );
      });

      it('marks the first request that differs, and is live from there on', async () => {
        const { run } = await begin(`call ${tool('lookup')} | say ${label}`);
        await done(run);
        const config = { model_override: 'anthropic/claude-other' };
        const started = await replay(run, { checkpoint_id: 'start', mode: 'recorded', config });
        assert.equal((await done(started.run_id)).status, 'completed');
        const marks = (await responses(started.run_id)).map(({ recorded, differs }) => [recorded, differs]);
        assert.deepEqual(marks, [
          [undefined, ['model']],
          [undefined, undefined],
        ]);
        assert.equal(made(), 2);
      });

      it('goes on live where the record ends', async () => {
        const { run } = await begin(`call ${tool('lookup')} | hang say ${label}`);
        await waitUntil('the model hangs', () => model.asked(label).length === 2);
        await post(`/v1/runs/${run}/cancel`);
        const started = await replay(run, { checkpoint_id: 'start', mode: 'recorded' });
        assert.equal((await done(started.run_id)).output?.message, label);
        const marks = (await responses(started.run_id)).map(({ recorded, differs }) => [recorded, differs]);
        assert.deepEqual(marks, [
          [true, undefined],
          [undefined, ['end_of_record']],
        ]);
        assert.equal(made(), 1);
      });
    });

    describe('a retry', () => {
      it('goes on from the last checkpoint without doing anything twice', async () => {
        const { run, thread } = await begin(`call ${tool('charge')} | hang say ${label}`);
        await waitUntil('the model hangs', () => model.asked(label).length === 2);
        assert.equal((await post(`/v1/runs/${run}/retry`)).status, 409);
        await post(`/v1/runs/${run}/cancel`);
        const headers = { 'idempotency-key': randomUUID() };
        const answer = await post(`/v1/runs/${run}/retry`, {}, headers);
        assert.equal(answer.status, 202, answer.text);
        const { new_run_id, thread_id, turn_id, status, retried_from } = answer.json;
        assert.deepEqual([thread_id, status, retried_from], [thread, 'running', run]);
        assert.deepEqual((await post(`/v1/agents/${agent}/runs/${run}/retry`, {}, headers)).json, answer.json);
        const end = await done(new_run_id);
        assert.deepEqual([end.status, end.output?.message, end['retried_from']], ['completed', label, run]);
        assert.equal(made(), 1);
        assert.equal((await get(`/v1/runs/${new_run_id}/turns/${turn_id}`)).status, 'complete');
        await assertSoundFork(new_run_id, 1);

        assert.equal((await post(`/v1/runs/${new_run_id}/retry`)).status, 409, 'it is completed');
        const again = await post(`/v1/runs/${run}/retry`);
        assert.deepEqual([again.status, again.json.run_id], [409, new_run_id]);
        const next = await post(`/v1/agents/${agent}/runs`, {
          thread_id: thread,
          input: { message: `say next ${label}` },
        });
        assert.equal((await done(next.json.run_id)).output?.message, `next ${label}`);
        assert.equal(model.asked(`say next ${label}`)[0]?.messages.length, 5);
      });

      it('asks the input again where there is no checkpoint, and remembers over several retries', async () => {
        const plain = await createAgent({ call, world }, { execution_config: { timeout_seconds: 1 } });
        const charge = `${toolOf(plain, 'charge')} ${JSON.stringify({ label })}`;
        const { run } = await begin(`call ${charge} | hang say ${label}`, plain);
        assert.equal((await done(run)).status, 'failed');
        const one = (await post(`/v1/runs/${run}/retry`)).json.new_run_id;
        await post(`/v1/runs/${one}/cancel`);
        const two = await post(`/v1/runs/${one}/retry`);
        assert.equal(two.status, 202, two.text);
        const end = await done(two.json.new_run_id);
        assert.equal(end.output?.message, label, JSON.stringify(end));
        assert.equal(made(), 1);
        await assertSoundFork(two.json.new_run_id, 1);
      });

      it('keeps the turns before, and waits where the last one was complete', async () => {
        const run = await openRun();
        await take(run, `say one ${label}`);
        await take(run, `say two ${label}`);
        await post(`/v1/runs/${run}/cancel`);
        const retried = (await post(`/v1/runs/${run}/retry`)).json;
        assert.equal(retried.status, 'awaiting_human');
        const turn = await take(retried.run_id, `say three ${label}`);
        assert.equal(turn.output.message, `three ${label}`);
        assert.equal(model.asked(`say three ${label}`)[0]?.messages.length, 5);
        await post(`/v1/runs/${retried.run_id}/cancel`);
      });

      it('keeps the turns before that no checkpoint holds', async () => {
        const manual = await createAgent({ call, world }, { execution_config: { checkpoint_frequency: 'manual' } });
        const run = await openRun(manual);
        await take(run, `say one ${label}`);
        const headers = { prefer: 'respond-async' };
        await post(`/v1/runs/${run}/turns`, { input: { message: `hang say two ${label}` } }, headers);
        await waitUntil('the model hangs', () => model.asked(`two ${label}`).length === 1);
        await post(`/v1/runs/${run}/cancel`);
        const retried = (await post(`/v1/runs/${run}/retry`)).json;
        assert.equal((await settled(retried.run_id)).output?.message, `two ${label}`);
        assert.equal(model.asked(`two ${label}`).at(-1)?.messages.length, 3);
        await post(`/v1/runs/${retried.run_id}/cancel`);
      });
    });

    describe('a checkpoint on demand', () => {
      it('is saved while the run waits, and can be replayed', async () => {
        const manual = await createAgent({ call, world }, { execution_config: { checkpoint_frequency: 'manual' } });
        const run = await openRun(manual);
        await take(run, `say one ${label}`);
        assert.deepEqual(await checkpointsOf(run), []);
        const saved = await post(`/v1/runs/${run}/checkpoints`);
        assert.equal(saved.status, 201, saved.text);
        assert.equal(saved.json.trigger, 'manual');
        const { state } = await get(`/v1/runs/${run}/checkpoints/${saved.json.id}`);
        assert.equal(state.messages.length, 2);
        await take(run, `say two ${label}`);
        const started = await replay(run, { checkpoint_id: saved.json.id });
        assert.equal((await settled(started.run_id)).output?.message, `two ${label}`);
        await post(`/v1/runs/${run}/complete`);
        await post(`/v1/runs/${started.run_id}/complete`);
      });

      it('is refused while the run is driven, and once it is finished', async () => {
        const { run } = await begin(`hang say ${label}`);
        await waitUntil('the model hangs', () => model.asked(label).length === 1);
        assert.equal((await post(`/v1/runs/${run}/checkpoints`)).status, 409);
        await post(`/v1/runs/${run}/cancel`);
        assert.equal((await post(`/v1/runs/${run}/checkpoints`)).status, 409);
      });

      it('holds the calls that workers make meanwhile, which a replay answers from the record', async () => {
        const { run } = await begin(`call ${tool('charge', { hang: true })} & ${tool('lookup')} | say ${label}`);
        await waitUntil('both calls are under way', () => made() === 2);
        await untilRun({ call }, run, { states: ['awaiting_tool'] });
        await waitUntil('one has its result', async () =>
          (await readLog({ call }, run)).some(({ type }) => type === 'tool.succeeded'),
        );
        const saved = await post(`/v1/runs/${run}/checkpoints`);
        assert.equal(saved.status, 201, saved.text);
        const { state } = await get(`/v1/runs/${run}/checkpoints/${saved.json.id}`);
        assert.equal(state.pending_sends.length, 1);
        await post(`/v1/runs/${run}/cancel`);
        await waitUntil('the call is settled', async () =>
          (await callsOf(run)).every((each: { status: string }) => each.status !== 'running'),
        );
        const started = await replay(run, { checkpoint_id: saved.json.id });
        assert.deepEqual(
          started.effects.map((effect: { tool: string }) => effect.tool),
          [toolOf(agent, 'charge')],
        );
        const log = await untilAsked(started.run_id);
        assert.equal(made(), 2, 'neither is made again');
        assert.ok(
          log.some(({ type }) => type === 'tool.unknown'),
          'nobody knows what became of the charge',
        );
        await post(`/v1/runs/${started.run_id}/cancel`);
      });
    });

    describe('a comparison', () => {
      it('names the first step that differs, and what of it', async () => {
        const { run } = await begin(
          'call calculator {"expression":"1"} | call calculator {"expression":"1+1"} | say a',
        );
        await done(run);
        const changed = 'call calculator {"expression":"1"} | call calculator {"expression":"1+2"} | say a';
        const other = await begin(changed);
        await done(other.run);
        const compared = await get(`/v1/runs/${run}/compare/${other.run}`);
        assert.deepEqual(compared.first_difference, { step: 2, what: 'arguments' });
        assert.deepEqual(compared.steps[1].differs, ['arguments', 'results']);
        assert.deepEqual(compared.steps[1].b.tool_calls[0].arguments, { expression: '1+2' });
        assert.deepEqual([compared.a.status, compared.a.tool_calls, compared.a.steps], ['completed', 2, 3]);
        assert.ok(compared.a.tokens_in > 0 && compared.a.cost_usd > 0);
        assert.equal((await call('GET', `/v1/runs/${run}/compare/${randomUUID()}`)).status, 404);
      });

      it('counts the steps before a fork as its own', async () => {
        const { run } = await begin(`call ${tool('lookup')} | call ${tool('charge')} | say ${label}`);
        await done(run);
        const [, second] = await checkpointsOf(run);
        const started = await replay(run, { checkpoint_id: second.id });
        await done(started.run_id);
        const compared = await get(`/v1/runs/${run}/compare/${started.run_id}`);
        assert.equal(compared.first_difference, null, JSON.stringify(compared));
        assert.equal(compared.steps.length, 3);
        assert.equal(compared.steps[1].b.recorded, true);
      });
    });

    async function openRun(of = agent): Promise<string> {
      const { status, json } = await post(`/v1/agents/${of}/runs`, {});
      assert.equal(status, 201);
      return json.run_id;
    }

    async function take(run: string, message: string) {
      const { status, json, text } = await post(`/v1/runs/${run}/turns`, { input: { message } });
      assert.equal(status, 200, text);
      return json;
    }

    /** The log, once the run asks a person about a call of unknown outcome. */
    async function untilAsked(run: string): Promise<LogEvent[]> {
      let log: LogEvent[] = [];
      await waitUntil('the run asks about the call', async () => {
        log = await readLog({ call }, run);
        return log.some(({ type }) => type === 'approval.requested');
      });
      return log;
    }

    /** A log without gaps, statuses that follow each other, steps that count on, and checkpoints that fit. */
    async function assertSoundFork(run: string, firstStep: number): Promise<void> {
      const log = await readLog({ call }, run);
      assert.deepEqual(
        log.map(({ seq }) => seq),
        log.map((_, index) => index + 1),
      );
      assert.deepEqual(
        log.slice(0, 2).map(({ type }) => type),
        ['run.created', 'run.forked'],
      );
      const statuses = log.filter(({ type }) => type === 'run.status_changed').map(({ payload }) => payload);
      statuses.forEach(({ from }, index) => assert.equal(from, statuses[index - 1]?.['to'] ?? 'created'));
      const steps = log.filter(({ type }) => type === 'model.responded').map(({ step }) => step);
      const from = steps[0] ?? firstStep;
      assert.ok(from >= firstStep);
      assert.deepEqual(
        steps,
        steps.map((_, index) => from + index),
      );
      assert.ok(!log.some(({ type }) => type === 'checkpoint.corrupt'));
    }
  });
}
