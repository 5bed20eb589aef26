import assert from 'node:assert/strict';
import pino from 'pino';
import { loadConfig } from '../../../config.ts';
import { migrate } from '../../../db/database.ts';
import { openPlatform } from '../../../modules/platform/open-platform.ts';
import { createTestDatabase } from '../../support/database.ts';
import { MODES } from '../../support/modes.ts';
import { openServiceProxy } from '../../../scripts/kit/service-proxy.ts';
import { waitUntil } from '../../support/wait-until.ts';

/** PGlite is never away: only Postgres can be waited for. */
if (MODES.includes('postgres')) {
  describe('opening a platform', () => {
    it('waits for a database that is away instead of ending, and says so', async () => {
      const place = await createTestDatabase();
      const secrets = { DROVER_SECRET_KEY: 'the tests have no secrets' };
      await migrate(loadConfig({ DATABASE_URL: place.url, ...secrets }));
      const proxy = await openServiceProxy(place.url);
      await proxy.cut();
      const log: string[] = [];
      const opening = openPlatform(loadConfig({ DATABASE_URL: proxy.url, ...secrets }), {
        log: pino({}, { write: (line: string) => void log.push(line) }),
      });
      await waitUntil(
        'it says twice that it waits',
        () => log.filter((line) => /waiting for it/.test(line)).length > 1,
      );
      await proxy.restore();
      const platform = await opening;
      await platform.context.db.ping(1000);
      await platform.close();
      await proxy.close();
      await place.drop();
    });

    it('ends where the database lacks migrations, and says what to do', async () => {
      const place = await createTestDatabase();
      const config = loadConfig({ DATABASE_URL: place.url, DROVER_SECRET_KEY: 'the tests have no secrets' });
      await assert.rejects(openPlatform(config, { log: pino({ level: 'silent' }) }), /migrat|role/i);
      await place.drop();
    });
  });
}
