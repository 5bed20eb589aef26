import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LIMITS } from '../../core/limits.ts';
import { startDroverThread } from '../support/drover-command.ts';
import { newName } from '../support/new-name.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

const BIG = '9007199254740993';
const NO_ID = '019a0000-0000-7000-8000-000000000001';

describe('drover, of the values it is given and shows', function () {
  this.timeout(600_000);
  let api: ScriptedService;
  let folder: string;
  let commands: ReturnType<typeof startDroverThread>;

  before(async () => {
    commands = startDroverThread();
    folder = mkdtempSync(join(tmpdir(), 'drover-cli-values-'));
    api = await startScriptedService();
  });
  after(async () => {
    await commands.close();
    await api.close();
    rmSync(folder, { recursive: true });
  });

  const there = (...args: string[]) => commands.drover(args, { DROVER_URL: api.url, DROVER_API_KEY: api.key });
  const post = async (path: string, body: unknown) => (await api.call('POST', path, { body })).json;

  it('refuses an edit, a result and metadata with a number that would be changed, wherever it stands', async () => {
    const agent = await post('/v1/agents', { name: newName('asks'), tools: ['calculator'], autonomy_level: 0 });
    for (const value of [
      ['approvals', 'edit', NO_ID, '--arguments', `{"amount":5,"order":${BIG}}`],
      ['approvals', 'edit', NO_ID, '--arguments', `{"orders":[{"id":-${BIG}}]}`],
      ['approvals', 'edit', NO_ID, '--set', `order=${BIG}`],
      ['approvals', 'edit', NO_ID, '--set', `order={"id":${BIG}}`],
      ['approvals', 'edit', NO_ID, '--set', 'order={"id":1e400}'],
      ['approvals', 'settle', NO_ID, 'happened', '--result', `{"order":${BIG}}`],
      ['memory', 'add', 'An order.', '--agent', agent.name, '--metadata', `{"order":${BIG}}`],
    ]) {
      const { code, err } = await there(...value);
      assert.deepEqual([code, /It has a number that would be changed: write it in quotes/.test(err)], [2, true], err);
    }
    const kept = ['--metadata', `{"order":"${BIG}","most":${Number.MAX_SAFE_INTEGER},"share":0.1}`];
    assert.equal((await there('memory', 'add', 'An order.', '--agent', agent.name, ...kept)).code, 0);
  });

  it('refuses a file with a number that would be changed, and says where it stands', async () => {
    const file = join(folder, 'given.json');
    writeFileSync(file, `{"items":[{"order":${BIG}}]}`);
    const reason = ['--from', 'one', '--to', 'another', '--reason', 'Better at it'];
    for (const given of [
      ['handoffs', 'create', NO_ID, ...reason, '--context', file],
      ['workflows', 'run', 'Who?', '--agent', 'one', '--definition', file],
    ]) {
      const { code, err } = await there(...given);
      assert.deepEqual(
        [code, err.includes(`${file}: items.0.order is a number that would be changed`)],
        [2, true],
        err,
      );
    }
  });

  it('shows what has become of an approval to a key that decides and may not read what it is about', async () => {
    const agent = await api.newAgent(['calculator'], { autonomy_level: 0 });
    const input = { message: 'call calculator {"expression":"6*7"}' };
    const { run_id: run } = await post(`/v1/agents/${agent}/runs`, { input });
    let id = '';
    await waitUntil('somebody is asked', async () => {
      id = (await api.call('GET', `/v1/approvals?run_id=${run}`)).json.approvals[0]?.id ?? '';
      return id !== '';
    });
    const { key } = await post('/v1/api-keys', { name: 'decider', scopes: ['approvals:write'] });
    const { code, out, err } = await there('approvals', 'deny', id, '--key', key);
    assert.deepEqual([code, out], [0, `denied: (${id})\n`], err);
  });

  /** A run on the thread with this name, once it is there. */
  const runOn = async (thread: string, message: string) => {
    const body = { thread_id: thread, input: { message } };
    const { run_id } = await post(`/v1/agents/${await api.newAgent()}/runs`, body);
    return String(run_id);
  };
  const ended = (run: string) =>
    waitUntil('the run ends', async () => ['completed', 'failed'].includes((await read(run)).status));
  const read = async (run: string) => (await api.call('GET', `/v1/runs/${run}`)).json;

  it('says how large an output is that a stream leaves out, and prints it whole by the id of its call', async () => {
    const run = await runOn(`ext:${newName('large')}`, 'call confirm {"what":"a"} | say done');
    let waits: { type: string; tool_use_id: string }[] = [];
    await waitUntil('the tool is asked for', async () => (waits = (await read(run)).waits ?? []).length > 0);
    const content = `\u001b${'x'.repeat(LIMITS.shownOutputBytes)}`;
    await post(`/v1/runs/${run}/resume`, { tool_results: [{ tool_use_id: waits[0]?.tool_use_id, content }] });
    await ended(run);
    const followed = await there('runs', 'follow', run);
    const shown = /^succeeded: confirm \((\d+) bytes: drover runs output ([0-9a-f-]{36})\)$/m.exec(followed.out);
    assert.ok(Number(shown?.[1]) > LIMITS.shownOutputBytes, followed.out.slice(0, 1000));
    const { code, out } = await there('runs', 'output', shown?.[2] ?? '');
    assert.deepEqual([code, out], [0, `\\u001b${content.slice(1)}\n`]);
    const answer = JSON.parse((await there('runs', 'output', shown?.[2] ?? '', '--json')).out);
    assert.deepEqual([answer.tool, answer.output], ['confirm', content]);
  });

  it('takes a thread by the name that its caller gave it', async () => {
    const thread = `ext:${newName('customer/1')}`;
    const run = await runOn(thread, 'say hello to Ada');
    await ended(run);
    const { thread_id: id } = await read(run);
    const shown = await there('threads', 'show', thread);
    assert.match(shown.out, new RegExp(`^thread +${id}\n[^]*hello to Ada`), shown.err);
    assert.equal((await there('threads', 'title', thread, 'Of Ada')).out, 'Of Ada\n');
    const listed = await there('runs', 'list', '--thread', thread);
    assert.match(listed.out, new RegExp(`^${run} `, 'm'), listed.err);
    const retried = await there('runs', 'retry', '--thread', thread, '--dry-run');
    assert.deepEqual([retried.code, retried.out], [0, '0 would be retried.\n'], retried.err);
    assert.equal((await there('threads', 'show', 'ext:')).code, 2);
  });

  it('retries nothing where nothing says which, and names the options', async () => {
    for (const which of [[], ['--dry-run']]) {
      const { code, err } = await there('runs', 'retry', ...which);
      assert.deepEqual([code, /--status, --error-code, --agent, --thread, --created-/.test(err)], [2, true], err);
    }
  });

  it('lists the agents where a session is begun without one, and there are several', async () => {
    const ids = await Promise.all(['ada', 'bob'].map(async (name) => String((await post('/v1/agents', { name })).id)));
    const { code, out, err } = await there('sessions', 'say', 'Hello');
    assert.deepEqual([code, out], [2, '']);
    assert.match(err, /^drover: The workspace has several agents; an id or a name says which:\n/);
    for (const id of ids) assert.ok(err.includes(`\n  ${id}  `), err);
    for (const id of ids) await api.call('DELETE', `/v1/agents/${id}`);
  });

  it("shows an agent's graph", async () => {
    const nodes = [{ name: 'answer', type: 'llm', config: {} }];
    const body = { name: 'grapher', workflow_graph: { entry_point: 'answer', nodes, edges: [] } };
    const { id } = await post('/v1/agents', body);
    assert.match((await there('graphs', 'show', 'grapher')).out, /^flowchart TD\n[^]*"answer"/);
    assert.deepEqual(JSON.parse((await there('graphs', 'show', id, '--json')).out).nodes, nodes);
    assert.equal((await there('graphs', 'show', 'nobody')).code, 2);
    const missing = await there('graphs', 'show', id, '--version', '9.9.9');
    assert.deepEqual([missing.code, missing.out], [1, ''], 'it is an option of the command');
    await api.call('DELETE', `/v1/agents/${id}`);
  });
});
