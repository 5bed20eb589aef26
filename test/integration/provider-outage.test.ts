/** A model provider is away for a while, with many more runs under way than workers. None of them fails. */
import assert from 'node:assert/strict';
import { request } from '../support/api.ts';
import { drover } from '../support/drover-command.ts';
import { text } from '../support/engine.ts';
import { startFakeAnthropic, type AnthropicReply } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { FAULT_MODES } from '../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { sized } from '../support/size.ts';
import { waitUntil } from '../support/wait-until.ts';
import { failuresOfOutages } from '../support/queries/model-calls.ts';

const RUNS = sized({ usual: 20, nightly: 50 });
const AWAY: AnthropicReply = { error: { status: 500, type: 'api_error', message: 'away' } };
const WAIT_MS = 90_000;
/** Of the long outage; three minutes are for the nightly command. */
const OUTAGE_SECONDS = sized({ usual: 0, nightly: 180 });
/** The longest pause before a provider is asked again, and what all runs take then. */
const BACK_MS = 420_000;

for (const mode of FAULT_MODES) {
  describe(`with a provider that is away (${mode})`, function suite() {
    this.timeout(OUTAGE_SECONDS * 1000 + 600_000);
    let model: FakeServer;
    let platform: TestPlatform;
    let agent: string;
    let isAway: (name: string) => boolean = () => false;

    before(async () => {
      model = await startFakeAnthropic(({ model: name }) => (isAway(name) ? AWAY : text('hello')));
      const env = {
        ANTHROPIC_API_KEY: 'sk-test',
        ANTHROPIC_BASE_URL: model.url,
        DROVER_CONCURRENCY: 'turns=2',
      };
      platform = await openTestPlatform(mode, { workers: true, api: true, env });
      agent = await newAgent('claude-sonnet-5');
    });
    afterEach(() => {
      isAway = () => false;
    });
    after(async () => {
      await platform.close();
      await model.close();
    });

    const call = async (method: string, path: string, body?: unknown) => {
      const answer = await request(`${platform.url}${path}`, method, { key: platform.apiKey, body });
      assert.ok(answer.status < 300, answer.text);
      return answer.json;
    };
    const newAgent = async (default_model: string): Promise<string> =>
      (await call('POST', '/v1/agents', { name: `asks ${default_model}`, llm_config: { default_model } })).id;
    const start = async (of: string): Promise<string> =>
      (await call('POST', `/v1/agents/${of}/runs`, { input: { message: 'hello' } })).id;
    const startAll = () => Promise.all(Array.from({ length: RUNS }, () => start(agent)));
    const runs = async (ids: readonly string[]) => {
      const { runs: rows } = await call('GET', '/v1/runs?limit=200');
      return ids.map((id) => rows.find((row: { id: string }) => row.id === id));
    };
    const untilCompleted = (ids: readonly string[], waitMs = WAIT_MS) =>
      waitUntil(
        'all have completed',
        async () => {
          const statuses = (await runs(ids)).map(({ status, error }) => {
            assert.notEqual(status, 'failed', JSON.stringify(error));
            return status;
          });
          return statuses.every((status) => status === 'completed');
        },
        waitMs,
      );

    it('for three seconds no run fails', async () => {
      const backAt = Date.now() + 3000;
      isAway = () => Date.now() < backAt;
      await untilCompleted(await startAll());
    });

    if (OUTAGE_SECONDS > 0) {
      it('for three minutes no run fails, and few requests find it away', async () => {
        const before = model.requests.length;
        const backAt = Date.now() + OUTAGE_SECONDS * 1000;
        isAway = () => Date.now() < backAt;
        await untilCompleted(await startAll(), OUTAGE_SECONDS * 1000 + BACK_MS);
        const inVain = asked(before, 'claude-sonnet-5') - RUNS;
        assert.ok(inVain < RUNS, `${inVain} requests found it away`);
      });
    }

    it('for longer all wait without a worker, one asks for all, and all go on when it is back', async () => {
      isAway = (name) => name === 'claude-sonnet-5';
      const ids = await startAll();
      const parked = async () => (await runs(ids)).filter((run) => run.waiting_for?.type === 'provider');
      await waitUntil('all wait', async () => (await parked()).length === RUNS, WAIT_MS);
      for (const run of await parked()) assert.equal(run.waiting_for.error.code, 'unavailable');
      const [first = ''] = ids;
      const env = { DROVER_URL: String(platform.url), DROVER_API_KEY: platform.apiKey };
      const following = drover(['runs', 'follow', first], env);
      assert.match((await drover(['runs', 'show', first], env)).out, /^why +anthropic: away/m);
      await answersWithWhy();
      const before = model.requests.length;
      const other = await start(await newAgent('claude-haiku-4-5'));
      await untilCompleted([other]);
      await waitUntil('it was asked again, for all', () => asked(before, 'claude-sonnet-5') >= 2, WAIT_MS);
      const outages = await failuresOfOutages(platform);
      assert.equal(outages.length, 1);
      // The first run that met the outage counts as one; from then on each request is one probe.
      assert.ok(asked(before, 'claude-sonnet-5') <= (outages[0]?.failures ?? 0) + 1, 'more than one asked');
      isAway = () => false;
      await untilCompleted(ids);
      assert.match((await following).out, /^waits for its provider: anthropic: away.* \(asked again at \d{4}-\S+Z\)$/m);
      const log = platform.log.filter(({ msg }) => msg === 'run waits for its provider');
      assert.ok(log.length >= RUNS);
    });

    /** Who waits for a turn that waits is told what for. */
    const answersWithWhy = async () => {
      const runsOfAgent = `/v1/agents/${agent}/runs`;
      const open = await call('POST', runsOfAgent, {});
      const answer = await request(`${platform.url}${runsOfAgent}/${open.id}/turns`, 'POST', {
        key: platform.apiKey,
        body: { input: { message: 'hello' } },
        headers: { prefer: 'wait=2' },
      });
      const { status, waiting_for: reason } = answer.json;
      assert.deepEqual(
        [answer.status, status, reason?.type, reason?.error?.code],
        [202, 'running', 'provider', 'unavailable'],
      );
      await call('POST', `/v1/runs/${open.id}/cancel`);
    };
    const asked = (since: number, name: string) =>
      model.requests.slice(since).filter(({ body }) => body['model'] === name).length;
  });
}
