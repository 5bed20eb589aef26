/** Processes are killed in every phase of learning and consolidating, and Redis forgets its jobs. No memory is lost, none is there twice. */
import assert from 'node:assert/strict';
import { Redis } from 'ioredis';
import pg from 'pg';
import { createTestServices, type TestServices } from '../support/database.ts';
import { startFakeAnthropic, type AnthropicReply, type AnthropicRequest } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { startInstallation, type Installation } from '../support/installation.ts';
import { FAULT_MODES, MODES, TEST_REDIS_URL } from '../support/modes.ts';
import { startRun, untilRun } from '../support/runs.ts';
import { waitUntil } from '../support/wait-until.ts';
import { countWaitingIn, holdTable } from '../support/queries/postgres.ts';

const BY_IMPORTANCE = { strategy: 'importance' };
const PREFIX = `memory-faults-${process.pid}`;
const env = {
  DROVER_LEASE_MS: '3000',
  DROVER_SHUTDOWN_MS: '2000',
  DROVER_EMBEDDING_MODEL: 'off',
  DROVER_QUEUE_PREFIX: PREFIX,
};

for (const mode of FAULT_MODES) {
  describe(`memory under processes that die, in ${mode} mode`, () => {
    let drover: Installation;
    let model: FakeServer;
    let agent: string;
    /** Facts whose extraction hangs the first time that it is asked for. */
    const hung = new Map<string, number>();

    before(async () => {
      model = await startFakeAnthropic((request) => answer(request));
      drover = await startInstallation(mode, { env: { ...env, ANTHROPIC_BASE_URL: model.url }, workers: ['one'] });
      const memory_config = {
        long_term: { enabled: true, extract: true },
        consolidation: { min_age_hours: 0, importance_threshold: 0 },
      };
      const made = await drover.call('POST', '/v1/agents', { body: { name: 'learner', memory_config } });
      agent = made.json.agent_id;
    });
    after(async () => {
      await drover?.close();
      await model?.close();
    });
    afterEach(() => drover.startAll());

    const answer = (request: AnthropicRequest): AnthropicReply => {
      if (request.tools?.[0]?.name !== 'submit_memories') return { content: [{ type: 'text', text: 'Noted.' }] };
      const fact = /The fact of (\w+) is \d+/.exec(JSON.stringify(request.messages).split('<user>')[1] ?? '');
      const times = hung.get(fact?.[1] ?? '');
      if (fact && times !== undefined) hung.set(fact[1] ?? '', times + 1);
      const input = { add: [{ content: `${fact?.[0]} for the user.`, memory_type: 'SHORT_TERM' }] };
      return {
        content: [{ type: 'tool_use', id: 'toolu_memories', name: 'submit_memories', input }],
        hang: times === 0,
      };
    };
    const victim = () => (mode === 'embedded' ? 'api' : 'one');
    const tell = async (name: string) => {
      const { run } = await startRun(drover, agent, `The fact of ${name} is ${name.length}`);
      return run;
    };
    const pages = async (path: string) => (await drover.call('GET', `/v1/agents/${agent}/memory${path}`)).json;
    const allLearnt = (turns: number) =>
      waitUntil(`${turns} turns are learnt from`, async () => {
        const { extractions } = await pages('/extractions?limit=200');
        return extractions.filter(({ status }: { status: string }) => status === 'done').length === turns;
      });
    const facts = async (): Promise<string[]> => {
      const { entries } = await pages('?limit=200');
      return entries.map(({ content }: { content: string }) => content).toSorted();
    };

    it('learns from each turn once: kill -9 before, in and after the question to the model, and a flushed Redis', async () => {
      const names = ['alpha', 'beta', 'gamma', 'delta'];
      hung.set('alpha', 0);
      const runs = [await tell('alpha')];
      await waitUntil('the model is asked what to remember', () => hung.get('alpha') === 1);
      await drover.end(victim(), 'SIGKILL');
      await drover.start(victim());
      runs.push(await tell('beta'));
      await untilRun(drover, runs[1] ?? '');
      await drover.end(victim(), 'SIGKILL');
      if (mode === 'full') await flush();
      await drover.start(victim());
      for (const name of names.slice(2)) runs.push(await tell(name));
      for (const run of runs) await untilRun(drover, run);
      await allLearnt(names.length);
      assert.deepEqual(
        await facts(),
        names.map((name) => `The fact of ${name} is ${name.length} for the user.`).toSorted(),
      );
    });

    it('consolidates all or nothing, whenever it is killed', async () => {
      const before = await facts();
      const asked = drover.call('POST', `/v1/agents/${agent}/memory/consolidate`, { body: BY_IMPORTANCE });
      const ended = asked.then(
        () => true,
        () => false,
      );
      await drover.end('api', 'SIGKILL');
      await ended;
      await drover.start('api');
      const { consolidations } = await pages('/consolidations');
      const { entries } = await pages('?limit=200');
      const kept = entries.filter(({ memory_type: type }: { memory_type: string }) => type === 'EPISODIC').length;
      assert.equal(kept, consolidations.length === 0 ? 0 : before.length, 'all of them, or none');
      assert.deepEqual(await facts(), before);
    });
  });
}

