import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { lockDataDir } from '../../db/data-dir-lock.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { drover, startDroverThread } from '../support/drover-command.ts';
import { createTestDatabase, createTestServices } from '../support/database.ts';
import { MODES } from '../support/modes.ts';
import { waitUntil } from '../support/wait-until.ts';
import { startWorkers, type Workers } from '../../workers/start-workers.ts';
import { spoilSecondAuditRow } from '../support/queries/audit.ts';
import { newName } from '../support/new-name.ts';

/** What is in any of the lists. */
const ROW = {
  id: '019a0000-0000-7000-8000-000000000001',
  name: 'named',
  status: 'pending',
  created_at: '2026-11-25T00:00:00Z',
  kind: 'approval',
  tool: 'calculator',
  arguments: {},
  run_id: 'of a run',
  scopes: [],
  members: [],
  action: 'run.cancelled',
  actor: { type: 'system', id: null },
  target: { type: 'run', id: null },
  details: {},
  source_agent_id: 'one',
  target_agent_id: 'another',
  task_id: null,
  reason: 'Better at it',
  subtask_id: 'find',
  memory_type: 'SEMANTIC',
  importance: 0.5,
  origin: 'user',
  content: 'Ada',
  operation: 'recall',
  accessed_at: '',
  archived_at: '2026-11-25T00:00:00Z',
  scope: 'team',
  conflict_check: 'off',
  strategy: 'age',
  consolidated: 0,
  merged: 0,
  evicted: 0,
  added: [],
  superseded: [],
  refused: {},
  usage: {},
  orchestration_pattern: 'sequential',
  thread_id: 't',
  filename: 'notes.txt',
  size: 1,
  mime_type: 'text/plain',
};

/** Every list there is, what it is called in an answer, and where that comes from. */
const MEMORY = `/v1/agents/${ROW.id}/memory`;
const LISTS = [
  ['approvals list', 'approvals', '/v1/approvals'],
  ['audit list', 'audit', '/v1/audit'],
  ['files list', 'files', '/v1/files'],
  ['handoffs list', 'handoffs', '/v1/handoffs'],
  ['keys list', 'api_keys', '/v1/api-keys'],
  ['memory list', 'entries', MEMORY],
  [`memory uses ${ROW.id}`, 'uses', `${MEMORY}/${ROW.id}/uses`],
  ['memory learnt', 'extractions', `${MEMORY}/extractions`],
  ['memory consolidations', 'consolidations', `${MEMORY}/consolidations`],
  ['memory archive', 'entries', `${MEMORY}/archive`],
  ['memory spaces', 'spaces', '/v1/memory/spaces'],
  ['runs list', 'runs', '/v1/runs'],
  ['tasks list', 'tasks', '/v1/tasks'],
  ['teams list', 'teams', '/v1/teams'],
  ['threads list', 'threads', '/v1/threads'],
  ['workflows list', 'workflows', '/v1/workflows'],
] as const;

