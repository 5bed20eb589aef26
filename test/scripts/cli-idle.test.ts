/** What commands do to the data directory of embedded mode while no service runs. */
import assert from 'node:assert/strict';
import { drover, startDroverThread } from '../support/drover-command.ts';
import { createTestServices } from '../support/database.ts';
import { openTestPlatform } from '../support/platform.ts';

describe('drover, while no service runs', function () {
  this.timeout(600_000);
  let services: Awaited<ReturnType<typeof createTestServices>>;
  const commands = startDroverThread();
  before(async () => {
    services = await createTestServices('embedded');
    const kept = { ...services, drop: () => Promise.resolve() };
    const { url, apiKey, close } = await openTestPlatform('embedded', { services: kept, api: true });
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
    const agent = JSON.stringify({ name: 'alone' });
    assert.equal((await fetch(`${url}/v1/agents`, { method: 'POST', headers, body: agent })).status, 201);
    await close();
  });
  after(async () => {
    await commands.close();
    await services.drop();
  });

  const there = (...args: string[]) => drover(args, { ...services.env, PORT: '9' });
  const inThread = (...args: string[]) => commands.drover(args, { ...services.env, PORT: '9' });
  const NOBODY =
    'drover: No service runs that would do the work. `drover start` starts one; what was sent waits for it.\n';

  it('says after the id of what it has queued that nobody does it, and ends with 0', async () => {
    for (const command of [
      ['sessions', 'say', 'Hello'],
      ['tasks', 'submit', 'Do it.'],
      ['workflows', 'run', 'Do more.', '--detach', '--json'],
    ]) {
      const { code, out, err } = await there(...command);
      assert.deepEqual([code, err], [0, NOBODY], command.join(' '));
      assert.match(out, /[0-9a-f-]{36}/);
    }
  });

  it('says it of runs that are retried, and nothing where none is', async () => {
    const [run = ''] = /[0-9a-f-]{36}/.exec((await inThread('runs', 'list', '--limit', '1')).out) ?? [];
    assert.equal((await inThread('runs', 'cancel', run)).err, '');
    const retried = await inThread('runs', 'retry', run);
    assert.deepEqual([retried.code, retried.err], [0, NOBODY]);
    const none = await inThread('runs', 'retry', '--status', 'failed');
    assert.deepEqual([none.out, none.err], ['0 retried.\n', '']);
  });
});
