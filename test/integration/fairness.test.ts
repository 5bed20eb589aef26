import assert from 'node:assert/strict';
import { TURNS } from '../../jobs/turns.ts';
import { newId } from '../../lib/new-id.ts';
import { startWorkers, type Workers } from '../../workers/start-workers.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { FAULT_MODES } from '../support/modes.ts';
import { sized } from '../support/size.ts';
import { waitUntil } from '../support/wait-until.ts';
import { startsOfRuns } from '../support/queries/runs.ts';

const FLOOD = sized({ usual: 80, nightly: 300 });

for (const mode of FAULT_MODES) {
  describe(`two tenants on one worker in ${mode} mode`, function suite() {
    this.timeout(180_000);
    let api: TestApi;
    let workers: Workers | undefined;

    before(async () => {
      api = await startTestApi(mode, { env: { DROVER_CONCURRENCY: 'turns=2' }, forWorkers: true });
    });
    after(async () => {
      await workers?.stop(3000);
      await api.close();
    });

    async function tenantWithRuns(count: number) {
      const { id, key } = await api.newTenant();
      const agent = await api.call('POST', '/v1/agents', { key, body: { name: 'counter', tools: ['calculator'] } });
      const runs: string[] = [];
      const body = { input: { message: 'What is 6*7?' } };
      for (let made = 0; made < count; made++) {
        const answer = await api.call('POST', `/v1/agents/${agent.json.id}/runs`, { key, body });
        assert.equal(answer.status, 202, answer.text);
        runs.push(answer.json.run_id);
      }
      return { id, runs };
    }

    const startedOf = ({ id }: { id: string }) => startsOfRuns({ ...api, tenantId: id });

    it(`lesson 15: one tenant's flood of ${FLOOD} runs does not hold back another's 5`, async () => {
      const from = Date.now();
      const flooding = await tenantWithRuns(FLOOD);
      const few = await tenantWithRuns(5);
      await api.context.outbox.close();
      const seconds = (Date.now() - from) / 1000;
      workers = await startWorkers(api.context);
      await waitUntil('the five have begun', async () => (await startedOf(few)).length === 5);
      const last = (await startedOf(few)).at(-1)?.at ?? new Date(0);
      const before = (await startedOf(flooding)).filter(({ at }) => at <= last).length;
      // One for each second in which the flood had no rival, and its turns between the others'.
      assert.ok(before <= seconds + 20, `${before} of the flood were ahead after ${seconds} s`);
    });

    it('puts back what a newer build has sent, and fails nothing', async () => {
      workers ??= await startWorkers(api.context);
      const queue = api.context.queues.queue(TURNS.name);
      const data = { tenant: newId(), run: newId(), seq: 1 };
      const odd = [
        await queue.add('turns-of-the-future', data, { jobId: `a-${newId()}` }),
        await queue.add(TURNS.name, { ...data, version: 2 }, { jobId: `b-${newId()}` }),
      ];
      for (const job of odd) {
        await waitUntil('it is put back', async () => (await job.getState()) === 'delayed');
        assert.equal((await queue.getJob(job.id ?? ''))?.attemptsMade, 0);
      }
    });
  });
}
