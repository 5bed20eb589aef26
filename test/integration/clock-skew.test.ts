import assert from 'node:assert/strict';
import { startInstallation, type Installation } from '../support/installation.ts';
import { DOMAIN_MODES } from '../support/modes.ts';
import { createAgent, readLog, untilRun } from '../support/runs.ts';
import { waitUntil } from '../support/wait-until.ts';

const MINUTES = 10;
/** Sets the clock of the process that is started with it, which gives its ids their order. */
const CLOCK = `const now=Date.now.bind(Date);Date.now=()=>now()+${MINUTES * 60_000}`;
const CLOCK_AHEAD = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(CLOCK)}` };

for (const mode of DOMAIN_MODES) {
  describe(`A thread whose runs come from processes with clocks ${MINUTES} minutes apart, in ${mode} mode,`, function () {
    let drover: Installation;
    let agent: string;
    /** Runs of a process whose clock is ahead; the others come from one whose clock is not. */
    let completed: { run: string; thread: string };
    let cancelled: { run: string; thread: string };

    before(async () => {
      drover = await startInstallation(mode, { workers: ['one'], env: CLOCK_AHEAD });
      agent = await createAgent(drover);
      completed = await say('say the first');
      assert.equal(await status(completed.run), 'completed');
      cancelled = await say('hang say once more');
      await waitUntil('the model hangs', () => drover.model.asked('once more').length === 1);
      const cancel = await drover.call('POST', `/v1/runs/${cancelled.run}/cancel`, { body: {} });
      assert.equal(cancel.status, 202);
      assert.equal(await status(cancelled.run), 'cancelled');
      await drover.end('api', 'SIGTERM');
      await drover.start('api', { NODE_OPTIONS: '' });
    });
    after(() => drover?.close());

    const say = async (message: string, thread?: string) => {
      const body = { input: { message }, ...(thread !== undefined && { thread_id: thread }) };
      const answer = await drover.call('POST', `/v1/agents/${agent}/runs`, { body });
      assert.equal(answer.status, 202, answer.text);
      return { run: answer.json.run_id as string, thread: answer.json.thread_id as string };
    };
    const status = async (run: string) => (await untilRun(drover, run)).status;
    /** What the model was shown up to this message. */
    const heard = (message: string) =>
      drover.model
        .asked(message)[0]
        ?.messages.map(({ content }) => JSON.stringify(content))
        .join('\n') ?? '';
    const placeOf = async (run: string) => (await readLog(drover, run))[0]?.payload['thread_place'];

    it('goes on with every message, in the order in which they came', async () => {
      const runs = [completed.run];
      for (const word of ['second', 'third']) {
        const { run } = await say(`say the ${word}`, completed.thread);
        assert.ok(run < completed.run, 'the clocks are not apart');
        assert.equal(await status(run), 'completed');
        runs.push(run);
      }
      assert.match(heard('say the third'), /the first.*the second/s);
      assert.deepEqual(await Promise.all(runs.map(placeOf)), [1, 2, 3]);
    });

    it('goes on from a retry, and refuses a second retry of what came before it', async () => {
      const retried = await drover.call('POST', `/v1/runs/${cancelled.run}/retry`, { body: {} });
      assert.equal(retried.status, 202, retried.text);
      assert.ok(retried.json.run_id < cancelled.run, 'the clocks are not apart');
      assert.equal(await status(retried.json.run_id), 'completed');
      const again = await drover.call('POST', `/v1/runs/${cancelled.run}/retry`, { body: {} });
      assert.equal(again.status, 409, again.text);
      const next = await say('say after it', cancelled.thread);
      assert.equal(await status(next.run), 'completed');
      assert.match(heard('say after it'), /once more.*once more/s);
    });
  });
}
