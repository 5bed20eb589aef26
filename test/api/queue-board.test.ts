import assert from 'node:assert/strict';
import { runInNewContext } from 'node:vm';
import { CONTRACTS } from '../../jobs/contracts.ts';
import { createSessionCookies, SESSION_MS } from '../../api/admin/session-cookie.ts';
import { newId } from '../../lib/new-id.ts';
import { startWorkers, type Workers } from '../../workers/start-workers.ts';
import { request, startTestApi } from '../support/api.ts';
import type { Call, TestApi } from '../support/api.ts';
import { text as say, use } from '../support/engine.ts';
import { startFakeAnthropic } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { MODES } from '../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { waitUntil } from '../support/wait-until.ts';
import { terminateSession } from '../support/queries/postgres.ts';

const BOARD = '/admin/queues';
const BROWSER = { accept: 'text/html' };

describe('the queue board', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());

  const signIn = (key: string, headers: Record<string, string> = {}, more: Record<string, string> = {}) =>
    api.call('POST', `${BOARD}/sign-in`, {
      key: null,
      raw: new URLSearchParams({ key, ...more }).toString(),
      headers: { ...BROWSER, 'content-type': 'application/x-www-form-urlencoded', ...headers },
      redirect: 'manual',
    });
  const cookieOf = async (key: string): Promise<string> => {
    const { headers } = await signIn(key);
    return (headers.get('set-cookie') ?? '').split(';')[0] ?? '';
  };
  const visit = (path: string, call: Call) => api.call('GET', `${BOARD}${path}`, { key: null, ...call });

  it("opens for the operator's key", async () => {
    const { status, json } = await visit('/api/queues', { key: api.key });
    assert.equal(status, 200);
    assert.deepEqual(
      json.queues.map(({ name }: { name: string }) => name),
      CONTRACTS.map(({ name }) => name),
    );
  });

  it("is closed to no key, a wrong key, and other tenants' admins, its data and files too", async () => {
    const { key } = await api.newTenant();
    for (const path of ['', '/', '/api/queues', '/static/css/x.css', '/queue/turns']) {
      assert.equal((await visit(path, {})).status, 401, path);
      assert.equal((await visit(path, { key: 'wrong' })).status, 401, path);
      assert.equal((await visit(path, { key })).status, 403, path);
      assert.equal((await visit(path, { headers: BROWSER })).status, 401, path);
    }
  });

  it('shows a browser a form, and after signing in the board', async () => {
    const form = await visit('', { headers: BROWSER });
    assert.match(form.text, /<form method="post" action="\/admin\/queues\/sign-in">/);
    assert.match(form.text, /:root \{ color-scheme: light dark \}/);
    const answer = await signIn(api.key);
    assert.deepEqual([answer.status, new URL(answer.headers.get('location') ?? '', api.url).pathname], [303, BOARD]);
    const cookie = answer.headers.get('set-cookie') ?? '';
    assert.match(cookie, /httponly/i);
    assert.match(cookie, /samesite=strict/i);
    assert.match(cookie, /path=\/admin\/queues/i);
    assert.ok(!cookie.includes(api.key));
    const board = await visit('', { headers: { ...BROWSER, cookie: cookie.split(';')[0] ?? '' } });
    assert.deepEqual([board.status, /__UI_CONFIG__/.test(board.text)], [200, true]);
  });

  it('leads whom it asks to sign in to where they wanted to go, and nowhere else', async () => {
    const link = `${BOARD}/queue/turns?status=failed&page=2`;
    const { text } = await api.call('GET', link, { key: null, headers: BROWSER });
    assert.match(text, /name="to" value="\/admin\/queues\/queue\/turns\?status=failed&amp;page=2"/);
    const leads = async (to: string) => (await signIn(api.key, {}, { to })).headers.get('location');
    assert.equal(await leads(link), link);
    const elsewhere = ['https://evil.example/admin/queues/', `//evil.example${BOARD}/`, `\\\\evil.example${BOARD}/`];
    for (const to of [...elsewhere, `${BOARD}/../../v1/runs`, `${BOARD}evil`, `${BOARD}/sign-out`, 'javascript:1', ''])
      assert.equal(await leads(to), BOARD, to);
    const wrong = await signIn('wrong', {}, { to: link });
    assert.match(wrong.text, /name="to" value="\/admin\/queues\/queue/);
  });

  it('offers to retry jobs that have ended, and no turns, which would stay as they are', async () => {
    const { json } = await visit('/api/queues', { key: api.key });
    for (const { name, allowRetries, allowCompletedRetries } of json.queues)
      assert.deepEqual([allowRetries, allowCompletedRetries], Array(2).fill(name !== 'turns'), name);
  });

  it('loads nothing from elsewhere', async () => {
    const { headers, text } = await visit('', { key: api.key });
    const policy = headers.get('content-security-policy') ?? '';
    assert.match(policy, /default-src 'none'/);
    assert.doesNotMatch(policy, /https?:|\*/);
    for (const [, path] of text.matchAll(/<script defer src="([^"]+)"/g)) {
      assert.equal((await visit(`/${path}`, { key: api.key })).status, 200, path);
    }
  });

  it('takes no wrong key, and no key of others', async () => {
    const { key } = await api.newTenant();
    for (const [given, status] of [
      ['wrong', 401],
      ['', 401],
      [key, 403],
    ] as const) {
      const answer = await signIn(given);
      assert.deepEqual([answer.status, answer.headers.get('set-cookie')], [status, null]);
      assert.match(answer.text, /role="alert"/);
    }
  });

  it('takes no request that another site has made a browser send', async () => {
    const cookie = await cookieOf(api.key);
    const pause = (headers: Record<string, string>) =>
      api.call('PUT', `${BOARD}/api/queues/turns/pause`, { key: null, headers: { cookie, ...headers } });
    assert.equal((await pause({ origin: 'https://evil.example' })).status, 403);
    assert.equal((await pause({ origin: 'http://127.0.0.1:1' })).status, 403);
    assert.equal((await pause({ origin: 'null' })).status, 403);
    assert.equal((await pause({ 'sec-fetch-site': 'same-site' })).status, 403);
    assert.equal((await pause({ origin: api.url, 'sec-fetch-site': 'same-origin' })).status, 200);
    assert.equal((await signIn(api.key, { origin: 'https://evil.example' })).status, 403);
  });

  it('puts what is done on it into the audit log, and nothing that is only looked at', async () => {
    const since = new Date().toISOString();
    for (const path of ['/api/queues/titles/pause', '/api/queues/titles/clean/completed', '/api/queues/titles/resume'])
      assert.equal((await api.call('PUT', `${BOARD}${path}`, {})).status, 200, path);
    await visit('/api/queues', { key: api.key });
    const { json } = await api.call('GET', `/v1/audit?action=queue.operated&created_after=${since}`);
    assert.deepEqual(
      json.audit.map((row: AuditRow) => [row.actor.type, row.target.id, row.details]),
      ['resume', 'clean/completed', 'pause'].map((act) => ['operator', 'titles', { act, method: 'PUT' }]),
    );
  });

  it('tells the audit log from where a browser came that has acted on it, as with a key', async () => {
    const since = new Date().toISOString();
    const path = `${BOARD}/api/queues/titles/resume`;
    const cookie = await cookieOf(api.key);
    const headers = { 'x-forwarded-for': '203.0.113.9', 'x-request-id': newId() };
    for (const call of [{ headers }, { key: null, headers: { ...headers, cookie } }])
      assert.equal((await api.call('PUT', path, call)).status, 200);
    const { json } = await api.call('GET', `/v1/audit?action=queue.operated&created_after=${since}`);
    const seen = json.audit.map(({ ip, forwarded_for, request_id }: AuditRow) => [ip, forwarded_for, request_id]);
    const came = ['127.0.0.1', '203.0.113.9', headers['x-request-id']];
    assert.deepEqual(seen, [came, came]);
  });

  it('goes back to the sign-in form once its data is refused, since the session has ended', async () => {
    const board = await visit('', { key: api.key });
    const [, path = ''] = /<script src="\/admin\/queues(\/[^"]+)"><\/script><\/head>/.exec(board.text) ?? [];
    const script = await visit(path, { key: api.key });
    assert.deepEqual([script.status, script.headers.get('content-type')], [200, 'text/javascript; charset=utf-8']);
    const reloads: number[] = [];
    /** The browser's, as far as the script has to do with it. */
    class XMLHttpRequest extends EventTarget {
      status = 0;
      opened: unknown[] = [];
      open(...args: unknown[]) {
        this.opened = args;
      }
      answer(status: number) {
        this.status = status;
        this.dispatchEvent(new Event('load'));
      }
    }
    runInNewContext(script.text, { XMLHttpRequest, location: { reload: () => reloads.push(1) } });
    for (const [status, expected] of [
      [200, 0],
      [500, 0],
      [401, 1],
    ] as const) {
      const asked = new XMLHttpRequest();
      asked.open('GET', 'api/queues', true);
      assert.deepEqual(asked.opened, ['GET', 'api/queues', true]);
      asked.answer(status);
      assert.equal(reloads.length, expected, String(status));
    }
    const page = await visit('/queue/turns', { headers: { ...BROWSER, cookie: 'drover_admin=ended' } });
    assert.deepEqual([page.status, page.text.includes('<script')], [401, false]);
  });

  it('ends a session by signing out, and with the key that began it', async () => {
    const { json } = await api.call('POST', '/v1/api-keys', { body: { name: 'board', scopes: ['admin'] } });
    const cookie = await cookieOf(json.key);
    const status = async () => (await visit('', { headers: { ...BROWSER, cookie } })).status;
    assert.equal(await status(), 200);
    const out = await api.call('POST', `${BOARD}/sign-out`, { key: null, headers: { cookie }, redirect: 'manual' });
    assert.match(out.headers.get('set-cookie') ?? '', /drover_admin=;.*expires=Thu, 01 Jan 1970/i);
    await api.call('DELETE', `/v1/api-keys/${json.id}`);
    assert.equal(await status(), 401);
  });
});

