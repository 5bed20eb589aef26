import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { MAY_HAVE_HAPPENED } from '../../../core/ledger.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { DOMAIN_MODES } from '../../support/modes.ts';
import { useReplayKit } from '../../support/replay-kit.ts';
import { createAgent, readLog, toolOf, untilRun } from '../../support/runs.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { changeMessagesFrom } from '../../support/queries/logs.ts';

for (const mode of DOMAIN_MODES) {
  describe(`retry, checkpoints and comparison in ${mode} mode`, () => {
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
      callsOf,
      openRun,
      take,
      untilAsked,
      assertSoundFork,
    } = kit;

    describe('a retry', () => {
      it('goes on from the last checkpoint without doing anything twice', async () => {
        const { run, thread } = await begin(`call ${tool('charge')} | hang say ${kit.label}`);
        await waitUntil('the model hangs', () => kit.model.asked(kit.label).length === 2);
        assert.equal((await post(`/v1/runs/${run}/retry`)).status, 409);
        await post(`/v1/runs/${run}/cancel`);
        const headers = { 'idempotency-key': randomUUID() };
        const answer = await post(`/v1/runs/${run}/retry`, {}, headers);
        assert.equal(answer.status, 202, answer.text);
        const { new_run_id, thread_id, turn_id, status, retried_from } = answer.json;
        assert.deepEqual([thread_id, status, retried_from], [thread, 'running', run]);
        assert.deepEqual((await post(`/v1/agents/${kit.agent}/runs/${run}/retry`, {}, headers)).json, answer.json);
        const end = await done(new_run_id);
        assert.deepEqual([end.status, end.output?.message, end['retried_from']], ['completed', kit.label, run]);
        assert.equal(made(), 1);
        assert.equal((await get(`/v1/runs/${new_run_id}/turns/${turn_id}`)).status, 'complete');
        await assertSoundFork(new_run_id, 1);

        assert.equal((await post(`/v1/runs/${new_run_id}/retry`)).status, 409, 'it is completed');
        const again = await post(`/v1/runs/${run}/retry`);
        assert.deepEqual([again.status, again.json.run_id], [409, new_run_id]);
        const next = await post(`/v1/agents/${kit.agent}/runs`, {
          thread_id: thread,
          input: { message: `say next ${kit.label}` },
        });
        assert.equal((await done(next.json.run_id)).output?.message, `next ${kit.label}`);
        assert.equal(kit.model.asked(`say next ${kit.label}`)[0]?.messages.length, 5);
        assert.equal((await call('DELETE', `/v1/runs/${next.json.run_id}`)).status, 202);
        const past = await post(`/v1/runs/${run}/retry`);
        assert.deepEqual([past.status, past.json.run_id], [409, new_run_id], 'an erased run hides none before it');
      });

      it('asks the input again where there is no checkpoint, and remembers over several retries', async () => {
        const plain = await createAgent(kit, { execution_config: { timeout_seconds: 1 } });
        const charge = `${toolOf(plain, 'charge')} ${JSON.stringify({ label: kit.label })}`;
        const { run } = await begin(`call ${charge} | held ${kit.label} say ${kit.label}`, plain);
        assert.equal((await done(run)).status, 'failed');
        const one = (await post(`/v1/runs/${run}/retry`)).json.new_run_id;
        await post(`/v1/runs/${one}/cancel`);
        kit.model.release(kit.label);
        const two = await post(`/v1/runs/${one}/retry`);
        assert.equal(two.status, 202, two.text);
        const end = await done(two.json.new_run_id);
        assert.equal(end.output?.message, kit.label, JSON.stringify(end));
        assert.equal(made(), 1);
        await assertSoundFork(two.json.new_run_id, 1);
      });

      describe('of a run that was cancelled in a call', () => {
        const keys = () => new Set(kit.world.deliveries(kit.label).map(({ key }) => key));
        /** The retry of a run whose call is not answered. */
        const retriedDuring = async (use: string, agent = kit.agent): Promise<string> => {
          const { run } = await begin(`call ${use} | say ${kit.label}`, agent);
          await waitUntil('the call is under way', () => made() === 1);
          await post(`/v1/runs/${run}/cancel`);
          await waitUntil('it is settled', async () => (await callsOf(run))[0]?.status === 'unknown');
          return (await post(`/v1/runs/${run}/retry`)).json.run_id;
        };
        const chargeOf = (agent: string) =>
          `${toolOf(agent, 'charge')} ${JSON.stringify({ label: kit.label, hang: true })}`;

        it('makes it again under its first key where a person says so', async () => {
          const run = await retriedDuring(tool('charge', { hang: true }));
          const approval = (await untilAsked(run)).find(({ type }) => type === 'approval.requested');
          assert.deepEqual([approval?.payload['kind'], made()], ['unknown', 1]);
          const path = `/v1/approvals/${String(approval?.payload['approval_id'])}`;
          assert.equal((await post(path, { decision: 'rerun' })).status, 200);
          assert.equal((await done(run)).status, 'completed');
          assert.deepEqual([made(), keys().size], [2, 1]);
        });

        it('makes it again under that key and asks nobody where the tool is idempotent', async () => {
          const run = await retriedDuring(tool('record', { hang: true }));
          assert.equal((await done(run)).status, 'completed');
          assert.deepEqual([made(), keys().size], [2, 1]);
          const [{ status, recorded_from }] = await callsOf(run);
          assert.deepEqual([status, typeof recorded_from], ['succeeded', 'string']);
          const { steps } = await get(`/v1/runs/${(await get(`/v1/runs/${run}`)).retried_from}/compare/${run}`);
          assert.equal(steps[0].b.tool_calls[0].recorded, false);
          await assertSoundFork(run, 1);
        });

        it('knows its first key also where the retry was cancelled before it made the call', async () => {
          const agent = await createAgent(kit);
          const name = toolOf(agent, 'record');
          const use = `${name} ${JSON.stringify({ label: kit.label, hang: true })}`;
          const rule = { name, when: `tool == "${name}"`, decision: 'require_approval', reason: 'Wait.' };
          const { run } = await begin(`call ${use} | say ${kit.label}`, agent);
          await waitUntil('the call is under way', () => made() === 1);
          await post(`/v1/runs/${run}/cancel`);
          await waitUntil('it is settled', async () => (await callsOf(run))[0]?.status === 'unknown');
          const policy = await post('/v1/policies', rule);
          assert.equal(policy.status, 201, policy.text);
          const second = (await post(`/v1/runs/${run}/retry`)).json.run_id;
          await untilAsked(second);
          await post(`/v1/runs/${second}/cancel`);
          assert.equal((await callsOf(second))[0]?.status, 'unknown');
          await call('DELETE', `/v1/policies/${policy.json.id}`);
          const third = (await post(`/v1/runs/${second}/retry`)).json.run_id;
          assert.equal((await done(third)).status, 'completed');
          assert.deepEqual([made(), keys().size], [2, 1]);
        });

        it('makes it again under that key where the agent accepts duplicates', async () => {
          const bold = await createAgent(kit, { execution_config: { on_unknown: 'retry' } });
          const once = await retriedDuring(chargeOf(bold), bold);
          assert.equal((await done(once)).status, 'completed');
          assert.deepEqual([made(), keys().size], [2, 1]);
        });

        it('does not make it again where the model is to be told', async () => {
          const told = await createAgent(kit, { execution_config: { on_unknown: 'tell_model' } });
          const run = await retriedDuring(chargeOf(told), told);
          assert.equal((await done(run)).status, 'completed');
          assert.deepEqual([made(), (await callsOf(run))[0]?.status], [1, 'unknown']);
        });
      });

      it('makes a call that has failed without an answer again under its key, and a replay does not make it', async () => {
        const hasty = await post('/v1/tools', {
          name: `hasty_${kit.label.slice(0, 8)}`,
          description: 'Is given up after one attempt.',
          annotations: { idempotentHint: true },
          transport: { type: 'http', endpoint: `${kit.world.url}/record` },
          execution: { retry_config: { max_retries: 0, backoff_ms: 1 } },
        });
        assert.equal(hasty.status, 201, hasty.text);
        const agent = await post('/v1/agents', { name: hasty.json.name, tools: [hasty.json.id] });
        const use = `${hasty.json.name} ${JSON.stringify({ label: kit.label, status: 503 })}`;
        const { run } = await begin(`call ${use} | hang say ${kit.label}`, agent.json.id);
        await waitUntil('the model reads that it has failed', () => kit.model.asked(kit.label).length === 2);
        assert.ok(kit.model.asked(kit.label)[1]?.results[0]?.includes(MAY_HAVE_HAPPENED));
        await post(`/v1/runs/${run}/cancel`);
        const keys = () => new Set(kit.world.deliveries(kit.label).map(({ key }) => key)).size;
        const end = async (of: string) => {
          assert.equal((await done(of)).status, 'completed');
          const [{ status, recorded_from }] = await callsOf(of);
          return [status, typeof recorded_from, made(), keys()];
        };
        const retried = (await post(`/v1/runs/${run}/retry`)).json.run_id;
        assert.deepEqual(await end(retried), ['succeeded', 'string', 2, 1]);
        const replayed = await replay(run, { checkpoint_id: 'start' });
        assert.deepEqual(
          replayed.effects.map((effect: { tool: string }) => effect.tool),
          [hasty.json.name],
        );
        assert.deepEqual(await end(replayed.run_id), ['failed', 'string', 2, 1]);
        const again = await replay(replayed.run_id, { checkpoint_id: 'start' });
        assert.deepEqual(await end(again.run_id), ['failed', 'string', 2, 1]);
        const rerun = await replay(run, { checkpoint_id: 'start', rerun_effects: true });
        assert.deepEqual(await end(rerun.run_id), ['succeeded', 'object', 3, 2]);
      });

      it('does not make a call again whose answer could not be taken', async () => {
        const talkative = await post('/v1/tools', {
          name: `talkative_${kit.label.slice(0, 8)}`,
          description: 'Answers more than is taken.',
          transport: { type: 'http', endpoint: `${kit.world.url}/charge`, max_bytes: 10 },
        });
        assert.equal(talkative.status, 201, talkative.text);
        const agent = await post('/v1/agents', { name: talkative.json.name, tools: [talkative.json.id] });
        const use = `${talkative.json.name} ${JSON.stringify({ label: kit.label })}`;
        const { run } = await begin(`call ${use} | hang say ${kit.label}`, agent.json.id);
        await waitUntil('the model reads that it has failed', () => kit.model.asked(kit.label).length === 2);
        await post(`/v1/runs/${run}/cancel`);
        const retried = (await post(`/v1/runs/${run}/retry`)).json.run_id;
        assert.equal((await done(retried)).status, 'completed');
        const [{ status, recorded_from }] = await callsOf(retried);
        assert.deepEqual([status, typeof recorded_from, made()], ['failed', 'string', 1]);
      });

      it('keeps the turns before, and waits where the last one was complete', async () => {
        const run = await openRun();
        await take(run, `say one ${kit.label}`);
        await take(run, `say two ${kit.label}`);
        await post(`/v1/runs/${run}/cancel`);
        const retried = (await post(`/v1/runs/${run}/retry`)).json;
        assert.equal(retried.status, 'awaiting_human');
        const turn = await take(retried.run_id, `say three ${kit.label}`);
        assert.equal(turn.output.message, `three ${kit.label}`);
        assert.equal(kit.model.asked(`say three ${kit.label}`)[0]?.messages.length, 5);
        await post(`/v1/runs/${retried.run_id}/cancel`);
      });

      it('keeps the turns before that no checkpoint holds', async () => {
        const manual = await createAgent(kit, { execution_config: { checkpoint_frequency: 'manual' } });
        const run = await openRun(manual);
        await take(run, `say one ${kit.label}`);
        const headers = { prefer: 'respond-async' };
        await post(`/v1/runs/${run}/turns`, { input: { message: `hang say two ${kit.label}` } }, headers);
        await waitUntil('the model hangs', () => kit.model.asked(`two ${kit.label}`).length === 1);
        await post(`/v1/runs/${run}/cancel`);
        const retried = (await post(`/v1/runs/${run}/retry`)).json;
        assert.equal((await settled(retried.run_id)).output?.message, `two ${kit.label}`);
        assert.equal(kit.model.asked(`two ${kit.label}`).at(-1)?.messages.length, 3);
        await post(`/v1/runs/${retried.run_id}/cancel`);
      });
    });

    describe('a node of a graph whose call was made, with a checkpoint at every step,', () => {
      /** The agent's graph makes one call, and has what it gives put into words. */
      const follow = async (more: object = {}, named = toolOf(kit.agent, 'charge')) => {
        const workflow_graph = {
          entry_point: 'pay',
          nodes: [
            {
              name: 'pay',
              type: 'tool',
              config: { tool: named, input: { label: kit.label, ...more } },
              writes: { count: '{{has(output.count) ? output.count : 0}}' },
            },
            { name: 'tell', type: 'llm' },
          ],
          edges: [{ from: 'pay', to: 'tell', condition: 'has(output.count)' }],
        };
        const execution_config = { checkpoint_frequency: 'on_change' };
        return begin(`say ${kit.label}`, await createAgent(kit, { workflow_graph, execution_config }));
      };

      for (const name of ['charge', 'lookup'] as const) {
        it(`makes it again in a retry where it has failed (${name})`, async () => {
          const { run } = await follow({ status: 400 }, toolOf(kit.agent, name));
          const { status, error } = await done(run);
          assert.equal(status, 'failed');
          assert.match(JSON.stringify(error), /no edge leads on: .*400/);
          const retried = await post(`/v1/runs/${run}/retry`);
          const end = await done(retried.json.new_run_id);
          assert.equal(end.status, 'completed', JSON.stringify(end));
          assert.equal(made(), 2);
          await assertSoundFork(retried.json.new_run_id, 1);
        });
      }

      it('does not make it again where nobody knows its outcome', async () => {
        const impatient = await post('/v1/tools', {
          name: `impatient_${kit.label.slice(0, 8)}`,
          description: 'Waits for no answer.',
          transport: { type: 'http', endpoint: `${kit.world.url}/charge` },
          execution: { timeout_ms: 100 },
        });
        const { run } = await follow({ hang: true }, impatient.json.name);
        await untilAsked(run);
        await post(`/v1/runs/${run}/cancel`);
        const retried = await post(`/v1/runs/${run}/retry`);
        await untilAsked(retried.json.new_run_id);
        assert.equal(made(), 1);
        await post(`/v1/runs/${retried.json.new_run_id}/cancel`);
      });

      it('goes on with what it has given, from whatever checkpoint', async () => {
        const { run } = await follow();
        assert.equal((await done(run)).status, 'completed');
        const checkpoints = await checkpointsOf(run);
        assert.ok(checkpoints.filter(({ node }: { node: string }) => node === 'pay').length > 2);
        for (const { id } of checkpoints) {
          const started = await replay(run, { checkpoint_id: id });
          if (started.status !== 'running') continue;
          const end = await done(started.run_id);
          assert.equal(end.status, 'completed', JSON.stringify(end));
          const [last] = await checkpointsOf(started.run_id);
          assert.deepEqual((await get(`/v1/runs/${started.run_id}/checkpoints/${last.id}`)).state.custom, { count: 1 });
        }
        assert.equal(made(), 1);
      });
    });

    describe('a run whose messages were changed behind its back', () => {
      const spoil = (run: string, ordinal: number) => changeMessagesFrom(kit.platform.context.db, run, ordinal);

      it('is retried from the newest checkpoint that still fits, and not replayed from one that does not', async () => {
        const run = await openRun();
        await take(run, `say one ${kit.label}`);
        await take(run, `say two ${kit.label}`);
        await post(`/v1/runs/${run}/cancel`);
        const [second, first] = await checkpointsOf(run);
        await spoil(run, 2);
        assert.equal((await post(`/v1/runs/${run}/replay`, { checkpoint_id: second.id })).status, 422);
        const retried = await post(`/v1/runs/${run}/retry`);
        assert.equal(retried.status, 202, retried.text);
        const state = await settled(retried.json.run_id);
        assert.deepEqual([state.output?.message, state['forked_at_seq']], [`two ${kit.label}`, first.sequence_num]);
        await post(`/v1/runs/${retried.json.run_id}/complete`);
      });

      it('is not retried where nothing is left to start from', async () => {
        const run = await openRun();
        await take(run, `say one ${kit.label}`);
        await post(`/v1/runs/${run}/cancel`);
        await spoil(run, 0);
        assert.equal((await post(`/v1/runs/${run}/retry`)).status, 422);
      });
    });

    describe('a checkpoint on demand', () => {
      it('is saved while the run waits, and can be replayed', async () => {
        const manual = await createAgent(kit, { execution_config: { checkpoint_frequency: 'manual' } });
        const run = await openRun(manual);
        await take(run, `say one ${kit.label}`);
        assert.deepEqual(await checkpointsOf(run), []);
        const saved = await post(`/v1/runs/${run}/checkpoints`);
        assert.equal(saved.status, 201, saved.text);
        assert.equal(saved.json.trigger, 'manual');
        const { state } = await get(`/v1/runs/${run}/checkpoints/${saved.json.id}`);
        assert.equal(state.messages.length, 2);
        await take(run, `say two ${kit.label}`);
        const started = await replay(run, { checkpoint_id: saved.json.id });
        assert.equal((await settled(started.run_id)).output?.message, `two ${kit.label}`);
        await post(`/v1/runs/${run}/complete`);
        await post(`/v1/runs/${started.run_id}/complete`);
      });

      it('is refused while the run is driven, and once it is finished', async () => {
        const { run } = await begin(`hang say ${kit.label}`);
        await waitUntil('the model hangs', () => kit.model.asked(kit.label).length === 1);
        assert.equal((await post(`/v1/runs/${run}/checkpoints`)).status, 409);
        await post(`/v1/runs/${run}/cancel`);
        assert.equal((await post(`/v1/runs/${run}/checkpoints`)).status, 409);
      });

      it('holds the calls that workers make meanwhile, which a replay answers from the record', async () => {
        const reading = randomUUID();
        const { run } = await begin(
          `call ${tool('charge', { hang: true })} & ${tool('lookup', { label: reading })} | say ${kit.label}`,
        );
        await waitUntil('both calls are under way', () => made() + kit.world.deliveries(reading).length === 2);
        await untilRun(kit, run, { states: ['awaiting_tool'] });
        await waitUntil('one has its result', async () =>
          (await readLog(kit, run)).some(({ type }) => type === 'tool.succeeded'),
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
          [toolOf(kit.agent, 'charge')],
        );
        const log = await untilAsked(started.run_id);
        assert.deepEqual([made(), kit.world.deliveries(reading).length], [1, 1], 'neither is made again');
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
        const underAgent = (id: string) => call('GET', `/v1/agents/${id}/runs/${run}/compare/${other.run}`);
        const { agent_id: agent } = await get(`/v1/runs/${run}`);
        assert.deepEqual((await underAgent(agent)).json, compared);
        assert.equal((await underAgent(randomUUID())).status, 404);
      });

      it('counts the steps before a fork as its own', async () => {
        const { run } = await begin(`call ${tool('lookup')} | call ${tool('charge')} | say ${kit.label}`);
        await done(run);
        // The second step is under way there.
        const [, , second] = await checkpointsOf(run);
        const started = await replay(run, { checkpoint_id: second.id });
        await done(started.run_id);
        const compared = await get(`/v1/runs/${run}/compare/${started.run_id}`);
        assert.equal(compared.first_difference, null, JSON.stringify(compared));
        assert.equal(compared.steps.length, 3);
        assert.equal(compared.steps[1].b.recorded, true);
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
