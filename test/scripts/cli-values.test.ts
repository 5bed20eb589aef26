import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startDroverThread } from '../support/drover-command.ts';
import { newName } from '../support/new-name.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';

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
      assert.deepEqual([code, err.includes(`${file}: items.0.order is a number that would be changed`)], [2, true], err);
    }
  });
});
