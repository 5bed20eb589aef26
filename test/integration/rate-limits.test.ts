import assert from 'node:assert/strict';
import { startInstallation, type Installation } from '../support/installation.ts';
import { DOMAIN_MODES } from '../support/modes.ts';
import { createAgent, readLog, startRun, untilRun } from '../support/runs.ts';
import { waitUntil } from '../support/wait-until.ts';

for (const mode of DOMAIN_MODES.filter((each) => each !== 'embedded')) {
  describe(`two workers and a provider that refuses, in ${mode} mode`, () => {
    let installation: Installation;

    before(async () => {
      installation = await startInstallation(mode, { workers: [] });
      // One credential for both.
      const env = { ANTHROPIC_API_KEY: 'shared' };
      await Promise.all([installation.start('one', env), installation.start('two', env)]);
    });
    after(() => installation.close());

    it('lesson 14: not every worker retries a 429 alone', async () => {
      const { model } = installation;
      const agent = await createAgent(installation);
      const retryAfterMs = 4000;
      const first = await startRun(installation, agent, `throttle ${retryAfterMs / 1000} say first`);
      await waitUntil('the provider has refused', async () =>
        (await readLog(installation, first.run)).some(({ type }) => type === 'model.retried'),
      );
      const others = await Promise.all(
        Array.from({ length: 12 }, (_, index) => startRun(installation, agent, `say other ${index}`)),
      );
      for (const { run } of [first, ...others]) assert.equal((await untilRun(installation, run)).status, 'completed');
      const [refused, again] = model.asked('say first');
      const earliest = (refused?.at ?? 0) + retryAfterMs;
      const asked = [again, ...model.asked('say other')].map((request) => (request?.at ?? 0) - earliest);
      assert.equal(asked.length, 13);
      assert.ok(
        asked.every((ms) => ms >= 0),
        `asked too early: ${asked.join(', ')} ms`,
      );
      for (const name of ['one', 'two']) {
        const failed = installation
          .process(name)
          .log()
          .filter(({ outcome }) => outcome === 'failed');
        assert.deepEqual(failed, []);
      }
    });
  });
}
