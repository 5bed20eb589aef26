import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { ERASERS, KEPT_COLUMNS, NO_CONTENT } from '../../../db/erasure.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { request, type Answer, type Call } from '../../support/api.ts';
import { startServer, type LocalServer } from '../../support/echo-server.ts';
import { redisKeysWith, tablesWith } from '../../support/find-text.ts';
import { DOMAIN_MODES } from '../../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../../support/platform.ts';
import { startScriptedModel, type ScriptedModel } from '../../support/scripted-model.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { tablesWithTexts, textsLeftBy } from '../../support/queries/postgres.ts';

for (const mode of DOMAIN_MODES) {
  describe(`Erasing in ${mode} mode`, () => {
    let model: ScriptedModel;
    let platform: TestPlatform;
    let server: LocalServer;
    let agent: string;
    let release = () => {};

    before(async () => {
      model = await startScriptedModel();
      server = await startServer(({ path, body }, response) => {
        const answer = () => void response.writeHead(path === '/fail' ? 400 : 200).end(JSON.stringify({ said: body }));
        if (path === '/slow') release = answer;
        else if (path === '/hook') response.writeHead(500).end();
        else answer();
      });
      const env = {
        ANTHROPIC_API_KEY: 'test',
        ANTHROPIC_BASE_URL: model.url,
        DROVER_EGRESS_ALLOW: '127.0.0.1',
        LOG_LEVEL: 'debug',
      };
      platform = await openTestPlatform(mode, { workers: true, api: true, env });
      const names = ['say', 'fail', 'risky', 'slow'];
      for (const name of names) {
        const transport = { type: 'http', endpoint: `${server.url}/${name}` };
        const risk_level = name === 'risky' ? 'WRITE_HIGH_RISK' : 'WRITE_LOW_RISK';
        await call('POST', '/v1/tools', { name, description: 'A tool.', transport, risk_level });
      }
      const tools = [...names, 'calculator', 'ask_user'];
      agent = (await call('POST', '/v1/agents', { name: 'teller', tools })).json.id;
      await call('POST', '/v1/webhooks', { url: `${server.url}/hook`, events: ['*'] });
    });
    after(async () => {
      await platform.close();
      await server.close();
      await model.close();
    });

    const send = (method: string, path: string, more: Call) =>
      request(`${platform.url}${path}`, method, { key: platform.apiKey, ...more });
    const call = (method: string, path: string, body?: unknown) =>
      send(method, path, body === undefined ? {} : { body });
    const start = async (message: string, more: Record<string, unknown> = {}) => {
      const { status, text, json } = await call('POST', `/v1/agents/${agent}/runs`, { input: { message }, ...more });
      assert.equal(status, 202, text);
      return { run: json['run_id'] as string, thread: json['thread_id'] as string };
    };
    const ended = async (run: string, statuses = ['completed', 'failed', 'cancelled']) => {
      let found: Answer['json'] = {};
      await waitUntil(`run ${run} is ${statuses.join(' or ')}`, async () => {
        found = (await call('GET', `/v1/runs/${run}`)).json;
        return statuses.includes(found['status']);
      });
      return found;
    };
    const approval = async (run: string): Promise<string> => {
      let id = '';
      await waitUntil('somebody is asked', async () => {
        const { json } = await call('GET', `/v1/approvals?status=pending&run_id=${run}`);
        id = json['approvals'][0]?.id ?? '';
        return id !== '';
      });
      return id;
    };
    const assertGone = async (canary: string) => {
      const { db, config } = platform.context;
      assert.deepEqual(await tablesWith(db, canary), []);
      if (mode === 'full') assert.deepEqual((await redisKeysWith(config.queuePrefix, canary)).found, []);
      assert.deepEqual(
        platform.log.filter((line) => JSON.stringify(line).includes(canary)),
        [],
      );
    };

    /** Posts a turn, and waits until a part of the answer has come. */
    async function untilHeard(path: string, body: object): Promise<void> {
      const headers = { authorization: `Bearer ${platform.apiKey}`, 'content-type': 'application/json' };
      const answer = await fetch(`${platform.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
      let heard = '';
      for await (const chunk of answer.body ?? []) {
        heard += Buffer.from(chunk).toString();
        if (heard.includes('"done":false')) break;
      }
    }

    /** A run with the text wherever a run can have one. */
    async function runWith(canary: string) {
      const json = JSON.stringify({ text: canary });
      const steps = [
        `call say ${json} & fail ${json} & calculator {"expression":"1+1"}`,
        `call no_${canary} ${json}`,
        `call risky ${json}`,
        `call risky ${json}`,
        `call ask_user {"question":"${canary}?"}`,
        `say ${canary}`,
      ];
      const { run, thread } = await start(steps.join(' | '), { config: { keep_open: true } });
      await call('POST', `/v1/approvals/${await approval(run)}`, { decision: 'deny', reason: canary });
      const edited = { decision: 'edit', arguments: { text: `${canary}, edited` }, reason: canary };
      await call('POST', `/v1/approvals/${await approval(run)}`, edited);
      await waitUntil('it asks', async () => {
        const { json: now } = await call('GET', `/v1/runs/${run}`);
        return model.asked(canary).length === 5 && now['waiting_for']?.type === 'user';
      });
      const signal = { type: 'user', id: canary, payload: { message: canary } };
      const signalled = await call('POST', `/v1/runs/${run}/signals`, signal);
      assert.ok(signalled.status < 300, signalled.text);
      await waitUntil('the first turn has ended', async () => {
        return (await call('GET', `/v1/runs/${run}/turns`)).json['turns'][0].status === 'complete';
      });
      const second = { input: { message: `say ${canary} again` } };
      const turned = await send('POST', `/v1/agents/${agent}/runs/${run}/turns`, {
        body: second,
        headers: { 'idempotency-key': canary.slice(7) },
      });
      assert.equal(turned.json['output'].message, `${canary} again`);
      const third = { input: { message: `hang say ${canary}` } };
      await untilHeard(`/v1/agents/${agent}/runs/${run}/turns/stream`, third);
      await call('POST', `/v1/runs/${run}/cancel`, { reason: canary });
      assert.equal((await ended(run))['status'], 'cancelled');
      await waitUntil('its driver has kept what it had heard', async () => {
        const events = (await call('GET', `/v1/runs/${run}/events?limit=200`)).json['events'];
        return events.at(-1).type === 'model.failed';
      });
      return { run, thread };
    }

    it('leaves nothing of what was said, and a log that still folds, with its ids, times and costs', async () => {
      const canary = `canary-${randomUUID()}`;
      const { run, thread } = await runWith(canary);
      const before = (await call('GET', `/v1/runs/${run}`)).json;
      const eventsBefore = (await call('GET', `/v1/runs/${run}/events?limit=200`)).json['events'];
      const found = await tablesWith(platform.context.db, canary);
      for (const table of ['run_log', 'messages', 'tool_calls', 'approvals', 'turns', 'signals']) {
        assert.ok(
          found.some((name) => name.includes(table)),
          `the search finds what is there: ${table} of ${found.join()}`,
        );
      }

      const erased = await call('DELETE', `/v1/runs/${run}`);
      assert.equal(erased.status, 202, erased.text);
      assert.ok(erased.json['erased_at']);
      assert.equal((await call('DELETE', `/v1/runs/${run}`)).status, 200);
      await assertGone(canary);

      const { erased_at: _at, ...now } = (await call('GET', `/v1/runs/${run}`)).json;
      const { output: _output, ...kept } = before;
      assert.deepEqual({ ...now, last_seq: 0, updated_at: 0 }, { ...kept, last_seq: 0, updated_at: 0 });
      const events = (await call('GET', `/v1/runs/${run}/events?limit=200`)).json['events'];
      const heads = (list: Record<string, unknown>[]) =>
        list.map(({ seq, type, occurred_at }) => ({ seq, type, occurred_at }));
      assert.deepEqual(heads(events.slice(0, -1)), heads(eventsBefore));
      assert.equal(events.at(-1).type, 'run.erased');
      const { differences } = await rebuildProjections(platform.context.db, { check: true });
      assert.deepEqual(differences, []);
      const audit = await call('GET', '/v1/audit/verify');
      assert.deepEqual([audit.status, audit.json['ok']], [200, true], audit.text);
      for (const part of ['turns', 'checkpoints', 'log', 'stream', 'steps']) {
        const { status, text } = await call('GET', `/v1/runs/${run}/${part}`);
        assert.ok(status === 200 || status === 404 || status === 204, `${part}: ${status} ${text}`);
        assert.ok(!text.includes(canary), part);
      }
      const { json: turns } = await call('GET', `/v1/runs/${run}/turns`);
      for (const turn of turns['turns'])
        assert.equal((await call('GET', `/v1/runs/${run}/turns/${turn.id}`)).status, 200);
      const { json: heads2 } = await call('GET', `/v1/runs/${run}/checkpoints`);
      for (const { id } of heads2['checkpoints']) {
        assert.equal((await call('GET', `/v1/runs/${run}/checkpoints/${id}`)).json['code'], 'erased');
        const again = await call('POST', `/v1/runs/${run}/replay`, { checkpoint_id: id });
        assert.deepEqual([again.status, again.json['code']], [409, 'erased']);
      }
      const retried = await call('POST', `/v1/runs/${run}/retry`, {});
      assert.deepEqual([retried.status, retried.json['code']], [409, 'erased']);
      // The thread goes on without what is gone.
      const next = await start('say after', { thread_id: thread });
      assert.equal((await ended(next.run))['output'].message, 'after');
      assert.equal(model.asked('say after')[0]?.messages.length, 1);
    });

    it('leaves nothing of a session: of its plans that were refined and rejected, of what was given with it, and of who has talked', async () => {
      const canary = `canary-${randomUUID()}`;
      const said = `call risky {"text":"${canary}"} | call risky {"text":"${canary}"} | say ${canary}`;
      const of = { user_id: `ada of ${canary}`, agent_id: agent, autonomy_level: 0, context: { note: canary } };
      const { session_id } = (await call('POST', '/agent/chat', { message: said, ...of })).json;
      const planned = async (before?: string): Promise<string> => {
        let plan = '';
        await waitUntil('a plan waits', async () => {
          plan = (await call('GET', `/agent/session/${session_id}`)).json['pending_plan']?.plan_id ?? '';
          return plan !== '' && plan !== before;
        });
        return plan;
      };
      const first = await planned();
      const refined = await call('POST', '/agent/refine', { session_id, plan_id: first, feedback: canary });
      assert.equal(refined.status, 202, refined.text);
      const rejected = { session_id, plan_id: await planned(first), reason: canary };
      assert.equal((await call('POST', '/agent/reject', rejected)).status, 200);
      assert.ok((await tablesWith(platform.context.db, canary)).length > 3);
      const erased = await call('DELETE', `/v1/threads/${session_id}`);
      assert.equal(erased.status, 202, erased.text);
      await assertGone(canary);
      const { json: shown } = await call('GET', `/agent/session/${session_id}`);
      assert.deepEqual([shown['user_id'], shown['character_id']], [null, null]);
      const again = await call('POST', '/agent/chat', { message: 'hello?', session_id, user_id: of.user_id });
      assert.deepEqual([again.status, again.json['code']], [409, 'erased']);
    });

    it('leaves no skill that only a part of the work asked for, and each that an agent has', async () => {
      const [canary, kept] = [`canary-${randomUUID()}`, `skill-${randomUUID()}`];
      const capabilities = [{ skill_name: kept }];
      assert.equal((await call('POST', '/v1/agents', { name: `skilled ${kept}`, capabilities })).status, 201);
      const subtasks = [{ id: 'a', description: 'say it', required_capabilities: [kept, canary] }];
      const work = { name: 'w', agent_id: agent, input: { user_query: 'q' }, definition: { subtasks } };
      const { json, text } = await call('POST', '/v1/workflows', work);
      assert.equal((await ended(json['run_id']))['status'], 'failed', text);
      assert.ok((await tablesWith(platform.context.db, canary)).includes('public.skills'));
      assert.equal((await call('DELETE', `/v1/runs/${json['run_id']}`)).status, 202);
      await assertGone(canary);
      assert.ok((await tablesWith(platform.context.db, kept)).includes('public.skills'));
    });

    it('is refused while others stand on the messages, which are erased where that is asked for', async () => {
      const canary = `canary-${randomUUID()}`;
      const first = await start(`say ${canary} one`);
      await ended(first.run);
      const second = await start(`say ${canary} two`, { thread_id: first.thread });
      await ended(second.run);
      const { json } = await call('GET', `/v1/runs/${first.run}/checkpoints`);
      const custom = { checkpoint_id: json['checkpoints'][0].id, modified_state: { custom: { note: canary } } };
      const fork = (await call('POST', `/v1/runs/${first.run}/replay`, custom)).json['new_run_id'];
      await ended(fork, ['completed', 'awaiting_human']);
      const refused = await call('DELETE', `/v1/runs/${first.run}`);
      assert.deepEqual([refused.status, refused.json['code']], [409, 'has_dependents']);
      assert.deepEqual(refused.json['run_ids'], [second.run, fork], 'in the order in which they were made');
      assert.equal((await call('GET', `/v1/runs/${first.run}`)).json['erased_at'], undefined);
      assert.equal((await call('DELETE', `/v1/runs/${second.run}`)).status, 202, 'nothing stands on the last');
      assert.deepEqual((await call('DELETE', `/v1/runs/${first.run}`)).json['run_ids'], [fork]);
      assert.equal((await call('DELETE', `/v1/runs/${first.run}?dependents=true`)).status, 202);
      for (const id of [first.run, second.run, fork]) {
        assert.ok((await call('GET', `/v1/runs/${id}`)).json['erased_at'], id);
      }
      await assertGone(canary);
    });

    it('goes on from the last run that is left, in a thread whose end was erased', async () => {
      const { run, thread } = await start('say kept');
      await ended(run);
      const second = await start('say gone', { thread_id: thread });
      await ended(second.run);
      assert.equal((await call('DELETE', `/v1/runs/${second.run}`)).status, 202);
      const third = await start('say third', { thread_id: thread });
      assert.equal((await ended(third.run))['output'].message, 'third');
      const said = JSON.stringify(model.asked('say third')[0]?.messages);
      assert.match(said, /say kept/);
      assert.doesNotMatch(said, /say gone/);
      assert.deepEqual((await call('DELETE', `/v1/runs/${run}`)).json['run_ids'], [third.run]);
    });

    it('cancels a run that has not ended, and drops what a call in flight brings later', async () => {
      const canary = `canary-${randomUUID()}`;
      const { run } = await start(`call slow ${JSON.stringify({ text: canary })} | say never`);
      await waitUntil('the call is made', () => server.seen.some(({ path }) => path === '/slow'));
      assert.equal((await call('DELETE', `/v1/runs/${run}`)).status, 202);
      assert.equal((await ended(run))['status'], 'cancelled');
      release();
      await waitUntil('the call has settled', async () => {
        const { json } = await call('GET', `/v1/runs/${run}/turns`);
        const turn = await call('GET', `/v1/runs/${run}/turns/${json['turns'][0].id}`);
        const [made] = turn.json['steps'].flatMap((step: { tool_calls: { status: string }[] }) => step.tool_calls);
        return made.status !== 'running';
      });
      await assertGone(canary);
    });

    it('takes a thread with all its runs, and none starts on it again', async () => {
      const canary = `canary-${randomUUID()}`;
      const first = await start(`say ${canary} one`);
      await ended(first.run);
      const second = await start(`say ${canary} two`, { thread_id: first.thread });
      await ended(second.run);
      const { json } = await call('GET', `/v1/runs/${second.run}/checkpoints`);
      const at = { checkpoint_id: json['checkpoints'][0].id };
      const fork = (await call('POST', `/v1/runs/${second.run}/replay`, at)).json['new_run_id'];
      const path = `/v1/threads/${first.thread}`;
      const refused = await call('DELETE', path);
      assert.deepEqual([refused.status, refused.json['run_ids']], [409, [fork]]);
      const erased = await call('DELETE', `${path}?dependents=true`);
      assert.deepEqual([erased.status, erased.json['thread_id']], [202, first.thread], erased.text);
      assert.equal((await call('DELETE', path)).status, 200);
      for (const id of [first.run, second.run, fork]) {
        assert.ok((await call('GET', `/v1/runs/${id}`)).json['erased_at'], id);
      }
      await assertGone(canary);
      const input = { message: 'say more' };
      const again = await call('POST', `/v1/agents/${agent}/runs`, { input, thread_id: first.thread });
      assert.deepEqual([again.status, again.json['code']], [409, 'erased']);
      assert.equal((await call('DELETE', `/v1/threads/${randomUUID()}`)).status, 404);
    });

    it('has an eraser for every table with texts, or a reason why there is nothing to erase', async () => {
      const tables = await tablesWithTexts(platform.context.db);
      const isFree = ({ comment }: { comment: string | null }) => comment?.startsWith(NO_CONTENT) === true;
      const [free, others] = [tables.filter(isFree), tables.filter((table) => !isFree(table))];
      assert.ok(free.length > 30, `${free.length} tables say that they have no content`);
      assert.deepEqual(
        others.map(({ name }) => name),
        Object.keys(ERASERS).toSorted(),
        `register an eraser in db/erasure.ts, or say in a comment on the table, in its migration, '${NO_CONTENT}' and why`,
      );
    });

    it('erases every column with texts of these tables, or says why it is kept', async () => {
      const kept = Object.values(KEPT_COLUMNS).flatMap(Object.entries<readonly string[]>);
      assert.deepEqual(
        await textsLeftBy(platform.context.db, ERASERS),
        kept.flatMap(([table, columns]) => columns.map((column) => `${table}.${column}`)).toSorted(),
        'have an eraser in db/erasure.ts write the column, or name it in KEPT_COLUMNS there, under why nothing in it was said in a run',
      );
    });
  });
}
