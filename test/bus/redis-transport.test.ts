import assert from 'node:assert/strict';
import { Redis } from 'ioredis';
import { openRedisTransport } from '../../bus/redis-transport.ts';
import { ALL } from '../../bus/payloads.ts';
import { newId } from '../../lib/new-id.ts';
import { MODES, TEST_REDIS_URL } from '../support/modes.ts';
import { waitUntil } from '../support/wait-until.ts';

if (MODES.includes('full')) {
  describe('A process that Redis does not let listen', () => {
    it('asks again on the connection that it has, tells of the gap, and then hears', async () => {
      const admin = new Redis(TEST_REDIS_URL ?? '');
      const user = `bus-${newId()}`;
      await admin.acl('SETUSER', user, 'on', '>secret', '~*', '+@all', 'resetchannels');
      const url = new URL(TEST_REDIS_URL ?? '');
      url.username = user;
      url.password = 'secret';
      const [heard, errors]: [string[], string[]] = [[], []];
      let gaps = 0;
      const transport = await openRedisTransport(
        { url: url.href, channel: user },
        {
          address: 'here',
          onPayload: (payload) => void heard.push(payload),
          onGap: () => (gaps += 1),
          onError: ({ message }) => void errors.push(message),
        },
      );
      assert.ok(
        errors.some((message) => message.includes('NOPERM')),
        errors.join('; '),
      );
      await admin.acl('SETUSER', user, 'allchannels');
      await waitUntil('it listens', async () => gaps === 1);
      await transport.send([{ to: ALL, payload: 'hello' }]);
      await waitUntil('it hears', async () => heard.length > 0);
      assert.deepEqual(heard, ['hello']);
      await transport.close();
      await admin.acl('DELUSER', user);
      admin.disconnect();
    });
  });
}
