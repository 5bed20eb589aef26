import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { DOMAIN_MODES } from '../../support/modes.ts';
import { useReplayKit } from '../../support/replay-kit.ts';
import { spoilCheckpoints } from '../../support/queries/logs.ts';
import { forgetAsked } from '../../support/queries/tool-calls.ts';
import { createAgent, readLog, toolOf } from '../../support/runs.ts';
import { waitUntil } from '../../support/wait-until.ts';

for (const mode of DOMAIN_MODES) {
  describe(`replay in ${mode} mode`, () => {
    const kit = useReplayKit(mode);
    const {
      call,
      post,
      get,
      tool,
      made,
      checkpointsOf,
      done,
      settled,
      begin,
      replay,
      responses,
      callsOf,
      openRun,
      take,
      assertSoundFork,
    } = kit;

    describe('a replay', () => {
      it('goes on in the middle of a turn and answers effects from the record', async () => {
        const { run } = await begin(
          `call ${tool('lookup')} | call ${tool('charge')} & ${tool('record')} | say all ${kit.label}`,
        );
        await done(run);
        assert.equal(made(), 3);
        const first = (await checkpointsOf(run)).at(-1);
        const started = await replay(run, { checkpoint_id: first.id });
        assert.equal(started.status, 'running');
        assert.deepEqual(
          started.effects.map((effect: { tool: string }) => effect.tool),
          [toolOf(kit.agent, 'charge'), toolOf(kit.agent, 'record')],
        );
        assert.notEqual(started.thread_id, (await get(`/v1/runs/${run}`)).thread_id);
        const end = await done(started.new_run_id);
        assert.deepEqual([end.status, end.output?.message], ['completed', `all ${kit.label}`]);
        assert.equal(end['forked_from_run_id'], run);
        assert.equal(end['forked_at_seq'], first.sequence_num);
        assert.equal(made(), 4, 'only what reads is called again');
        const calls = await callsOf(started.new_run_id);
        const effects = new Set(started.effects.map((effect: { tool_call_id: string }) => effect.tool_call_id));
        assert.deepEqual(
          calls.map((each: { recorded_from: string | null }) => effects.has(each.recorded_from)),
          [false, true, true],
        );
        const { results } = kit.model.asked(kit.label).at(-1) ?? { results: [] };
        assert.deepEqual(results.slice(1), kit.model.asked(kit.label)[2]?.results.slice(1));
        const [answer] = await responses(started.new_run_id);
        assert.equal(answer?.['recorded'], true, 'the answer before the point is not asked for again');
        assert.equal(kit.model.asked(kit.label).length, 3 + 2);
        await assertSoundFork(started.new_run_id, 1);
      });

      it('makes effects again where that is asked for, by those who may', async () => {
        const { run } = await begin(`call ${tool('charge')} | say ok ${kit.label}`);
        await done(run);
        const first = (await checkpointsOf(run)).at(-1);
        const body = { checkpoint_id: first.id, rerun_effects: true };
        const { key } = (await post('/v1/api-keys', { name: 'writer', scopes: ['runs:write'] })).json;
        assert.equal((await call('POST', `/v1/runs/${run}/replay`, { key, body })).status, 403);
        const started = await replay(run, body);
        assert.equal(started.effects.length, 1);
        assert.equal((await done(started.run_id)).status, 'completed');
        assert.equal(made(), 2);
        const keys = new Set(kit.world.deliveries(kit.label).map((delivery) => delivery.key));
        assert.equal(keys.size, 2, 'it is another call for the tool, too');
      });

      it('asks the turn that followed again, from the end of the one before', async () => {
        const run = await openRun();
        await take(run, `say one ${kit.label}`);
        const [end] = await checkpointsOf(run);
        await take(run, `call ${tool('charge')} | say two ${kit.label}`);
        const started = await replay(run, { checkpoint_id: end.id });
        const state = await settled(started.run_id);
        assert.equal(state.status, 'awaiting_human');
        assert.equal(state.output?.message, `two ${kit.label}`);
        assert.equal(made(), 1);
        assert.equal(state['turns'], 2);
        assert.equal(kit.model.asked(`say two ${kit.label}`).at(-1)?.messages[0]?.role, 'user');
        // Once its record is used up, the same call is a new one.
        await take(started.run_id, `call ${tool('charge')} | say three ${kit.label}`);
        assert.equal(made(), 2);
        await post(`/v1/runs/${started.run_id}/complete`);
        await assertSoundFork(started.run_id, 1);
      });

      it('waits for a turn where none followed', async () => {
        const { run } = await begin(`say end ${kit.label}`);
        await done(run);
        const [end] = await checkpointsOf(run);
        const started = await replay(run, { checkpoint_id: end.id });
        assert.deepEqual([started.status, started.turn_id], ['awaiting_human', undefined]);
        const turn = await take(started.run_id, `say more ${kit.label}`);
        assert.equal(turn.output.message, `more ${kit.label}`);
        assert.equal(kit.model.asked(`say more ${kit.label}`)[0]?.messages.length, 3);
        await post(`/v1/runs/${started.run_id}/complete`);
        await assertSoundFork(started.run_id, 1);
      });

      it('starts from the very start with another model', async () => {
        const { run } = await begin(`call ${tool('charge')} | say ok ${kit.label}`);
        await done(run);
        const model_override = 'anthropic/claude-other';
        const started = await replay(run, { checkpoint_id: 'start', config: { model_override } });
        assert.equal((await done(started.run_id)).status, 'completed');
        assert.deepEqual(
          (await responses(started.run_id)).map(({ model: by }) => by),
          ['claude-other', 'claude-other'],
        );
        assert.equal(made(), 1);
        const again = await replay(started.run_id, { checkpoint_id: 'start', config: { max_turns: 9 } });
        await done(again.run_id);
        assert.equal((await responses(again.run_id)).at(0)?.model, 'claude-other', 'a replay keeps the settings');
      });

      it('starts with another version of the agent', async () => {
        const other = await createAgent(kit);
        const { run } = await begin(`say ok ${kit.label}`, other);
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
        const { run } = await begin(`say ok ${kit.label}`);
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
        const { run } = await begin(`call ${tool('charge')} | call ${tool('lookup')} | say ok ${kit.label}`);
        await done(run);
        // The step that looks something up is under way there.
        const [, , second] = await checkpointsOf(run);
        const one = await replay(run, { checkpoint_id: second.id });
        assert.deepEqual(one.effects, []);
        await done(one.run_id);
        const two = await replay(one.run_id, { checkpoint_id: 'start' });
        assert.equal((await done(two.run_id)).output?.message, `ok ${kit.label}`);
        assert.equal(kit.world.deliveries(kit.label).length, 1 + 3);
        const three = await replay(run, { checkpoint_id: 'start' });
        await done(three.run_id);
        const four = await replay(three.run_id, { checkpoint_id: 'start' });
        await done(four.run_id);
        const charges = kit.world.deliveries(kit.label).length - 5;
        assert.equal(charges, 1, 'it was charged once, by the first run');
      });

      it('refuses what it cannot do', async () => {
        const { run } = await begin(`say ok ${kit.label}`);
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

    it('shows a corrupt checkpoint as such and without its state, and starts from none', async () => {
      const { run } = await begin(`say ok ${kit.label}`);
      await done(run);
      const [end] = await checkpointsOf(run);
      const { json: sound } = await call('GET', `/v1/runs/${run}/checkpoints/${end.id}`);
      assert.deepEqual([sound.corrupt, sound.state.messages.length], [undefined, 2]);
      await spoilCheckpoints(kit.platform, run);
      const { status, json } = await call('GET', `/v1/runs/${run}/checkpoints/${end.id}`);
      assert.deepEqual([status, json.id, json.corrupt, json.state], [200, end.id, true, undefined]);
      assert.equal((await post(`/v1/runs/${run}/replay`, { checkpoint_id: end.id })).status, 422);
    });

    describe('a checkpoint while calls are under way', () => {
      const resultsIn = (state: { messages: { role: string; content: { type: string; content: string }[] }[] }) =>
        state.messages.flatMap(({ content }) =>
          content.flatMap((block) => (block.type === 'tool_result' ? block : [])),
        );

      it('shows no result that came after it, and calls that still had to be made', async () => {
        const { run } = await begin(`call ${tool('charge')} & ${tool('record')} | say ok ${kit.label}`);
        await done(run);
        const first = (await checkpointsOf(run)).at(-1);
        const { state } = await get(`/v1/runs/${run}/checkpoints/${first.id}`);
        assert.deepEqual(
          resultsIn(state).map(({ content }) => content),
          Array(2).fill('The call was interrupted before it had a result.'),
        );
        assert.equal(state.pending_sends.length, 2);
        const started = await replay(run, { checkpoint_id: first.id });
        assert.equal(started.effects.length, 2);
        await done(started.run_id);
      });

      it('is started from without the results that came after it, where its messages are given back', async () => {
        const { run } = await begin(`call ${tool('charge')} | say ok ${kit.label}`);
        await done(run);
        const first = (await checkpointsOf(run)).at(-1);
        const { state } = await get(`/v1/runs/${run}/checkpoints/${first.id}`);
        const started = await replay(run, { checkpoint_id: first.id, modified_state: state });
        assert.equal(started.effects.length, 1);
        assert.equal((await done(started.run_id)).status, 'completed');
        assert.deepEqual(kit.model.asked(kit.label).at(-1)?.results, [
          'The call was interrupted before it had a result.',
        ]);
        const [end] = await checkpointsOf(started.run_id);
        const after = (await get(`/v1/runs/${started.run_id}/checkpoints/${end.id}`)).state;
        assert.deepEqual(resultsIn(after), resultsIn(state));
        await assertSoundFork(started.run_id, 2);
      });

      it('is followed by one that has the results, after which no effect is left', async () => {
        const { run } = await begin(`call ${tool('charge')} | call ${tool('record')} | say ok ${kit.label}`);
        await done(run);
        const checkpoints = (await checkpointsOf(run)).toReversed();
        const states = await Promise.all(
          checkpoints.map(async ({ id }: { id: string }) => (await get(`/v1/runs/${run}/checkpoints/${id}`)).state),
        );
        const hasResult = ({ content }: { content: string }) =>
          content !== 'The call was interrupted before it had a result.';
        assert.deepEqual(
          states.map((state) => [resultsIn(state).filter(hasResult).length, state.pending_sends.length]),
          [
            [0, 1],
            [1, 0],
            [1, 1],
            [2, 0],
            [2, 0],
          ],
        );
        const effects = [];
        for (const { id } of checkpoints) {
          const started = await replay(run, { checkpoint_id: id });
          effects.push(started.effects.length);
          if (started.status === 'running') assert.equal((await settled(started.run_id)).status, 'completed');
        }
        assert.deepEqual(effects, [2, 1, 1, 0, 0]);
        assert.equal(made(), 2, 'nothing was made again');
      });

      it('is saved after each result of calls that the driver makes', async () => {
        const inline = await post('/v1/tools', {
          name: `inline_${kit.label.slice(0, 8)}`,
          description: 'Made by the driver.',
          transport: { type: 'http', endpoint: `${kit.world.url}/charge` },
          risk_level: 'READ_ONLY',
          execution: { inline: true },
        });
        assert.equal(inline.status, 201, inline.text);
        const by = await createAgent(kit, {
          tools: [inline.json.id],
          execution_config: { checkpoint_frequency: 'on_change' },
        });
        const one = (label: string) => `inline_${kit.label.slice(0, 8)} ${JSON.stringify({ label })}`;
        const { run } = await begin(`call ${one('a')} & ${one('b')} | say ok ${kit.label}`, by);
        assert.equal((await done(run)).status, 'completed');
        const saved = (await checkpointsOf(run)).toReversed();
        const states = await Promise.all(
          saved.map(async ({ id }: { id: string }) => (await get(`/v1/runs/${run}/checkpoints/${id}`)).state),
        );
        assert.deepEqual(
          states.map((state) => state.pending_sends.length),
          [2, 1, 0, 0],
        );
      });
    });

    describe('a replay with another state', () => {
      it('answers a question that was put in the place of the first one', async () => {
        const { run } = await begin(`say one ${kit.label}`);
        await done(run);
        const [end] = await checkpointsOf(run);
        const { state } = await get(`/v1/runs/${run}/checkpoints/${end.id}`);
        const messages = [{ role: 'user', content: [{ type: 'text', text: `say other ${kit.label}` }] }];
        const started = await replay(run, {
          checkpoint_id: end.id,
          modified_state: { ...state, messages, custom: { tone: 'dry' } },
        });
        assert.equal((await done(started.run_id)).output?.message, `other ${kit.label}`);
        const [saved] = await checkpointsOf(started.run_id);
        const after = (await get(`/v1/runs/${started.run_id}/checkpoints/${saved.id}`)).state;
        assert.deepEqual(after.messages[0], messages[0]);
        assert.deepEqual(after.custom, { tone: 'dry' });
        assert.equal((await get(`/v1/runs/${run}/checkpoints/${end.id}`)).state.messages.length, 2);
        await assertSoundFork(started.run_id, 1);
      });

      it('takes a message whose content is a text alone', async () => {
        const { run } = await begin(`say one ${kit.label}`);
        await done(run);
        const [end] = await checkpointsOf(run);
        const messages = [{ role: 'user', content: `say plain ${kit.label}` }];
        const started = await replay(run, { checkpoint_id: end.id, modified_state: { messages } });
        assert.equal((await done(started.run_id)).output?.message, `plain ${kit.label}`);
      });

      it('shares the messages that are the same, and goes on with the turn after an edited result', async () => {
        const { run } = await begin(`call ${tool('lookup')} | say it ${kit.label}`);
        await done(run);
        const first = (await checkpointsOf(run)).at(-1);
        const { state } = await get(`/v1/runs/${run}/checkpoints/${first.id}`);
        const messages = structuredClone(state.messages);
        messages[2].content[0].content = 'edited';
        const started = await replay(run, { checkpoint_id: first.id, modified_state: { ...state, messages } });
        assert.equal((await done(started.run_id)).status, 'completed');
        assert.deepEqual(kit.model.asked(kit.label).at(-1)?.results, ['edited']);
        const [created] = await readLog(kit, started.run_id);
        const base = created?.payload['lineage_base'] as { length: number }[];
        assert.deepEqual([base.map(({ length }) => length), created?.payload['base_length']], [[2], 3]);
        await assertSoundFork(started.run_id, 2);
      });
    });

    describe('a replay with other channels from within a node of a graph', () => {
      it('fills in its prompt with these, and goes on with what was said there', async () => {
        const prompt = 'It is {{has(state.word) ? state.word : "nothing"}}, {{iteration}}.';
        const workflow_graph = { entry_point: 'a', nodes: [{ name: 'a', type: 'llm', config: { prompt } }], edges: [] };
        const execution_config = { checkpoint_frequency: 'on_change' };
        const agent = await createAgent(kit, { workflow_graph, execution_config });
        const { run } = await begin(`call calculator {"expression":"1+1"} | say ok ${kit.label}`, agent);
        await done(run);
        const asked = () => kit.model.asked(kit.label);
        for (const { id } of await checkpointsOf(run)) {
          const started = await replay(run, { checkpoint_id: id, modified_state: { custom: { word: 'blue' } } });
          if (started.status !== 'running') continue;
          assert.equal((await done(started.run_id)).status, 'completed');
          assert.match(asked().at(-1)?.system ?? '', /It is blue, 1\./);
          assert.equal(asked().at(-1)?.messages.length, 3);
        }
        assert.match(asked()[1]?.system ?? '', /It is nothing, 1\./);
      });
    });

    describe('a recorded replay', () => {
      it('asks nobody while its requests are those of the record', async () => {
        const { run } = await begin(
          `call ${tool('lookup')} & calculator {"expression":"6*7"} | call ${tool('charge')} | say ${kit.label}`,
        );
        const was = await done(run);
        const asked = kit.model.asked(kit.label).length;
        const started = await replay(run, { checkpoint_id: 'start', mode: 'recorded' });
        const end = await done(started.run_id);
        assert.deepEqual([end.status, end.output?.message], ['completed', kit.label]);
        assert.deepEqual([kit.model.asked(kit.label).length, made()], [asked, 2]);
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

      it('answers a call with what it gave in whatever words a person or a policy had it made, and so does a retry', async () => {
        const wary = await createAgent(kit, { autonomy_level: 1 });
        const said = `call ${toolOf(wary, 'charge')} {"label":"${kit.label}","ms":1}`;
        const { run } = await begin(`${said} | hang say ${kit.label}`, wary);
        await kit.untilAsked(run);
        const [asked] = (await get(`/v1/approvals?run_id=${run}`)).approvals;
        const edit = { decision: 'edit', arguments: { label: kit.label, ms: 2 } };
        assert.equal((await post(`/v1/approvals/${asked.id}`, edit)).status, 200);
        await waitUntil('it is made', () => made() === 1);
        await waitUntil('the model is asked again', () => kit.model.asked(kit.label).length === 2);
        await post(`/v1/runs/${run}/cancel`);
        const rule = {
          name: `fast ${kit.label}`,
          when: `tool.name == "${toolOf(wary, 'charge')}"`,
          decision: 'rewrite',
        };
        const sent = [];
        sent.push((await replay(run, { checkpoint_id: 'start', mode: 'recorded' })).run_id);
        sent.push((await replay(run, { checkpoint_id: 'start' })).run_id);
        const policy = await post('/v1/policies', { ...rule, rewrite: { arguments: { ms: 3 } } });
        assert.equal(policy.status, 201, policy.text);
        sent.push((await post(`/v1/runs/${run}/retry`)).json.run_id);
        for (const each of sent) {
          await waitUntil('it has the result', async () => (await callsOf(each))[0]?.status === 'succeeded');
          const [answered] = await callsOf(each);
          assert.deepEqual(answered.input, edit.arguments);
          await post(`/v1/runs/${each}/cancel`);
        }
        assert.equal(made(), 1);
        await call('DELETE', `/v1/policies/${policy.json.id}`);
        // A process of 0.1.0 has let the person edit.
        await forgetAsked(kit.platform.context.db, run);
        const { run_id: last } = await replay(run, { checkpoint_id: 'start' });
        await waitUntil('it has the result', async () => (await callsOf(last))[0]?.status === 'succeeded');
        await post(`/v1/runs/${last}/cancel`);
        assert.equal(made(), 1);
      });

      it('answers a call that a policy had rewritten which is not there any more, and so does a replay of that', async () => {
        const rewrite = { arguments: { ms: 3 } };
        const when = `tool.name == "${toolOf(kit.agent, 'charge')}"`;
        const policy = await post('/v1/policies', { name: `fast ${kit.label}`, when, decision: 'rewrite', rewrite });
        assert.equal(policy.status, 201, policy.text);
        const { run } = await begin(`call ${tool('charge', { ms: 1 })} | say ${kit.label}`);
        await done(run);
        await call('DELETE', `/v1/policies/${policy.json.id}`);
        const first = await replay(run, { checkpoint_id: 'start' });
        await done(first.run_id);
        const second = await replay(first.run_id, { checkpoint_id: 'start', mode: 'recorded' });
        await done(second.run_id);
        for (const each of [run, first.run_id, second.run_id])
          assert.equal((await callsOf(each))[0]?.input.ms, 3, each);
        assert.equal(made(), 1);
      });

      it('marks the first request that differs, and is live from there on', async () => {
        const { run } = await begin(`call ${tool('lookup')} | say ${kit.label}`);
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
        const { run } = await begin(`call ${tool('lookup')} | hang say ${kit.label}`);
        await waitUntil('the model hangs', () => kit.model.asked(kit.label).length === 2);
        await post(`/v1/runs/${run}/cancel`);
        const started = await replay(run, { checkpoint_id: 'start', mode: 'recorded' });
        assert.equal((await done(started.run_id)).output?.message, kit.label);
        const marks = (await responses(started.run_id)).map(({ recorded, differs }) => [recorded, differs]);
        assert.deepEqual(marks, [
          [true, undefined],
          [undefined, ['end_of_record']],
        ]);
        assert.equal(made(), 1);
      });
    });

    describe('all of these runs', () => {
      it('have the rows that their logs give', async () => {
        const { runs, differences } = await rebuildProjections(kit.platform.context.db, { check: true });
        assert.ok(runs > 10);
        assert.deepEqual(differences, []);
      });
    });
  });
}
