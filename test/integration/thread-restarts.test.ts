/** A long thread whose processes end and are killed between its turns goes on as if one process had driven all of it. */
import assert from 'node:assert/strict';
import { STRATEGIES } from '../../core/compaction.ts';
import { startFakeAnthropic } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { startInstallation, type Installation } from '../support/installation.ts';
import { assertSameRequests, conversationBytes, LLM, messageOf, scriptLongThread } from '../support/long-thread.ts';
import { FAULT_MODES } from '../support/modes.ts';
import { readLog, untilRun, type LogEvent } from '../support/runs.ts';
import { sized } from '../support/size.ts';

/** Turns of the thread, and after how many of them its process makes room for another one. */
const TURNS = sized({ usual: 16, nightly: 500 });
const TURNS_OF_A_PROCESS = sized({ usual: 3, nightly: 25 });
const TIMEOUT_MS = sized({ usual: 180_000, nightly: 1_800_000 });

type Conversation = Record<string, unknown>;

for (const mode of FAULT_MODES) {
  describe(`a thread whose processes come and go, in ${mode} mode`, function () {
    this.timeout(TIMEOUT_MS);
    let drover: Installation;
    let model: FakeServer;
    const victim = mode === 'embedded' ? 'api' : 'one';

    before(async () => {
      model = await startFakeAnthropic(scriptLongThread);
      const env = { ANTHROPIC_BASE_URL: model.url, DROVER_LEASE_MS: '3000', DROVER_SHUTDOWN_MS: '2000' };
      drover = await startInstallation(mode, { env, workers: ['one'] });
    });
    after(async () => {
      await drover?.close();
      await model?.close();
    });

    /** Every turn a run; before each, whoever drives may be changed. The agent shortens the thread in each way, one after the other. */
    async function converse(agent: string, beforeTurn: (turn: number) => Promise<void>) {
      const sent = model.requests.length;
      const runs: string[] = [];
      let thread: string | undefined;
      for (let turn = 1; turn <= TURNS; turn++) {
        await beforeTurn(turn);
        const strategy = STRATEGIES[Math.floor(((turn - 1) * STRATEGIES.length) / TURNS)];
        const memory_config = { short_term: { max_tokens: strategy === 'fifo' ? 900 : 800, strategy } };
        await drover.call('PATCH', `/v1/agents/${agent}`, { body: { memory_config } });
        const body = { input: { message: messageOf(turn) }, ...(thread !== undefined && { thread_id: thread }) };
        const { status, text, json } = await drover.call('POST', `/v1/agents/${agent}/runs`, { body });
        assert.equal(status, 202, text);
        thread = json.thread_id as string;
        runs.push(json.run_id);
        assert.equal((await untilRun(drover, json.run_id)).status, 'completed');
      }
      const requests = conversationBytes({ ...model, requests: model.requests.slice(sent) });
      return { runs, requests, conversations: await conversationsOf(thread ?? '') };
    }

    async function conversationsOf(thread: string): Promise<Conversation[]> {
      const all: Conversation[] = [];
      for (let page = ''; ;) {
        const { json } = await drover.call('GET', `/v1/threads/${thread}/conversations?limit=200${page}`);
        all.push(...json.conversations);
        if (json.next_cursor === undefined) return all;
        page = `&cursor=${json.next_cursor}`;
      }
    }

    it('sends the model the same bytes, and its conversations say what its logs say', async () => {
      const body = { name: 'keeper', llm_config: LLM, tools: ['calculator'] };
      const { agent_id: agent } = (await drover.call('POST', '/v1/agents', { body })).json;
      const pids = new Set<number>();
      const undisturbed = await converse(agent, async () => undefined);
      const restarted = await converse(agent, async (turn) => {
        if (turn % TURNS_OF_A_PROCESS === 0) {
          await drover.end(victim, turn % 2 === 0 ? 'SIGKILL' : 'SIGTERM');
          await drover.start(victim);
        }
        pids.add(drover.process(victim).pid);
      });
      assert.equal(pids.size, 1 + Math.floor(TURNS / TURNS_OF_A_PROCESS), 'processes that have driven it');
      assertSameRequests(undisturbed.requests, restarted.requests);
      assert.equal(restarted.conversations.length, TURNS);
      assert.deepEqual(restarted.conversations.map(withoutIds), undisturbed.conversations.map(withoutIds));
      const shortened = new Set<string>();
      for (const [at, run] of restarted.runs.entries()) {
        const log = await readLog(drover, run);
        const row = restarted.conversations.at(-1 - at);
        assert.equal(row?.['run_id'], run);
        assert.deepEqual(row['usage'], usageOf(log));
        assert.equal(row['total_steps'], new Set(log.flatMap(({ step }) => step ?? [])).size);
        for (const { type } of log) if (type.startsWith('context.')) shortened.add(type);
      }
      assert.deepEqual([...shortened].toSorted(), ['context.compacted', 'context.transformed']);
    });
  });
}

/** What a conversation says beside who had it and when. */
const withoutIds = ({ user_message, final_response, messages, stop_reason, usage, total_steps }: Conversation) => ({
  user_message,
  final_response,
  messages,
  stop_reason,
  usage,
  total_steps,
});

/** What the provider has counted for the answers of a log. */
function usageOf(log: LogEvent[]): Record<string, number> {
  const sum = { input_tokens: 0, output_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };
  for (const { type, payload } of log) {
    if (type !== 'model.responded') continue;
    const usage = payload['usage'] as { input: number; output: number };
    sum.input_tokens += usage.input;
    sum.output_tokens += usage.output;
  }
  return sum;
}
