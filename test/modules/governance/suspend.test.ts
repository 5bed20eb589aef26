import assert from 'node:assert/strict';
import { UNKNOWN_OUTCOME } from '../../../core/ledger.ts';
import { findRun } from '../../../db/runs.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { decideApproval } from '../../../modules/approvals/decide-approval.ts';
import { openPlatform, type Platform } from '../../../modules/platform/open-platform.ts';
import { reconcile } from '../../../modules/run-log/reconcile.ts';
import { setSuspension, type SuspensionRequest } from '../../../modules/governance/suspend.ts';
import { startWorkers, type Workers } from '../../../workers/start-workers.ts';
import { startTestApi, type TestApi } from '../../support/api.ts';
import type { AnthropicRequest } from '../../support/fake-anthropic.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { DOMAIN_MODES } from '../../support/modes.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { ODD_SERVER } from '../../support/odd-server.ts';
import { serverAt } from '../../support/queries/agents.ts';
import { approvalsOfRun } from '../../support/queries/approvals.ts';
import { auditOf } from '../../support/queries/audit.ts';
import { storedRun } from '../../support/queries/runs.ts';
import { callOfRun, ledgerOfRun } from '../../support/queries/tool-calls.ts';

describe('Suspension', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  const suspend = (kind: SuspensionRequest['kind'], id: string, suspended: boolean) =>
    setSuspension(engine.context, engine.caller, { kind, id, suspended });
  /** Nobody hears of it: what holds is the commit. */
  const silently = (kind: SuspensionRequest['kind'], id: string) => {
    const bus = { ...engine.context.bus, publish: () => undefined };
    return setSuspension({ ...engine.context, bus }, engine.caller, { kind, id, suspended: true });
  };
  const view = (run: string) => engine.context.db.withTenant(engine.tenantId, (tx) => findRun(tx, run));
  const toolOf = async (run: string) => (await storedRun(engine, run)).pinned.tools[0]?.id ?? '';

  for (const kind of ['agent', 'tenant'] as const) {
    it(`lets no run of a suspended ${kind} begin, shows why, and lets it go on when it is lifted`, async () => {
      const agent = await engine.agent();
      engine.say([text('done')]);
      const { run } = await engine.start(agent, 'hello');
      const id = kind === 'agent' ? agent : engine.tenantId;
      await suspend(kind, id, true);
      assert.equal(await engine.drive(run), 'dormant');
      assert.equal(engine.model.requests.length, 0);
      const shown = await view(run);
      assert.deepEqual([shown?.status, shown?.suspended_by], ['created', kind]);
      assert.equal((await reconcile(engine.context, 0)).turns, 0, 'what is suspended has no jobs');
      await suspend(kind, id, false);
      await engine.finish(run);
      const ended = await view(run);
      assert.deepEqual([ended?.status, ended?.suspended_by, engine.model.requests.length], ['completed', null, 1]);
    });
  }

  it('stops a run before its next model call, and loses nothing of the one that was under way', async () => {
    const agent = await engine.agent({ tools: ['calculator'] });
    engine.say(async (_request, n) => {
      if (n > 0) return text('42');
      await suspend('agent', agent, true);
      return use({ name: 'calculator', input: { expression: '6*7' } });
    });
    const { run } = await engine.start(agent, 'What is 6*7?');
    assert.equal(await engine.drive(run), 'dormant');
    assert.equal(engine.model.requests.length, 1);
    assert.equal((await view(run))?.status, 'executing');
    await suspend('agent', agent, false);
    await engine.finish(run);
    assert.equal(engine.model.requests.length, 2);
    const types = (await engine.log(run)).map(({ type }) => type);
    assert.equal(types.filter((type) => type === 'model.responded').length, 2);
    assert.equal(types.filter((type) => type === 'model.called').length, 2);
    assert.equal((await view(run))?.status, 'completed');
    const { differences } = await rebuildProjections(engine.context.db, { check: true });
    assert.deepEqual(differences, []);
  });

  it('stops a driver that heard nothing at its next commit, before the call', async () => {
    const agent = await engine.agent({}, [{ name: 'send', execution: { inline: true } }]);
    engine.say(async (request, n) => {
      if (n > 0) return text('sent');
      await silently('agent', agent);
      return use({ name: offered(request, 'send'), input: {} });
    });
    engine.toolsAnswer(() => undefined);
    const { run } = await engine.start(agent, 'send it');
    assert.equal(await engine.drive(run), 'dormant');
    assert.deepEqual([engine.model.requests.length, engine.tools.seen.length], [1, 0]);
    await suspend('agent', agent, false);
    await engine.finish(run);
    // The last call wakes its run with a job, which is ours to do here.
    await engine.finish(run);
    assert.deepEqual([engine.model.requests.length, engine.tools.seen.length], [2, 1]);
    assert.equal((await view(run))?.status, 'completed');
  });

  it('leaves a queued call of a suspended agent unmade until it is lifted', async () => {
    const agent = await engine.agent({}, [{ name: 'send' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'send'), input: {} }) : text('sent')));
    engine.toolsAnswer(() => undefined);
    const { run } = await engine.start(agent, 'send it');
    assert.equal(await engine.drive(run), 'yielded');
    await suspend('agent', agent, true);
    assert.deepEqual(await engine.makeCalls(run), [{ kind: 'done' }]);
    assert.equal(engine.tools.seen.length, 0);
    assert.equal((await reconcile(engine.context, 0))['tool-calls'], 0);
    await suspend('agent', agent, false);
    await engine.makeCalls(run);
    assert.equal(engine.tools.seen.length, 1);
    await engine.finish(run);
    assert.equal((await view(run))?.status, 'completed');
  });

  it('refuses the calls of a suspended tool, those that were asked for before too, and tells the model', async () => {
    const agent = await engine.agent({}, [{ name: 'send' }]);
    engine.say((request, n) => (n < 2 ? use({ name: offered(request, 'send'), input: {} }) : text('not sent')));
    engine.toolsAnswer(() => undefined);
    const { run } = await engine.start(agent, 'send it');
    assert.equal(await engine.drive(run), 'yielded');
    await suspend('tool', await toolOf(run), true);
    await engine.makeCalls(run);
    await engine.finish(run);
    assert.deepEqual([engine.tools.seen.length, engine.model.requests.length], [0, 3]);
    const calls = await ledgerOfRun(engine, run);
    assert.deepEqual(
      calls.map(({ status, error }) => [status, error?.code]),
      [
        ['denied', 'tool_suspended'],
        ['denied', 'tool_suspended'],
      ],
    );
    assert.match(JSON.stringify(engine.model.requests.at(-1)?.body), /is suspended; the call was not made/);
  });

  for (const calls of [1, 3])
    it(`of a tool while a model asks for ${calls} of its calls is told to the model, which goes on`, async () => {
      const agent = await engine.agent({}, [{ name: 'send' }]);
      engine.say(async (request, n) => {
        if (n > 0) return text('not sent');
        await suspend('tool', await toolOf(run), true);
        return use(
          ...Array.from({ length: calls }, (_, index) => ({ name: offered(request, 'send'), input: { index } })),
        );
      });
      const { run } = await engine.start(agent, 'send it');
      assert.equal(await engine.drive(run), 'dormant');
      assert.equal((await view(run))?.status, 'completed');
      assert.deepEqual([engine.tools.seen.length, engine.model.requests.length], [0, 2]);
    });

  it('stops a call that its driver makes itself and is about to try again', async () => {
    const retry_config = { max_retries: 3, backoff_ms: 1 };
    const annotations = { idempotentHint: true };
    const tool = { name: 'send', annotations, execution: { inline: true, retry_config } };
    for (const [status, end] of [
      [503, 'unknown'],
      [429, 'denied'],
    ] as const) {
      const agent = await engine.agent({ execution_config: { on_unknown: 'tell_model' } }, [tool]);
      engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'send'), input: {} }) : text('not sent')));
      const { run } = await engine.start(agent, 'send it');
      engine.toolsAnswer(async () => {
        await silently('tool', await toolOf(run));
        return { status, body: {} };
      });
      await engine.finish(run);
      assert.equal(engine.tools.seen.length, 1);
      assert.deepEqual([(await view(run))?.status, (await callOfRun(engine, run)).status], ['completed', end]);
    }
  });

  it('lets no attempt of a call begin between two attempts, and the next one when it is lifted', async () => {
    const retry_config = { max_retries: 3, backoff_ms: 1 };
    const agent = await engine.agent({}, [{ name: 'send', execution: { inline: true, retry_config } }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'send'), input: {} }) : text('sent')));
    const { run } = await engine.start(agent, 'send it');
    engine.toolsAnswer(async (_request, n) => {
      if (n > 0) return { status: 200, body: {} };
      await silently('agent', agent);
      return { status: 429, body: {} };
    });
    assert.equal(await engine.drive(run), 'dormant');
    const call = () => callOfRun(engine, run);
    assert.deepEqual(await call(), { status: 'pending', attempt: 1 });
    assert.equal(engine.tools.seen.length, 1);
    engine.context.runCache.clear();
    await suspend('agent', agent, false);
    await engine.finish(run);
    assert.deepEqual(await call(), { status: 'succeeded', attempt: 2 });
    assert.deepEqual([engine.tools.seen.length, (await view(run))?.status], [2, 'completed']);
  });

  it('leaves what may have had its effect unknown where the run ends before it is lifted', async () => {
    const tool = { annotations: { idempotentHint: true }, execution: { inline: true } };
    const agent = await engine.agent({}, [{ name: 'send', ...tool }]);
    engine.say((request) => use({ name: offered(request, 'send'), input: {} }));
    const { run } = await engine.start(agent, 'send it');
    engine.toolsAnswer(async ({ socket }) => {
      await silently('agent', agent);
      socket.destroy();
      return { status: 200, body: {} };
    });
    assert.equal(await engine.drive(run), 'dormant');
    assert.deepEqual(await callOfRun(engine, run), { status: 'pending', attempt: 1 });
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
    assert.deepEqual(await callOfRun(engine, run), { status: 'unknown', attempt: 1 });
  });

  it('counts though it comes between the last look and the commit of the next attempt', async () => {
    const retry_config = { max_retries: 3, backoff_ms: 1 };
    const agent = await engine.agent({}, [{ name: 'send', execution: { inline: true, retry_config } }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'send'), input: {} }) : text('sent')));
    const { run } = await engine.start(agent, 'send it');
    engine.toolsAnswer(async (_request, n) => (n > 0 ? { status: 200, body: {} } : { status: 429, body: {} }));
    const { context } = engine;
    const attempts = new Set<unknown>();
    const late: typeof context.commit = async (change) => {
      const started = change.events.find(({ type }) => type === 'tool.started')?.['payload'] as { attempt: number };
      if (started?.attempt === 2 && !attempts.has(2)) await silently('agent', agent);
      attempts.add(started?.attempt);
      return context.commit(change);
    };
    assert.equal(await engine.drive(run, { ...context, commit: late }), 'dormant');
    assert.equal(engine.tools.seen.length, 1);
    await suspend('agent', agent, false);
    await engine.finish(run);
    assert.deepEqual([engine.tools.seen.length, (await view(run))?.status], [2, 'completed']);
    const { differences } = await rebuildProjections(engine.context.db, { check: true });
    assert.deepEqual(differences, []);
  });

  it('leaves a call that a person wants to have made again, and that is suspended by now, unknown as it was', async () => {
    const agent = await engine.agent({}, [{ name: 'send', execution: { inline: true } }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'send'), input: {} }) : text('not sent')));
    engine.toolsAnswer(async () => ({ status: 503, body: {} }));
    const { run } = await engine.start(agent, 'send it');
    await engine.finish(run);
    const decide = async (decision: 'rerun' | 'give_up') => {
      const open = (await approvalsOfRun<{ id: string; status: string }>(engine, run)).find(
        ({ status }) => status === 'pending',
      );
      await decideApproval(engine.context, { tenantId: engine.tenantId, id: open?.id ?? '' }, { decision });
    };
    await decide('rerun');
    await suspend('tool', await toolOf(run), true);
    await engine.finish(run);
    assert.deepEqual(await callOfRun(engine, run), { status: 'unknown', attempt: 1 });
    assert.equal((await view(run))?.status, 'awaiting_human', 'people are asked once more');
    await decide('give_up');
    await engine.finish(run);
    assert.deepEqual([engine.tools.seen.length, (await view(run))?.status], [1, 'completed']);
    const read = JSON.stringify(engine.model.requests.at(-1)?.body);
    assert.match(read, /suspended/);
    assert.ok(read.includes(UNKNOWN_OUTCOME));
  });

  it('is in the audit log once for each change', async () => {
    const agent = await engine.agent();
    for (const suspended of [true, true, false, false]) await suspend('agent', agent, suspended);
    assert.deepEqual(
      (await auditOf(engine, agent)).map(({ action }) => action),
      ['agent.created', 'agent.suspended', 'agent.resumed'],
    );
  });
});

