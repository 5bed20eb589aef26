/** A pool that leads to a standby: its subject is a server, which is asked for by SQL. */
import assert from 'node:assert/strict';
import pino from 'pino';
import { loadConfig } from '../../config.ts';
import { openPlatform } from '../../modules/platform/open-platform.ts';
import { MODES } from '../support/modes.ts';
import { startOwnServices, type OwnServices } from '../support/own-services.ts';
import { startStandby, type Standby } from '../support/standby.ts';
import { copyPostgresTemplate, query } from '../support/template.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('A pool that leads to a standby', function () {
  let services: OwnServices | undefined;
  let standby: Standby | undefined;
  before(async () => {
    services = MODES.includes('full') ? await startOwnServices() : undefined;
  });
  after(async () => {
    await standby?.close();
    await services?.close();
  });

  it('is waited for by name, and refused once it is a server of its own', async function () {
    if (!services) return this.skip();
    const direct = new URL(services.databaseUrl);
    await copyPostgresTemplate(direct.href, { name: 'followed' });
    direct.pathname = '/followed';
    await query(direct.href, `create role follower login password 'secret' in role drover_app`);
    standby = await startStandby(services.databaseUrl);
    const log: string[] = [];
    const opening = openPlatform(
      loadConfig({
        DATABASE_URL: direct.href,
        DATABASE_POOL_URL: `postgres://follower:secret@127.0.0.1:${standby.port}/followed`,
        DROVER_SECRET_KEY: 'the tests have no secrets',
      }),
      { log: pino({}, { write: (line: string) => void log.push(line) }) },
    );
    const ended = assert.rejects(
      opening,
      /^ConfigError: DATABASE_POOL_URL leads to another database than DATABASE_URL/,
    );
    await waitUntil('it says that it waits', () => log.filter((line) => /waiting for it/.test(line)).length > 1);
    assert.match(log.join(''), /takes no writes \(read-only: DATABASE_POOL_URL leads to a replica\)/);
    await standby.promote();
    await ended;
  });
});