interface AuditRow {
  ip: string | null;
  forwarded_for: string | null;
  request_id: string | null;
  actor: { type: string };
  target: { id: string };
  details: unknown;
}

interface Card {
  id: string;
  name: string;
  data: { runId: string; outcome: string; queue_job: string | null };
  failedReason?: string;
  externalUrl: { href: string };
  timestamp: number;
  processedOn: number;
  finishedOn: number;
}

for (const mode of MODES) {
  describe(`the turns on the queue board in ${mode} mode`, () => {
    /** In every message, and so in what was asked and answered: the board must not know it. */
    const SAID = 'pineapple';
    let platform: TestPlatform;
    let workers: Workers;
    let model: FakeServer;
    let agent: string;

    before(async () => {
      model = await startFakeAnthropic(({ messages }) => {
        const asked = JSON.stringify(messages);
        if (asked.includes('tool_result')) return say(SAID);
        if (asked.includes('hang')) return { hang: true };
        if (asked.includes('fail')) return { error: { status: 400, type: 'invalid_request_error' } };
        if (asked.includes('refuse')) return { error: { status: 429, type: 'rate_limit_error', retryAfter: 200 } };
        if (asked.includes('question')) return use({ name: 'ask_user', input: { question: SAID } });
        if (asked.includes('sleep')) return use({ name: 'sleep', input: { seconds: 3600 } });
        return say(SAID);
      });
      const env = { ANTHROPIC_API_KEY: 'sk-test', ANTHROPIC_BASE_URL: model.url, DROVER_CONCURRENCY: 'turns=1' };
      platform = await openTestPlatform(mode, { api: true, env });
      workers = await startWorkers(platform.context);
      const made = await call('POST', '/v1/agents', { name: 'gardener', tools: ['ask_user', 'sleep'] });
      agent = made.json.id;
    });
    after(async () => {
      await workers?.stop(3000);
      await platform?.close();
      await model?.close();
    });

    const call = (method: string, path: string, body?: unknown) =>
      request(`${platform.url}${path}`, method, { key: platform.apiKey, ...(body === undefined ? {} : { body }) });

    const start = async (wish: string, config: Record<string, unknown> = {}): Promise<string> => {
      const input = { message: `${wish} ${SAID}` };
      const { status, json, text } = await call('POST', `/v1/agents/${agent}/runs`, { input, config });
      assert.equal(status, 202, text);
      return json.run_id;
    };
    const look = async (status = 'latest', page = 1, jobsPerPage = 10) => {
      const query = `activeQueue=turns&status=${status}&page=${page}&jobsPerPage=${jobsPerPage}`;
      const answer = await call('GET', `${BOARD}/api/queues?${query}`);
      assert.equal(answer.status, 200, answer.text);
      assert.ok(!answer.text.includes(SAID), 'the board shows what was said');
      const [turns] = answer.json.queues;
      return turns as { counts: Record<string, number>; jobs: Card[]; pagination: { pageCount: number } };
    };
    const untilShown = async (run: string, status: string): Promise<Card> => {
      let card: Card | undefined;
      await waitUntil(`the board shows ${run} as ${status}`, async () => {
        const { jobs } = await look(status);
        card = jobs.find(({ data }) => data.runId === run);
        return card !== undefined;
      });
      assert.ok(card);
      return card;
    };
    /** Whether the queue has, or had, a job for the run. */
    const wasQueued = async (run: string): Promise<boolean> => {
      const jobs = await platform.context.queues.queue('turns').getJobs();
      return jobs.some(({ data }) => data.runId === run);
    };

    it('are there when they were dispatched locally, with agent, run and outcome, and a page of the run', async () => {
      const run = await start('answer');
      const card = await untilShown(run, 'completed');
      assert.equal(await wasQueued(run), false);
      assert.equal(card.name, `gardener · run ${run} · complete (end_turn)`);
      assert.equal(card.data.queue_job, null);
      assert.ok(card.timestamp <= card.processedOn && card.processedOn <= card.finishedOn);
      const page = await call('GET', card.externalUrl.href);
      assert.equal(page.status, 200);
      for (const shown of [run, 'gardener', card.id, 'complete (end_turn)'])
        assert.ok(page.text.includes(shown), shown);
      assert.ok(!page.text.includes(SAID));
      const { json } = await call('GET', `${BOARD}/api/queues/turns/${card.id}`);
      assert.deepEqual([json.job.id, json.status], [card.id, 'completed']);
    });

    it('are there while they are driven, while they wait for a worker, and when the queue has brought them to one', async () => {
      const driven = await start('hang');
      assert.match((await untilShown(driven, 'active')).name, /being driven/);
      const waiting = await start('answer');
      assert.match((await untilShown(waiting, 'waiting')).name, /waits for a worker/);
      // A job that finds no slot is put back for a moment, and waits again.
      await waitUntil('both are counted', async () => {
        const { counts } = await look();
        return counts['active'] === 1 && counts['waiting'] === 1;
      });
      await call('POST', `/v1/runs/${driven}/cancel`);
      assert.match((await untilShown(driven, 'completed')).name, /cancelled/);
      const card = await untilShown(waiting, 'completed');
      assert.equal(await wasQueued(waiting), true);
      assert.ok(card.data.queue_job?.startsWith(waiting));
    });

    it('say why they failed', async () => {
      const run = await start('fail');
      const { name, failedReason } = await untilShown(run, 'failed');
      const { json } = await call('GET', `/v1/runs/${run}`);
      assert.equal(failedReason, `${json.error.code}: ${json.error.message}`);
      assert.ok(name.endsWith(`failed (${json.error.code})`), name);
    });

    it('wait for people and for the time in states of their own', async () => {
      const asks = await start('question');
      const sleeps = await start('sleep');
      assert.match((await untilShown(asks, 'waiting-children')).name, /waits for user/);
      assert.match((await untilShown(sleeps, 'delayed')).name, /sleeps/);
      const { counts } = await look();
      assert.deepEqual([counts['waiting-children'], counts['delayed'], counts['active']], [1, 1, 0]);
    });

    it('are delayed where a provider has refused, and an action goes to their job in the queue', async () => {
      const run = await start('refuse', { model_override: 'claude-refusing' });
      const card = await untilShown(run, 'delayed');
      assert.ok(card.data.queue_job?.startsWith(run));
      assert.match(card.name, /put off/);
      const promoted = await call('PUT', `${BOARD}/api/queues/turns/${card.id}/promote`);
      assert.equal(promoted.status, 204, promoted.text);
      await waitUntil('the run is put off anew', async () => {
        const { json } = await call('GET', `${BOARD}/api/queues/turns/${card.id}`);
        return json.status === 'delayed' && json.job.data.queue_job !== card.data.queue_job;
      });
    });

    it('refuse an action that the queue has no job for', async () => {
      let id = '';
      await waitUntil('a turn is driven without a job', async () => {
        const run = await start('answer');
        ({ id } = await untilShown(run, 'completed'));
        return !(await wasQueued(run));
      });
      const { status, json } = await call('PUT', `${BOARD}/api/queues/turns/${id}/retry`);
      assert.equal(status, 409);
      assert.match(json.detail, /no job for turn/);
      assert.equal((await call('PUT', `${BOARD}/api/queues/turns/retry/completed`)).status, 409);
      assert.equal((await call('GET', `${BOARD}/api/queues/turns/${newId()}`)).status, 404);
      assert.equal((await call('GET', `${BOARD}/runs/${newId()}`)).status, 404);
    });

    it('can be sent again as a job of the queue, which does no harm', async () => {
      const run = await start('answer');
      const { name, data } = await untilShown(run, 'completed');
      const copy = await call('POST', `${BOARD}/api/queues/turns/add`, { name, data, options: {} });
      assert.equal(copy.status, 200, copy.text);
      await waitUntil('the copy is done', async () => {
        const { json } = await call('GET', `${BOARD}/api/queues/turns/${copy.json.job.id}`);
        return json.status === 'completed' && json.job.returnValue === 'finished';
      });
      const { json } = await call('GET', `/v1/runs/${run}`);
      assert.deepEqual([json.status, json.turn_count ?? 1], ['completed', 1]);
    });

    it('show the tree of a workflow, however its children are driven, from wherever one looks', async () => {
      const needs = { a: [], b: [], c: ['a', 'b'] };
      const subtasks = Object.entries(needs).map(([id, dependencies]) => ({ id, description: 'Grow.', dependencies }));
      const body = { name: 'garden', agent_id: agent, input: { user_query: 'Grow it.' }, definition: { subtasks } };
      const { json: workflow } = await call('POST', '/v1/workflows', body);
      const root = await untilShown(workflow.id, 'completed');
      const flowOf = async (id: string) => (await call('GET', `${BOARD}/api/queues/turns/${id}/flow`)).json;
      const tree = await flowOf(root.id);
      assert.equal(tree.isFlowNode, true);
      const { children, ...top } = tree.flowRoot;
      assert.deepEqual([top.id, top.queueName, top.state, top.truncated], [root.id, 'turns', 'completed', undefined]);
      assert.deepEqual(top.dependencies, { processed: 3, unprocessed: 0, ignored: 0, failed: 0 });
      assert.deepEqual(
        children.map(({ state }: { state: string }) => state),
        ['completed', 'completed', 'completed'],
      );
      const { json: runs } = await call('GET', `/v1/runs/${workflow.id}/tree`);
      for (const { run_id } of runs.children) {
        const card = children.find(({ name }: { name: string }) => name.includes(run_id));
        assert.deepEqual((await flowOf(card.id)).flowRoot, tree.flowRoot);
      }
      const few = await call('GET', `${BOARD}/api/queues/turns/${root.id}/flow?maxChildren=2`);
      assert.deepEqual([few.json.flowRoot.children.length, few.json.flowRoot.truncated], [2, true]);
    });

    it('come in pages that hold each of them once', async () => {
      const { counts } = await look();
      const shown = new Set<string>();
      for (let page = 1; page <= (counts['completed'] ?? 0); page++) {
        const { jobs, pagination } = await look('completed', page, 1);
        assert.deepEqual([jobs.length, pagination.pageCount], [1, counts['completed']]);
        shown.add(jobs[0]?.id ?? '');
      }
      assert.equal(shown.size, counts['completed']);
      assert.ok(shown.size >= 4);
    });

    it('have workers, as the other queues have, for as long as a process serves them', async () => {
      const haveWorkers = async () => {
        const { json } = await call('GET', `${BOARD}/api/queues`);
        return json.queues.map(({ hasWorkers }: { hasWorkers: boolean }) => hasWorkers);
      };
      assert.deepEqual(
        await haveWorkers(),
        CONTRACTS.map(() => true),
      );
      const { json } = await call('GET', `${BOARD}/api/queues/turns/workers`);
      assert.equal(json.workers.length, 1);
      if (mode === 'postgres') {
        const [{ id: lost }] = json.workers;
        await terminateSession(platform.context.db, lost);
        await waitUntil('the worker is there again, on another connection', async () => {
          const { json: now } = await call('GET', `${BOARD}/api/queues/turns/workers`);
          return now.workers.length === 1 && now.workers[0].id !== lost;
        });
      }
      await workers.stop(3000);
      await waitUntil('the workers are gone', async () => !(await haveWorkers()).includes(true));
    });
  });
}

describe('a session cookie', () => {
  const keyId = newId();

  it('is taken by every process with the same secret, and by no other', () => {
    const value = createSessionCookies('secret').issue(keyId);
    assert.equal(createSessionCookies('secret').read(value), keyId);
    assert.equal(createSessionCookies('another').read(value), undefined);
    assert.equal(createSessionCookies(undefined).read(value), undefined);
  });

  it('ends after eight hours', () => {
    let nowMs = 1000;
    const sessions = createSessionCookies(undefined, () => nowMs);
    const value = sessions.issue(keyId);
    nowMs += SESSION_MS - 1;
    assert.equal(sessions.read(value), keyId);
    nowMs += 1;
    assert.equal(sessions.read(value), undefined);
  });

  it('is worth nothing once a character of it has changed', () => {
    const sessions = createSessionCookies(undefined);
    const value = sessions.issue(keyId);
    for (let index = 0; index < value.length - 1; index += 1) {
      const forged = value.slice(0, index) + (value[index] === '1' ? '2' : '1') + value.slice(index + 1);
      assert.equal(sessions.read(forged), undefined, String(index));
    }
    assert.equal(sessions.read(''), undefined);
  });
});