for (const mode of DOMAIN_MODES) {
  describe(`Suspension on an MCP server in ${mode} mode`, () => {
    let engine: Engine;
    /** Another process, where the mode lets there be one. */
    let other: Platform | undefined;
    before(async () => {
      engine = await openEngine(mode, { DROVER_EGRESS_ALLOW: '127.0.0.1' });
      const { config, log } = engine.context;
      other = mode === 'embedded' ? undefined : await openPlatform(config, { log });
    });
    after(async () => {
      await other?.close();
      await engine.close();
    });

    it('stops the calls of all its tools in every worker, whatever their credentials, and no others', async () => {
      const at = (path: string, headers?: Record<string, string>) => ({
        type: 'mcp_http' as const,
        endpoint: `${engine.tools.url}${path}`,
        ...(headers && { headers }),
      });
      const agent = await engine.agent({}, [
        { name: 'read', transport: at('/poisoned') },
        { name: 'write', transport: at('/poisoned', { authorization: 'Bearer x' }) },
        { name: 'look' },
      ]);
      const askForAll = (request: AnthropicRequest) =>
        use(...['read', 'write', 'look'].map((name) => ({ name: offered(request, name) })));
      engine.say((request, n) => (n === 0 ? askForAll(request) : text('so be it')));
      engine.toolsAnswer(() => undefined);
      const { run } = await engine.start(agent, 'go');
      assert.equal(await engine.drive(run), 'yielded');
      const server = await serverAt(engine, '/poisoned');
      const suspend = (suspended: boolean) =>
        setSuspension(engine.context, engine.caller, { kind: 'mcp_server', id: server, suspended });
      await suspend(true);
      await engine.makeCalls(run, other?.context);
      const seen = () => [...new Set(engine.tools.seen.map(({ path }) => path))];
      assert.deepEqual(seen(), ['/look']);
      await engine.finish(run);
      const codes = (await ledgerOfRun(engine, run)).map(({ error }) => error?.code);
      assert.deepEqual(codes.slice(0, 2), ['server_suspended', 'server_suspended']);
      assert.match(JSON.stringify(engine.model.requests.at(-1)?.body), /The server of .* is suspended/);

      await suspend(false);
      engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'read') }) : text('so be it')));
      const again = await engine.start(agent, 'go');
      assert.equal(await engine.drive(again.run), 'yielded');
      await engine.makeCalls(again.run, other?.context);
      assert.ok(seen().includes('/poisoned'));
      const actions = (await auditOf(engine, server)).map(({ action }) => action);
      assert.deepEqual(actions, ['mcp_server.suspended', 'mcp_server.resumed']);
    });
  });
}

