import assert from 'node:assert/strict';
import { presentRun } from '../../../api/runs/schemas.ts';
import { findRun } from '../../../db/runs.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import type { TestApi } from '../../support/api.ts';
import { openEngine, type Engine } from '../../support/engine.ts';
import { startFakeAnthropic, type AnthropicReply, type AnthropicRequest } from '../../support/fake-anthropic.ts';
import { DOMAIN_MODES } from '../../support/modes.ts';
import { forgetOutages, makeOutagesLong } from '../../support/queries/model-calls.ts';
import { backdateProviderWait, childrenOfRun } from '../../support/queries/runs.ts';
import { startTestService } from '../../support/service.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { lookNow, readWorkflow, startWorkflow, subtask } from '../../support/workflows.ts';

const AWAY: AnthropicReply = {
  error: { status: 503, type: 'api_error', message: 'boom', headers: { 'retry-after-ms': '0' } },
};

const toolOf = (request: AnthropicRequest) => request.tools?.map(({ name }) => name).join() ?? '';
const submit = (name: string, input: object): AnthropicReply => ({
  content: [{ type: 'tool_use', id: 'u1', name, input: { ...input } }],
});
const PLAN = submit('submit_plan', { subtasks: [{ id: 'a', description: 'Do a.' }], success_criteria: '' });

for (const mode of DOMAIN_MODES) {
  describe(`A workflow whose planner's provider is away (${mode})`, () => {
    let engine: Engine;

    before(async () => {
      engine = await openEngine(mode);
    });
    afterEach(() => forgetOutages(engine.context.db));
    after(() => engine.close());

    const agentWaiting = (seconds: number) => engine.agent({ execution_config: { provider_outage_seconds: seconds } });
    const start = async (seconds: number, more: Partial<Parameters<typeof startWorkflow>[2]> = {}) =>
      startWorkflow(engine, [], { agentId: await agentWaiting(seconds), definition: undefined, ...more });
    const look = async (runId: string) => {
      await forgetOutages(engine.context.db);
      await lookNow(engine.context, { tenantId: engine.tenantId, runId });
    };
    const shown = async (id: string) => {
      const row = await engine.context.db.withTenant(engine.tenantId, (tx) => findRun(tx, id));
      assert.ok(row);
      return presentRun(row);
    };
    const log = (id: string, type: string) =>
      engine.log(id).then((events) => events.filter((event) => event.type === type));

    it('shows for whom it waits, since when and until when, and for how long it has waited once there is a plan', async () => {
      engine.say(() => AWAY);
      const id = await start(60);
      await look(id);
      const first = await shown(id);
      const { type, since, until, error } = first.waiting_for ?? {};
      assert.deepEqual([first.status, type, error?.code], ['planning', 'provider', 'unavailable']);
      assert.equal(Date.parse(until ?? '') - Date.parse(since ?? ''), 60_000);
      await engine.everyoneDies();
      await look(id);
      assert.equal((await shown(id)).waiting_for?.since, since);
      await makeOutagesLong(engine);
      await lookNow(engine.context, { tenantId: engine.tenantId, runId: id });
      const told = (await log(id, 'model.deferred')).length;
      const asked = engine.model.requests.length;
      await lookNow(engine.context, { tenantId: engine.tenantId, runId: id });
      assert.deepEqual([(await log(id, 'model.deferred')).length, engine.model.requests.length], [told, asked]);
      engine.say((request) => (toolOf(request) === 'submit_plan' ? PLAN : AWAY));
      await look(id);
      const last = await shown(id);
      assert.notEqual(last.waiting_for?.type, 'provider');
      const [resumed, ...more] = await log(id, 'model.resumed');
      assert.ok(resumed?.type === 'model.resumed' && resumed.payload.waited_ms >= 0 && more.length === 0);
      assert.ok((await log(id, 'workflow.planned')).length > 0);
    });

    it('fails with provider_unavailable once it has waited for as long as its agent allows', async () => {
      engine.say(() => AWAY);
      const id = await start(60);
      await look(id);
      await backdateProviderWait(engine, id);
      await look(id);
      const { status, error, waiting_for: waiting } = await shown(id);
      assert.deepEqual([status, error?.code, waiting], ['failed', 'provider_unavailable', undefined]);
      assert.match(error?.message ?? '', /60 s of execution_config\.provider_outage_seconds: .*boom/);
      const none = await start(0);
      await look(none);
      assert.equal((await shown(none)).error?.code, 'provider_unavailable');
    });

    it('does so too where its answer is not to be had, and is completed where the check alone is not, unchecked', async () => {
      const ends = {
        submit_synthesis: ['failed', 'provider_unavailable', undefined],
        submit_verdict: ['completed', undefined, 'Both.'],
      };
      for (const [missing, end] of Object.entries(ends)) {
        engine.say((request) => {
          const tool = toolOf(request);
          if (tool === missing) return AWAY;
          if (tool === 'submit_synthesis') return submit(tool, { result: 'Both.' });
          if (tool !== 'submit_plan') return { content: [{ type: 'text', text: 'done' }] };
          const subtasks = [subtask('a'), subtask('b')];
          return submit(tool, { subtasks, success_criteria: 'Both are there.' });
        });
        const id = await start(60);
        await look(id);
        await look(id);
        for (const { id: child } of await childrenOfRun(engine, id)) await engine.finish(child);
        await look(id);
        const { waiting_for: waiting } = await shown(id);
        assert.equal(waiting?.type, 'provider', missing);
        await look(id);
        assert.equal((await shown(id)).waiting_for?.since, waiting?.since, missing);
        await backdateProviderWait(engine, id);
        await look(id);
        const { workflow } = await readWorkflow(engine, id);
        const result = workflow.output?.map((block) => ('text' in block ? block.text : '')).join('');
        assert.deepEqual([workflow.status, workflow.error?.code, result], end, missing);
        assert.equal(workflow.meets_criteria, null);
      }
    });

    it('can be cancelled meanwhile', async () => {
      engine.say(() => AWAY);
      const id = await start(60);
      await look(id);
      await cancelRun(engine.context, { tenantId: engine.tenantId, runId: id });
      const { status, waiting_for: waiting } = await shown(id);
      assert.deepEqual([status, waiting], ['cancelled', undefined]);
    });
  });
}

describe('A workflow that is left to its workers while the provider of its planner is away', () => {
  let api: TestApi;

  before(async () => {
    api = await startTestService({ model: await startFakeAnthropic(() => AWAY) });
  });
  after(() => api.close());

  it('is looked at again by itself, and fails when its time is up', async () => {
    const body = { name: 'waiting', execution_config: { provider_outage_seconds: 1 } };
    const { json: agent } = await api.call('POST', '/v1/agents', { body });
    const asked = { name: 'planned', agent_id: agent.id, input: { user_query: 'What is it?' } };
    const { json: flow, text } = await api.call('POST', '/v1/workflows', { body: asked });
    const read = async () => (await api.call('GET', `/v1/workflows/${flow.id}`)).json;
    const waitings = new Set<string>();
    await waitUntil(`the workflow fails: ${text}`, async () => {
      const { status, waiting_for: waiting } = await read();
      if (waiting) waitings.add(waiting.type);
      return status === 'failed';
    });
    assert.equal((await read()).error.code, 'provider_unavailable');
    assert.deepEqual([...waitings], ['provider']);
  });
});