describe('a consolidation whose process dies between its changes and its commit', function () {
  let services: TestServices;
  let drover: Installation;
  let path: string;

  before(async function () {
    if (!MODES.includes('postgres')) return this.skip();
    services = await createTestServices('postgres');
    const { url: databaseUrl = '' } = services;
    drover = await startInstallation('postgres', { databaseUrl, env, workers: [] });
    const memory_config = { consolidation: { min_age_hours: 0, importance_threshold: 0 } };
    const { json } = await drover.call('POST', '/v1/agents', { body: { name: 'keeper', memory_config } });
    path = `/v1/agents/${json.agent_id}/memory`;
    for (const name of ['north', 'south', 'west']) {
      const body = { content: `The gate in the ${name} is open.`, memory_type: 'SHORT_TERM' };
      assert.equal((await drover.call('POST', path, { body })).status, 201);
    }
  });
  after(async () => {
    await drover?.close();
    await services?.drop();
  });

  /** What there is, and of which type. */
  const state = async () => {
    const { entries } = (await drover.call('GET', `${path}?limit=200`)).json;
    const { consolidations } = (await drover.call('GET', `${path}/consolidations`)).json;
    return {
      entries: entries.map((entry: Record<string, string>) => `${entry.memory_type}: ${entry.content}`).toSorted(),
      consolidations: consolidations.map(({ reverted_at }: { reverted_at: unknown }) => reverted_at !== null),
    };
  };

  /** Posts, and kills the API when all is changed and only what is kept of it has still to be written. */
  async function killWithin(post: string, statement: string, body: object): Promise<void> {
    const holder = new pg.Client(services.url);
    await holder.connect();
    try {
      await holdTable(holder, 'memory_consolidations');
      const answered = drover.call('POST', post, { body }).then(
        () => 'answered',
        () => 'cut off',
      );
      await waitUntil(`${statement} waits`, async () => (await countWaitingIn(holder, statement)) > 0);
      await drover.end('api', 'SIGKILL');
      assert.equal(await answered, 'cut off');
    } finally {
      await holder.end();
    }
    await drover.start('api');
  }

  it('leaves everything as it was, and is done as a whole when it is asked for again', async () => {
    const before = await state();
    await killWithin(`${path}/consolidate`, 'insert into memory_consolidations', BY_IMPORTANCE);
    assert.deepEqual(await state(), before);
    const { json } = await drover.call('POST', `${path}/consolidate`, { body: BY_IMPORTANCE });
    assert.equal(json.consolidated, 3);
    const { entries, consolidations } = await state();
    assert.deepEqual(
      entries,
      before.entries.map((entry: string) => entry.replace('SHORT_TERM', 'EPISODIC')),
    );
    assert.deepEqual(consolidations, [false]);
  });

  it('stays as it is where it was to be undone, and is undone as a whole when that is asked for again', async () => {
    const before = await state();
    const { consolidations } = (await drover.call('GET', `${path}/consolidations`)).json;
    const revert = `${path}/consolidations/${consolidations[0].id}/revert`;
    await killWithin(revert, 'update memory_consolidations', {});
    assert.deepEqual(await state(), before);
    const { json } = await drover.call('POST', revert, { body: {} });
    assert.equal(json.restored, 3);
    const { entries, consolidations: after } = await state();
    assert.deepEqual(
      entries,
      before.entries.map((entry: string) => entry.replace('EPISODIC', 'SHORT_TERM')),
    );
    assert.deepEqual(after, [true]);
  });
});

/** Takes all jobs of this installation away. */
async function flush(): Promise<void> {
  const client = new Redis(TEST_REDIS_URL ?? '', { lazyConnect: true, maxRetriesPerRequest: 0 });
  await client.connect();
  try {
    const keys = await client.keys(`${PREFIX}*`);
    if (keys.length > 0) await client.unlink(keys);
  } finally {
    client.disconnect();
  }
}