describe('Suspension over HTTP', () => {
  let api: TestApi;
  let workers: Workers;
  before(async () => {
    api = await startTestApi(undefined, { forWorkers: true });
    workers = await startWorkers(api.context);
  });
  after(async () => {
    await workers.stop(5000);
    await api.close();
  });

  it('suspends an agent, its versions untouched, and lets its runs go on at once', async () => {
    const { key } = await api.newTenant();
    const call = (method: string, path: string, body?: unknown) =>
      api.call(method, path, { key, ...(body !== undefined && { body }) });
    const { json: agent } = await call('POST', '/v1/agents', { name: 'held', tools: ['calculator'] });
    const path = `/v1/agents/${agent.id}`;
    const held = await call('PATCH', path, { suspended: true });
    assert.deepEqual([held.json.suspended, held.json.version], [true, '1.0.0']);
    const { json: started } = await call('POST', `${path}/runs`, { input: { message: 'What is 6*7?' } });
    const run = `/v1/runs/${started.run_id}`;
    assert.equal((await call('GET', run)).json.suspended_by, 'agent');
    const { json: direct } = await call('GET', '/v1/tools?filter=name:calculator');
    assert.equal((await call('PATCH', `/v1/tools/${direct.tools[0].id}`, { suspended: true })).status, 409);
    assert.equal((await call('PATCH', path, { suspended: false, description: 'free' })).json.suspended, false);
    await waitUntil('the run ends', async () => (await call('GET', run)).json.status === 'completed');
    assert.equal((await call('GET', run)).json.suspended_by, undefined);
  });

  it('refuses direct execution of a suspended tool', async () => {
    const transport = { type: 'http', endpoint: 'https://tools.example/x' };
    const { json: tool } = await api.call('POST', '/v1/tools', { body: { name: 'held', description: 'd', transport } });
    const path = `/v1/tools/${tool.id}`;
    assert.equal((await api.call('PATCH', path, { body: { suspended: true } })).json.suspended, true);
    assert.equal((await api.call('POST', `${path}/execute`, { body: { input: {} } })).status, 409);
    assert.equal((await api.call('GET', path)).json.version, '1.0.0');
  });

  it('suspends an MCP server: its tools cannot be executed, nor imported anew, until it is lifted', async () => {
    const importAll = () =>
      api.call('POST', '/v1/tools/import', { body: { transport: { type: 'stdio', ...ODD_SERVER } } });
    const imported = await importAll();
    assert.equal(imported.status, 201, imported.text);
    const { json: listed } = await api.call('GET', '/v1/mcp-servers');
    const [server] = listed.mcp_servers;
    const names = (tools: { name: string }[]) => tools.map(({ name }) => name).toSorted();
    assert.deepEqual(names(server.tools), names(imported.json.tools));
    assert.deepEqual(server.transport, { type: 'mcp_stdio', ...ODD_SERVER });
    const path = `/v1/mcp-servers/${server.id}`;
    const tool = imported.json.tools.find(({ name }: { name: string }) => name === 'text');
    const execute = async () =>
      (await api.call('POST', `/v1/tools/${tool.id}/execute`, { body: { input: {} } })).status;
    assert.equal(await execute(), 200);
    assert.equal((await api.call('PATCH', path, { body: { suspended: true } })).json.suspended, true);
    assert.deepEqual([await execute(), (await importAll()).status], [409, 409]);
    assert.equal((await api.call('GET', path)).json.suspended, true);
    assert.equal((await api.call('PATCH', path, { body: { suspended: false } })).json.suspended, false);
    assert.deepEqual([await execute(), (await importAll()).status], [200, 201]);
    const { key } = await api
      .call('POST', '/v1/api-keys', { body: { name: 'reader', scopes: ['tools:read'] } })
      .then(({ json }) => json);
    assert.equal((await api.call('PATCH', path, { key, body: { suspended: true } })).status, 403);
  });

  it("lets a tenant's admin suspend the tenant, and nobody but the operator lift the operator's suspension", async () => {
    const tenant = await api.newTenant();
    const stranger = await api.newTenant();
    const path = `/v1/tenants/${tenant.id}`;
    const patch = async (key: string, suspended: boolean) =>
      (await api.call('PATCH', path, { key, body: { suspended } })).status;
    assert.equal(await patch(stranger.key, true), 404);
    assert.equal(await patch(tenant.key, true), 200);
    assert.equal(await patch(tenant.key, false), 200);
    assert.equal(await patch(api.key, true), 200);
    assert.equal(await patch(tenant.key, true), 200);
    assert.equal(await patch(tenant.key, false), 403);
    assert.equal(await patch(api.key, false), 200);
    const { json } = await api.call('GET', `/v1/audit?target=${tenant.id}`, { key: tenant.key });
    const done = json.audit.map(
      (entry: { action: string; actor: { type: string } }) => `${entry.actor.type} ${entry.action}`,
    );
    assert.deepEqual(done.toReversed(), [
      'operator tenant.created',
      'api_key tenant.suspended',
      'api_key tenant.resumed',
      'operator tenant.suspended',
      'operator tenant.resumed',
    ]);
    const own = await api.call('GET', `/v1/audit?target=${tenant.id}&action=tenant.suspended`);
    assert.equal(own.json.audit.length, 1);
  });
});
