import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { compareVersions } from '../../core/semver.ts';
import { VERSION } from '../../core/version.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { MODES } from '../support/modes.ts';
import { lossIn, replayCall, type RecordedCall } from '../support/record-calls.ts';
import { hashMigrations } from '../support/record-release.ts';

interface Released {
  version: string;
  /** Null until the release has its commit. */
  commit: string | null;
  migrations: Record<string, string>;
}

interface Recording {
  owners: { tenants: object[]; workspaces: object[] };
  calls: RecordedCall[];
}

const FOLDER = 'test/fixtures/released';
const released = JSON.parse(readFileSync('db/released.json', 'utf8')) as Released;

describe('The last release', () => {
  it('is this version or one before it, and names its commit', () => {
    assert.ok(compareVersions(released.version, VERSION) <= 0);
    assert.match(released.commit ?? '0'.repeat(40), /^[0-9a-f]{40}$/);
  });

  it('has migrations that are as they were: a change is a new file', () => {
    const now = hashMigrations();
    const kept = Object.fromEntries(Object.keys(released.migrations).map((file) => [file, now[file]]));
    assert.deepEqual(kept, released.migrations);
  });
});

for (const mode of MODES.filter((each) => each !== 'full')) {
  describe(`A process of the last release, on this schema in ${mode} mode,`, () => {
    let test: TestDatabase;
    beforeEach(async () => {
      test = await openTestDatabase(mode);
    });
    afterEach(() => test.close());

    for (const file of readdirSync(FOLDER)) {
      it(`gets the answers that it got from its own: ${file}`, async () => {
        const { owners, calls } = JSON.parse(readFileSync(`${FOLDER}/${file}`, 'utf8')) as Recording;
        await makeOwners(test, owners);
        const losses: string[] = [];
        for (const [index, call] of calls.entries()) {
          const answer = await replayCall(test.database, call);
          const loss = call.answer ? lossIn(answer, call.answer) : failureOf(answer);
          if (loss !== undefined) losses.push(`${index}: ${call.text.slice(0, 60)}: ${loss}`);
        }
        assert.deepEqual(losses, []);
      });
    }
  });
}

describe('An answer', () => {
  it('may have more than the recorded one, but not less and nothing else', () => {
    const recorded = [{ result: { ok: true, seq: 3, list: [1, 2], at: null } }];
    assert.equal(lossIn([{ result: { ...recorded[0]?.result, more: 1 } }], recorded), undefined);
    assert.match(lossIn([{ result: { ok: true, seq: 3, list: [1], at: null } }], recorded) ?? '', /list: its length/);
    assert.match(
      lossIn([{ result: { ok: true, seq: 4, list: [1, 2], at: null } }], recorded) ?? '',
      /seq is 4 instead of 3/,
    );
    assert.match(lossIn([{ result: { ok: true, seq: 3, list: [1, 2] } }], recorded) ?? '', /at is undefined/);
    assert.match(lossIn({ error: '42883' }, recorded) ?? '', /answer/);
  });
});

function failureOf(answer: unknown): string | undefined {
  return Array.isArray(answer) ? undefined : JSON.stringify(answer);
}

/** Who was there before the recording began. */
async function makeOwners({ database }: TestDatabase, { tenants, workspaces }: Recording['owners']): Promise<void> {
  await database.asOwner(async (client) => {
    for (const [table, rows] of [
      ['tenants', tenants],
      ['workspaces', workspaces],
    ] as const) {
      for (const row of rows) {
        const columns = Object.keys(row);
        const places = columns.map((_, index) => `$${index + 1}`).join(', ');
        await client.query(`insert into ${table} (${columns.join(', ')}) values (${places})`, Object.values(row));
      }
    }
  });
}
