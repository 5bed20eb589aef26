/** What becomes of a message that waits in a session when its run ends, and another begins on the thread. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { TestApi } from '../support/api.ts';
import { text as say } from '../support/engine.ts';
import { startFakeAnthropic, type AnthropicRequest } from '../support/fake-anthropic.ts';
import { startTestService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('A message that waits in a session whose run is cancelled', () => {
  let api: TestApi;
  let agent: string;
  let user_id: string;
  let session: string;
  let cancelled: string;
  /** The first model call of a test answers when this does. */
  let held: Promise<void>;
  let letGo: () => void;
  let asked: number;

  before(async () => {
    const model = await startFakeAnthropic(async (request) => {
      if (asked++ === 0) await held;
      return say(`you said ${lastSaid(request)}`);
    });
    api = await startTestService({ model });
    agent = (await call('/v1/agents', { name: 'talks' })).json.id;
  });
  after(() => api.close());
  beforeEach(async () => {
    asked = 0;
    held = new Promise((resolve) => (letGo = resolve));
    user_id = randomUUID();
    session = (await call('/agent/chat', { message: 'first', user_id, agent_id: agent })).json.session_id;
    await waitUntil('the model is asked', () => asked > 0);
    await call('/agent/chat', { message: 'second', user_id, session_id: session });
    cancelled = (await read()).run_id;
    await call(`/v1/runs/${cancelled}/cancel`, {});
    assert.equal((await read()).queued_message, 'second');
  });
  afterEach(() => letGo());

  const call = async (path: string, body: object) => {
    const answer = await api.call('POST', path, { body });
    assert.ok(answer.status < 300, answer.text);
    return answer;
  };
  const read = async () => (await api.call('GET', `/agent/session/${session}`)).json;
  const begin = async (body: object) =>
    (await call(`/v1/agents/${agent}/runs`, { thread_id: session, ...body })).json.run_id;
  const said = async (): Promise<string[]> =>
    (await read()).messages.map(({ content }: { content: string }) => content);
  const answered = (message: string) =>
    waitUntil(`${message} is answered`, async () => (await said()).at(-1) === `you said ${message}`);

  it('is answered after the turn that is retried, once', async () => {
    const { json } = await call(`/v1/runs/${cancelled}/retry`, {});
    await answered('second');
    assert.deepEqual(await said(), ['first', 'you said first', 'second', 'you said second']);
    assert.equal((await read()).queued_message, null);
    await call(`/v1/runs/${json.new_run_id}/complete`, {});
    await begin({ input: { message: 'third' } });
    await answered('third');
    assert.equal((await said()).filter((content) => content === 'second').length, 1);
  });

  it('is answered where many runs are retried together', async () => {
    await call('/v1/runs/retry', { filter: { status: 'cancelled', thread_id: session } });
    await answered('second');
  });

  it('is read in the one turn of a run that is begun on the thread', async () => {
    await begin({ input: { message: 'third' } });
    await answered('second');
    assert.deepEqual((await said()).slice(-3), ['third', 'second', 'you said second']);
  });

  it('waits where a run waits for its first turn, and begins that of its retry', async () => {
    const run = await begin({});
    await waitUntil('it is shown', async () => (await read()).status === 'executing_queued');
    assert.equal((await read()).queued_message, 'second');
    await call(`/v1/runs/${run}/cancel`, {});
    await call(`/v1/runs/${run}/retry`, {});
    await answered('second');
    assert.equal((await read()).queued_message, null);
  });

  it('is gone with the run, where that is erased', async () => {
    await api.call('DELETE', `/v1/runs/${cancelled}`);
    const { json } = await api.call('GET', `/agent/session/${session}`);
    assert.equal(json.queued_message, null);
    await call('/agent/chat', { message: 'third', user_id, session_id: session });
    await answered('third');
    assert.deepEqual(await said(), ['third', 'you said third']);
  });
});

function lastSaid({ messages }: AnthropicRequest): string {
  const content = messages.at(-1)?.content ?? '';
  if (typeof content === 'string') return content;
  return String(content.findLast(({ type }) => type === 'text')?.['text']);
}