describe('drover, the command line', function () {
  this.timeout(600_000);
  let api: TestApi;
  let workers: Workers;
  let files: string;
  let cliEnv: Record<string, string>;
  let commands: ReturnType<typeof startDroverThread>;

  before(async () => {
    commands = startDroverThread();
    files = mkdtempSync(join(tmpdir(), 'drover-cli-files-'));
    api = await startTestApi(undefined, { env: { DROVER_FILES_URL: `file:${files}` }, forWorkers: true });
    workers = await startWorkers(api.context);
    cliEnv = { DROVER_URL: api.url, DROVER_API_KEY: api.key };
  });
  after(async () => {
    await commands.close();
    await workers.stop(5000);
    await api.close();
    rmSync(files, { recursive: true, force: true });
  });

  const there = (...args: string[]) => commands.drover(args, cliEnv);
  const post = async (path: string, body: unknown) => (await api.call('POST', path, { body })).json;

  it('uploads a file, lists it, gives it back and deletes it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'drover-cli-'));
    const [from, to] = [join(folder, 'notes.txt'), join(folder, 'back.txt')];
    writeFileSync(from, 'kept in a file');
    const { out, code } = await there('files', 'put', from);
    assert.equal(code, 0);
    const file = out.trim();
    assert.match((await there('files', 'list')).out, new RegExp(`${file} +notes.txt +text/plain +14 +user`));
    assert.equal((await there('files', 'get', file)).out, 'kept in a file');
    assert.equal(JSON.parse((await there('files', 'get', file, '--json')).out).filename, 'notes.txt');
    assert.equal((await there('files', 'list', '--thread', 'ext:none')).code, 1);
    assert.equal((await there('files', 'get', file, '--out', to)).code, 0);
    assert.equal(readFileSync(to, 'utf8'), 'kept in a file');
    assert.equal((await there('files', 'delete', file)).out, `deleted: ${file}\n`);
    assert.equal((await there('files', 'get', file)).code, 1);
    rmSync(folder, { recursive: true });
  });

  it('lists threads, shows what was said on one, and gives it a title', async () => {
    for (const what of ['files', 'threads']) assert.equal((await there(what, 'list')).out, `No ${what}.\n`);
    const agent = await post('/v1/agents', { name: 'named', llm_config: { default_model: 'offline' } });
    const { thread_id: thread } = await post(`/v1/agents/${agent.id}/runs`, { input: { message: 'Say something' } });
    await waitUntil('the turn ends', async () => {
      const { json } = await api.call('GET', `/v1/threads/${thread}`);
      return json.last_run_status === 'completed';
    });
    const { key } = (await api.call('POST', '/v1/api-keys', { body: { name: 'writer', scopes: ['runs:write'] } })).json;
    assert.equal((await there('threads', 'title', thread, 'One', '--key', key)).out, 'One\n', 'not shown, but changed');
    assert.equal((await there('threads', 'title', thread, 'A good one')).out, 'A good one\n');
    assert.match((await there('threads', 'list', '--agent', 'named')).out, new RegExp(`${thread} +A good one +1`));
    const other = (await api.call('POST', `/v1/agents/${agent.id}/runs`, { body: {} })).json.thread_id;
    const first = await there('threads', 'list', '--agent', agent.id, '--limit', '1');
    const [, cursor = ''] = /^There are more: --cursor (\S+)$/m.exec(first.err) ?? [];
    const second = await there('threads', 'list', '--agent', agent.id, '--limit', '1', '--cursor', cursor);
    assert.deepEqual(
      [first.out.includes(other), first.out.includes(thread), second.out.includes(thread), second.err],
      [true, false, true, ''],
      'page by page',
    );
    const runs = await there('runs', 'list', '--agent', agent.id, '--limit', '1');
    const [, next = ''] = /--cursor (\S+)$/m.exec(runs.err) ?? [];
    const rest = await there('runs', 'list', '--agent', agent.id, '--limit', '1', '--cursor', next);
    assert.deepEqual([runs.out.split('\n').length, rest.out.split('\n').length, rest.err], [3, 3, '']);
    assert.notEqual(runs.out, rest.out);
    const shown = await there('threads', 'show', thread);
    assert.match(shown.out, /> Say something\nThe offline planner has no tool/);
    assert.equal(JSON.parse((await there('threads', 'show', thread, '--json')).out).conversations.length, 1);
  });

  it('takes every list from page to page', async () => {
    const asked: string[] = [];
    const more = createServer((request, response) => {
      const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
      asked.push(`${pathname} ${searchParams.get('limit')} ${searchParams.get('cursor')}`);
      const rows = { ...Object.fromEntries(LISTS.map(([, plural]) => [plural, [ROW]])), next_cursor: 'the-next' };
      response.setHeader('x-request-id', '1').setHeader('content-type', 'application/json').end(JSON.stringify(rows));
    });
    await once(more.listen(0, '127.0.0.1'), 'listening');
    const address = more.address();
    assert.ok(typeof address === 'object' && address);
    const url = `http://127.0.0.1:${address.port}`;
    const of = ['--agent', ROW.id];
    try {
      for (const [command, plural, path] of LISTS) {
        const words = command.split(' ');
        const page = ['--limit', '1', '--cursor', 'the-page', ...(words[0] === 'memory' ? of : [])];
        const { code, out, err } = await commands.drover([...words, ...page], {
          DROVER_URL: url,
          DROVER_API_KEY: 'any',
        });
        assert.deepEqual([code, err], [0, 'There are more: --cursor the-next\n'], command);
        assert.equal(out.trimEnd().split('\n').length, 2, `${command} shows ${plural}`);
        assert.equal(asked.at(-1), `${path} 1 the-page`);
      }
    } finally {
      more.close();
    }
  });

  it('talks in a session, shows the plan that waits, and carries it out', async () => {
    const { id: agent } = await post('/v1/agents', { name: 'in a session', tools: ['calculator'], autonomy_level: 0 });
    const begun = await there('sessions', 'say', 'What is 6*7?', '--agent', agent, '--user', 'ada', '--level', '0');
    assert.equal(begun.code, 0, begun.err);
    const session = begun.out.trim();
    const read = async () => (await api.call('GET', `/agent/session/${session}`)).json;
    await waitUntil('the plan waits', async () => (await read()).status === 'waiting_approval');
    const { plan_id } = (await read()).pending_plan;
    const shown = await there('sessions', 'show', session);
    assert.match(shown.out, new RegExp(`waiting_approval[^]*user: What is 6\\*7\\?[^]*${plan_id}[^]*1\\. calculator`));
    assert.match((await there('sessions', 'execute', session, plan_id)).out, /^executing: /);
    await waitUntil('it is answered', async () => (await read()).status === 'completed');
    assert.equal((await there('sessions', 'say', 'Thanks', '--session', session)).out.trim(), session);
    assert.equal((await there('sessions', 'delete', session)).out, `deleted: ${session}\n`);
    assert.equal((await there('sessions', 'say', 'Hello?', '--session', session)).code, 1);
  });

  it('runs a workflow to its end as a tree, and shows what it was made of', async () => {
    const { id: agent } = await post('/v1/agents', { name: 'splits', llm_config: { default_model: 'offline' } });
    const subtasks = [
      { id: 'find', description: 'Find them.' },
      { id: 'count', description: 'Count them.' },
      { id: 'report', description: 'Write of them.', dependencies: ['find', 'count'] },
    ];
    const folder = mkdtempSync(join(tmpdir(), 'drover-cli-'));
    const file = join(folder, 'subtasks.json');
    writeFileSync(file, JSON.stringify({ subtasks }));
    const options = ['--agent', 'splits', '--definition', file, '--name', 'market'];
    const ran = await there('workflows', 'run', 'Who is there?', ...options);
    assert.equal(ran.code, 0, ran.err);
    assert.match(ran.out, /^workflow [0-9a-f-]{36}: /);
    assert.match(ran.out, /^report: completed$/m);
    const tree =
      /^market  ([0-9a-f-]{36})  completed\n├─ ✓ find .*\n│  └─ ✓ report  completed.*, after find, count\n└─ ✓ count/m;
    const [, workflow = ''] = tree.exec(ran.out) ?? [];
    assert.match(workflow, /./, ran.out);
    assert.match((await there('workflows', 'list')).out, new RegExp(`${workflow} +market +completed`));
    assert.match((await there('workflows', 'tasks', workflow)).out, new RegExp(`report +completed +\\S+ +${agent}`));
    const shown = await there('workflows', 'show', workflow, '--follow', '--json');
    assert.equal(JSON.parse(shown.out).tasks.length, 3);
    const runs = await there('runs', 'tree', workflow);
    assert.match(runs.out, new RegExp(`^${workflow}  workflow  completed.*(\\n[├└]─ \\S+  agent  completed.*){3}\\n$`));
    writeFileSync(file, '{subtasks');
    const broken = await there('workflows', 'run', 'Who?', ...options);
    assert.deepEqual([broken.code, /subtasks\.json is not JSON: /.test(broken.err)], [2, true]);
    rmSync(folder, { recursive: true });
    const nobody = await there('workflows', 'run', 'Who?', '--agent', 'nobody');
    assert.deepEqual([nobody.code, /No agent is named nobody\. There are:\n.*splits/s.test(nobody.err)], [2, true]);
  });

  it('submits a task, lists, shows and cancels it', async () => {
    const { id: agent } = await post('/v1/agents', { name: 'a worker', tools: ['calculator'], autonomy_level: 0 });
    const made = await there('tasks', 'submit', 'What is 6*7?', '--prefer', 'a worker', '--max-tokens', '5000');
    assert.equal(made.code, 0, made.err);
    const task = made.out.trim();
    assert.match((await there('tasks', 'list')).out, new RegExp(`^${task} `, 'm'));
    assert.equal((await there('tasks', 'cancel', task)).out, `cancelled: ${task}\n`);
    assert.match((await there('tasks', 'show', task)).out, /^status +cancelled\n[^]*description +What is 6\*7\?$/m);
    await post('/v1/agents', { name: 'another worker' });
    const asked = (await there('tasks', 'submit', 'What is 6*7?', '--prefer', agent)).out.trim();
    await waitUntil('it is worked on', async () => /^agent +\S/m.test((await there('tasks', 'show', asked)).out));
    const handed = await there(
      'handoffs',
      'create',
      asked,
      '--from',
      'a worker',
      '--to',
      'another worker',
      '--reason',
      'Better at it',
    );
    assert.equal(handed.code, 0, handed.err);
    assert.match((await there('handoffs', 'list', '--task', asked)).out, new RegExp(`^${handed.out.trim()} `, 'm'));
    assert.match((await there('handoffs', 'show', handed.out.trim())).out, /^reason +Better at it$/m);
    const wrong = await there('tasks', 'submit', 'Sleep', '--deadline', 'tomorrow');
    assert.deepEqual([wrong.code, wrong.err.match(/deadline/g)?.length], [2, 1], wrong.err);
  });

  it('lists teams, and shows who is in one', async () => {
    const { id: agent } = await post('/v1/agents', { name: 'a member' });
    const members = [{ agent_id: agent, role: 'critic', priority: 3 }];
    const { id } = await post('/v1/teams', { name: 'readers', orchestration_pattern: 'sequential', members });
    assert.match((await there('teams', 'list')).out, new RegExp(`${id} +readers +sequential +1`));
    assert.match((await there('teams', 'show', 'readers')).out, new RegExp(`^team +${id}\n[^]*${agent} +critic +3`));
    const nobody = await there('workflows', 'run', 'Who?', '--team', 'writers', '--detach');
    const answer = new RegExp(`No team is named writers\\. There are:\n[^]*${id} +readers`);
    assert.deepEqual([nobody.code, answer.test(nobody.err)], [2, true], nobody.err);
  });

  it('lists agents, and shows what one is made of', async () => {
    const body = { name: 'shown', description: 'Is looked at.', tools: ['calculator', 'current_time'] };
    const { id } = await post('/v1/agents', body);
    assert.match((await there('agents', 'list')).out, new RegExp(`${id} +shown +1\\.0\\.0 +active +\\S+`));
    const { out } = await there('agents', 'show', 'shown');
    assert.match(out, new RegExp(`^agent +${id}\n[^]*description +Is looked at\\.\n[^]*calculator, current_time`));
    assert.deepEqual(JSON.parse((await there('agents', 'show', id, '--json')).out).tools, body.tools);
    await api.call('DELETE', `/v1/agents/${id}`);
  });

  /** A run that asks whether it may calculate. */
  const asking = async (message = 'What is 6*7?') => {
    const agent = await post('/v1/agents', { name: newName('asks'), tools: ['calculator'], autonomy_level: 0 });
    const { run_id } = await post(`/v1/agents/${agent.id}/runs`, { input: { message } });
    let approval: { id: string; digest: string } | undefined;
    await waitUntil('an approval is asked for', async () => {
      approval = (await api.call('GET', `/v1/approvals?run_id=${run_id}`)).json.approvals[0];
      return approval !== undefined;
    });
    return { run: String(run_id), approval: approval?.id ?? '', digest: approval?.digest ?? '' };
  };

  it('explains itself, each command too, and ends with 2 where it is used wrongly', async () => {
    const help = await drover(['--help']);
    assert.equal(help.code, 0);
    for (const word of [
      'agents',
      'approvals',
      'runs',
      'workflows',
      'tasks',
      'teams',
      'graphs',
      'memory',
      'audit',
      'keys',
      'torture',
      'migrate',
      'start',
      'Exit codes',
    ]) {
      assert.ok(help.out.includes(word), word);
    }
    const edit = await commands.drover(['approvals', 'edit', '--help']);
    assert.equal((await drover(['fly'])).code, 2);
    assert.deepEqual([edit.code, /--set <name=json>/.test(edit.out)], [0, true]);
    for (const wrong of [
      ['approvals', 'show', 'nonsense'],
      ['keys', 'create', '--expires', 'tomorrow'],
      ['runs', 'list', '--status', 'failed,bogus'],
      ['approvals', 'list', '--status', 'bogus'],
      ['sessions', 'say', 'Hello', '--mode', 'foo'],
      ['runs', 'list', '--limit', '0'],
      ['keys', 'create', '--scopes', 'all'],
      ['approvals', 'edit', ROW.id, '--set', 'a=1e400'],
      ['approvals', 'edit', ROW.id, '--set', 'account=9007199254740993'],
      ['runs', 'list', '--url', 'nonsense'],
      ['runs', 'list', '--url', 'ftp://127.0.0.1'],
      ['runs', 'list', '--key', 'a\nb'],
    ]) {
      const { code, err } = await there(...wrong);
      assert.equal(code, 2, wrong.join(' '));
      assert.ok(err.length > 0);
      const [option = ''] = wrong.filter((each) => /^--(expires|status|mode)$/.test(each));
      assert.ok(err.includes(option), err);
    }
  });

  it('ends with 3 where nothing answers, 4 where the key does not do, 1 where the service refuses', async () => {
    const nowhere = await drover(['runs', 'list', '--url', 'http://127.0.0.1:9']);
    assert.deepEqual([nowhere.code, /Nothing answers at http:\/\/127\.0\.0\.1:9/.test(nowhere.err)], [3, true]);
    const other = createServer((_, response) => response.end('{"ok":true,"id":"1"}')).listen(0, '127.0.0.1');
    await once(other, 'listening');
    const elsewhere = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
    for (const command of [
      ['runs', 'list'],
      ['keys', 'create'],
    ]) {
      const { code, err } = await commands.drover([...command, '--url', elsewhere]);
      assert.deepEqual([code, err.includes(`What answers at ${elsewhere} is not Drover.`)], [3, true], err);
    }
    other.close();
    assert.equal((await there('runs', 'list', '--key', 'wrong')).code, 4);
    const missing = await there('runs', 'show', '00000000-0000-7000-8000-00000000dead');
    assert.deepEqual([missing.code, missing.err], [1, 'drover: The run does not exist.\n']);
  });

  it('lists, shows and edits an approval, with the difference, and follows its run to the end', async () => {
    const { run, approval, digest } = await asking();
    const list = await there('approvals', 'list', '--run', run);
    assert.match(list.out, new RegExp(`${approval} +pending +approval +calculator +\\{"expression":"6\\*7"\\}`));
    const shown = await there('approvals', 'show', approval);
    assert.ok(shown.out.includes('{\n  "expression": "6*7"\n}') && shown.out.includes(digest), shown.out);
    const dry = await there('approvals', 'edit', approval, '--set', 'expression=6*8', '--dry-run');
    assert.deepEqual([dry.code, dry.out], [0, '- expression: "6*7"\n+ expression: "6*8"\n']);
    const same = await there('approvals', 'edit', approval, '--set', 'expression=6*7');
    assert.deepEqual([same.code, same.out], [2, '']);
    const edited = await there('approvals', 'edit', approval, '--set', 'expression=6*8', '--reason', 'off by one');
    assert.equal(edited.code, 0, edited.err);
    assert.match(edited.out, /^- expression: "6\*7"\n\+ expression: "6\*8"\napproved: calculator/);
    const later = await there('approvals', 'show', approval);
    assert.match(later.out, /"expression": "6\*8"\n\}\nedited\n- expression: "6\*7"\n\+ expression: "6\*8"\n$/);
    const followed = await there('runs', 'follow', run);
    assert.equal(followed.code, 0, followed.err);
    assert.match(followed.out, /call: calculator \{"expression":"6\*7"\}/, 'as the model asked for it');
    assert.match(followed.out, /approval: .*"input":\{"expression":"6\*8"\}/, 'as it was approved');
    assert.match(followed.out, /done: complete\n$/);
    const { out } = await there('runs', 'show', run, '--json');
    assert.equal(JSON.parse(out).status, 'completed');
  });

  it('approves only what the digest was shown for, and denies with a reason', async () => {
    const { run, approval, digest } = await asking();
    const other = await there('approvals', 'approve', approval, '--digest', 'f00d');
    assert.deepEqual([other.code, /its digest is [0-9a-f]{64}/.test(other.err)], [1, true]);
    const prefix = await there('approvals', 'approve', approval, '--digest', digest.slice(0, 8));
    assert.deepEqual([prefix.code, prefix.err], [2, `drover: Give the whole digest: ${digest}\n`]);
    const denied = await there('approvals', 'deny', approval, '--reason', 'no sums today', '--json');
    assert.deepEqual([denied.code, JSON.parse(denied.out).status], [0, 'denied']);
    const again = await there('approvals', 'approve', approval);
    assert.deepEqual([again.code, again.err], [1, 'drover: The approval is denied already.\n']);
    assert.match((await there('runs', 'follow', run)).out, /no sums today/);
  });

  it('retries a run, or those that fit and have not been retried yet', async () => {
    const { run } = await asking();
    await there('runs', 'cancel', run);
    const those = ['runs', 'retry', '--status', 'cancelled'];
    const dry = await there(...those, '--dry-run');
    assert.deepEqual(
      [dry.code, dry.out.includes(run), dry.out.endsWith(' would be retried.\n')],
      [0, true, true],
      dry.err,
    );
    const one = await there('runs', 'retry', run);
    assert.match(one.out, new RegExp(`^${run} → [0-9a-f-]{36}\n$`), one.err);
    const rest = await there(...those, '--json');
    assert.ok(!rest.out.includes(run), rest.out);
    assert.equal((await there('runs', 'retry', run, '--dry-run')).code, 2);
    assert.equal((await there('runs', 'retry')).code, 2, 'it names nothing');
  });

  it('lists, cancels and erases runs; following one that was cancelled ends with 1', async () => {
    const { run } = await asking();
    const { out } = await there('runs', 'list', '--status', 'awaiting_human');
    assert.match(out, new RegExp(`${run} +awaiting_human \\(approval\\)`));
    assert.equal((await there('runs', 'cancel', run, '--reason', 'enough')).out, `cancelled: ${run}\n`);
    const followed = await there('runs', 'follow', run, '--json');
    assert.deepEqual([followed.code, followed.err], [1, 'drover: The run is cancelled.\n']);
    for (const each of followed.out.trim().split('\n')) assert.ok(JSON.parse(each).event);
    assert.equal((await there('runs', 'delete', run)).out, `erased: ${run}\n`);
    assert.ok(JSON.parse((await there('runs', 'delete', run, '--dependents', '--json')).out).erased_at);
  });

  it('verifies the audit log against a head that was noted, and names the broken link', async () => {
    await waitUntil('rows have places', async () => (await api.call('GET', '/v1/audit/verify')).json.head.seq >= 2);
    const whole = await there('audit', 'verify');
    const [, head = ''] = /head (\d+:[0-9a-f]{64})\.$/m.exec(whole.out) ?? [];
    assert.equal(whole.code, 0, whole.err);
    assert.equal((await there('audit', 'verify', '--expect', head)).code, 0);
    const other = await there(
      'audit',
      'verify',
      '--expect',
      head.replace(/.$/, (last) => (last === '0' ? '1' : '0')),
    );
    assert.deepEqual([other.code, /not the one that was noted/.test(other.err)], [1, true]);
    await spoilSecondAuditRow(api.context.db);
    const broken = await there('audit', 'verify');
    assert.deepEqual([broken.code, /broken at link 2, row [0-9a-f-]{36}: altered/.test(broken.err)], [1, true]);
    assert.match((await there('audit', 'list', '--action', 'run.cancelled')).out, /run\.cancelled +operator/);
  });

  it('makes a key, prints it alone, and revokes it', async () => {
    const { code, out, err } = await there('keys', 'create', '--name', 'reader', '--scopes', 'runs:read');
    assert.equal(code, 0, err);
    const key = out.trim();
    assert.equal((await there('runs', 'list', '--key', key)).code, 0);
    const [, made = ''] = /Key ([0-9a-f-]{36})/.exec(err) ?? [];
    assert.equal((await there('keys', 'revoke', made)).code, 0);
    assert.match((await there('keys', 'list')).out, new RegExp(`${made} +reader +runs:read +revoked`));
  });

  it('names the variable where it makes a key directly and no database answers', async () => {
    const env = { DATABASE_URL: 'postgres://a:hidden@127.0.0.1:1/x', DROVER_SECRET_KEY: 'a long secret of this test' };
    const { code, err } = await commands.drover(['keys', 'create', '--direct'], env);
    assert.equal(code, 3, err);
    assert.match(err, /^drover: No Postgres answers at DATABASE_URL,[^\n]+ECONNREFUSED 127\.0\.0\.1:1[^\n]+\n$/);
    assert.doesNotMatch(err, /hidden/);
  });

  it('opens the data directory itself where nothing holds it, and says who does where something does', async () => {
    const services = await createTestServices('embedded');
    const dir = services.env['DROVER_DATA_DIR'] ?? '';
    try {
      const env = { ...services.env, PORT: '9' };
      const first = await drover(['keys', 'create', '--scopes', 'runs:read'], env);
      assert.equal(first.code, 0, first.err);
      assert.equal(readFileSync(join(dir, 'api-key'), 'utf8').trim().length > 20, true);
      assert.match((await drover(['audit', 'list'], env)).out, /api_key\.created/);
      const lock = await lockDataDir(dir);
      const held = await drover(['runs', 'list'], env);
      lock.release();
      assert.equal(held.code, 3);
      assert.match(held.err, new RegExp(`in use by process ${process.pid} .*\\n.*--url`, 's'));
    } finally {
      await services.drop();
    }
  });

  if (MODES.includes('postgres')) {
    it('migrates, and makes the first key of an installation from its database alone', async () => {
      const database = await createTestDatabase();
      try {
        const env = { DATABASE_URL: database.url, DROVER_SECRET_KEY: 'a secret of this test, and long' };
        const migrated = await drover(['migrate'], env);
        assert.deepEqual([migrated.code, migrated.out.startsWith('Migrated: ')], [0, true], migrated.err);
        const made = await drover(['keys', 'create', '--json'], env);
        assert.equal(made.code, 0, made.err);
        const { key } = JSON.parse(made.out);
        const served = await startTestApi('postgres', { env: { DATABASE_URL: database.url } });
        try {
          const { json } = await served.call('GET', '/v1/audit?action=api_key.created', { key });
          assert.ok(json.audit.some(({ actor }: { actor: { type: string } }) => actor.type === 'system'));
          assert.equal((await served.call('POST', '/v1/tenants', { key, body: { name: 't' } })).status, 201);
        } finally {
          await served.close();
        }
        const unknown = await drover(['keys', 'create', '--tenant', '00000000-0000-7000-8000-00000000dead'], env);
        assert.deepEqual([unknown.code, unknown.err], [1, 'drover: The tenant does not exist.\n']);
      } finally {
        await database.drop();
      }
    });
  }

  it('hands torture its own options', async () => {
    const { code, out } = await drover(['torture', '--plan', '--runs', '3', '--seconds', '5', '--mode', 'postgres']);
    assert.deepEqual([code, out.startsWith('torture: seed 1, 3 runs')], [0, true]);
    const wrong = await drover(['torture', '--bogus']);
    assert.deepEqual([wrong.code, /^torture: Unknown option '--bogus'[^\n]*\n$/.test(wrong.err)], [2, true]);
  });
});
