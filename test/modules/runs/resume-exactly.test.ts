import assert from 'node:assert/strict';
import type {
  BetaCompactionBlock,
  BetaContextManagementConfig,
} from '@anthropic-ai/sdk/resources/beta/messages/messages';
import { STRATEGIES, type Strategy } from '../../../core/compaction.ts';
import { textOf } from '../../../core/content.ts';
import { readThreadConversations } from '../../../modules/conversations/read-conversations.ts';
import { updateAgent } from '../../../modules/agents/update-agent.ts';
import { completeRun } from '../../../modules/runs/end-run.ts';
import { openEngine, text, type Engine } from '../../support/engine.ts';
import { replayRecorded } from '../../support/recorded-replay.ts';
import type { AnthropicRequest } from '../../support/fake-anthropic.ts';
import {
  assertSameRequests,
  CODE,
  conversationBytes,
  LLM,
  messageOf,
  scriptLongThread,
  SEARCH,
  searched,
} from '../../support/long-thread.ts';
import { sized } from '../../support/size.ts';
import { checkpointsOfRun } from '../../support/queries/logs.ts';

const NUMBER = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };

/** Turns of each version, and whether every one of them is a run of its own. */
interface Pace {
  turns: number;
  isCold: boolean;
}

describe('A thread that is taken up again', function () {
  this.timeout(sized({ usual: 180_000, nightly: 1_800_000 }));
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  /** Requests of the model so far, as bytes, without Drover's own. */
  const sent = () => conversationBytes(engine.model);

  const agentOf = (strategy: Strategy, more: object = {}) =>
    engine.agent({
      name: `${strategy} ${Math.random()}`,
      llm_config: LLM,
      memory_config: { short_term: { max_tokens: 1500, strategy } },
      tools: ['calculator'],
      ...more,
    });

  /** All turns in one run, by a driver that never forgets. */
  async function inOneGo(agent: string, turns: number) {
    const { run, thread } = await engine.start(agent, messageOf(1), { config: { keep_open: true } });
    await engine.finish(run);
    for (let turn = 2; turn <= turns; turn++) {
      await engine.post(agent, run, messageOf(turn));
      await engine.finish(run);
    }
    return { run, thread };
  }

  /** Each turn a run of its own, by a process that knows nothing of those before. */
  async function eachAnew(agent: string, turns: number) {
    const first = await engine.start(agent, messageOf(1));
    await engine.finish(first.run);
    let { run } = first;
    for (let turn = 2; turn <= turns; turn++) {
      await engine.everyoneDies();
      ({ run } = await engine.start(agent, messageOf(turn), { threadId: first.thread }));
      await engine.finish(run);
    }
    return { run, thread: first.thread };
  }

  for (const strategy of STRATEGIES) {
    it(`sends the same bytes as one that never rested: ${strategy}`, async () => {
      const turns = sized({ usual: 16, nightly: 500 / STRATEGIES.length });
      const agent = await agentOf(strategy);
      engine.say(scriptLongThread);
      const warm = await inOneGo(agent, turns);
      const whole = sent();
      engine.say(scriptLongThread);
      const cold = await eachAnew(agent, turns);
      const anew = sent();
      assert.ok(whole.length > turns, 'pauses and calls make more requests than turns');
      assertSameRequests(whole, anew);
      const log = await engine.log(warm.run);
      const shortened = log.some(({ type }) => type === 'context.compacted' || type === 'context.transformed');
      assert.ok(shortened, 'nothing was left out');
      const created = (await engine.log(cold.run))[0];
      assert.ok(created?.type === 'run.created');
      assert.ok((created.payload.calibration?.['anthropic/claude-haiku-4-5'] ?? 0) > 100);
      assert.match(created.payload.container_id ?? '', /^container_/);
      await sameConversations(warm.thread, cold.thread);
    });
  }

  /** A thread whose agent gets a new version for each way to shorten it: a run for each, or for each turn, of a process that knows nothing. */
  async function overVersions(agent: string, versions: readonly string[], { turns, isCold }: Pace) {
    let thread: string | undefined;
    let turn = 0;
    for (const agent_version of versions) {
      const on = () => (thread === undefined ? {} : { threadId: thread });
      const config = { agent_version, keep_open: !isCold };
      let run: string | undefined;
      for (let n = 0; n < turns; n++) {
        turn += 1;
        if (isCold) await engine.everyoneDies();
        if (isCold || run === undefined) {
          ({ run, thread } = await engine.start(agent, messageOf(turn), { ...on(), config }));
        } else await engine.post(agent, run, messageOf(turn));
        await engine.finish(run);
      }
      if (!isCold) await completeRun(engine.context, { tenantId: engine.tenantId, runId: run ?? '' });
    }
    return thread ?? '';
  }

  it('sends the same bytes over one long thread that is shortened in every way, one after the other', async () => {
    const agent = await agentOf('fifo');
    const versions: string[] = [];
    for (const strategy of STRATEGIES) {
      const memory_config = { short_term: { max_tokens: strategy === 'fifo' ? 1600 : 1500, strategy } };
      const { current_version } = await engine.context.db.withTenant(engine.tenantId, (tx) =>
        updateAgent(tx, engine.caller, { id: agent, patch: { memory_config } }),
      );
      versions.push(current_version);
    }
    const turns = sized({ usual: 16, nightly: 500 }) / STRATEGIES.length;
    engine.say(scriptLongThread);
    const warm = await overVersions(agent, versions, { turns, isCold: false });
    const whole = sent();
    engine.say(scriptLongThread);
    const cold = await overVersions(agent, versions, { turns, isCold: true });
    const anew = sent();
    assertSameRequests(whole, anew);
    await sameConversations(warm, cold);
  });

  /** Conversation rows say of both threads what their logs and messages say. */
  async function sameConversations(one: string, other: string) {
    const rowsOf = async (thread: string) => {
      const all: unknown[] = [];
      for (let before: [number, number] | undefined; ;) {
        const page = await engine.context.db.withTenant(engine.tenantId, (tx) =>
          readThreadConversations(tx, engine.caller, { threadId: thread, before, limit: 10 }),
        );
        const shown = page.conversations.map(({ row, messages, usage, cost }) => ({
          said: textOf(row.output ?? []),
          input: row.input,
          messages,
          usage,
          cost: { ...cost, model: null },
          steps: row.steps,
        }));
        all.push(...shown);
        if (!page.next) return all;
        before = page.next as [number, number];
      }
    };
    assert.deepEqual(await rowsOf(other), await rowsOf(one));
  }

  it('sends what the provider made back unchanged, with headers, container and settings', async () => {
    engine.say(scriptLongThread);
    const agent = await agentOf('fifo');
    const { run } = await inOneGo(agent, 1);
    await engine.post(agent, run, 'turn 9');
    await engine.finish(run);
    const [first, second] = engine.model.requests;
    assert.ok(first && second);
    const { messages, ...settings } = second.body as AnthropicRequest;
    assert.deepEqual(messages[1]?.content, searched(1));
    assert.equal(second.headers['anthropic-beta'], LLM.beta_headers.join(','));
    assert.equal('container' in (first.body as object), false);
    assert.equal(settings['container'], 'container_1');
    assert.equal(settings['top_p'], 0.9);
    assert.deepEqual(settings['thinking'], { type: 'enabled', budget_tokens: 1024 });
    assert.deepEqual(settings.tools?.slice(-2), [SEARCH, CODE]);
  });

  it("sends the provider's own compaction back unchanged, and counts what it has used", async () => {
    const context_management: BetaContextManagementConfig = { edits: [{ type: 'compact_20260112' }] };
    const summary: BetaCompactionBlock = { type: 'compaction', content: 'They reckoned.', encrypted_content: 'opaque' };
    const compaction = { type: 'compaction', input_tokens: 900_000, output_tokens: 1000 };
    engine.say(({ messages }) =>
      messages.length > 1
        ? text('went on')
        : {
            content: [{ ...summary }, { type: 'text', text: 'Hello.' }],
            usage: { input_tokens: 1000, output_tokens: 100, iterations: [compaction] },
          },
    );
    const beta_headers = ['compact-2026-01-12'];
    const llm_config = { ...LLM, beta_headers, api_kwargs: { context_management } };
    const agent = await agentOf('fifo', { llm_config });
    const { run, thread } = await engine.start(agent, messageOf(1));
    await engine.finish(run);
    await engine.everyoneDies();
    await engine.finish((await engine.start(agent, messageOf(2), { threadId: thread })).run);
    const [, second] = engine.model.requests;
    assert.ok(second);
    const { messages, ...settings } = second.body as AnthropicRequest;
    assert.deepEqual(settings['context_management'], context_management);
    assert.equal(second.headers['anthropic-beta'], beta_headers.join(','));
    assert.deepEqual(messages[1]?.content, [summary, { type: 'text', text: 'Hello.' }]);
    const answer = (await engine.log(run)).find(({ type }) => type === 'model.responded');
    assert.ok(answer?.type === 'model.responded');
    assert.equal(answer.payload.usage.compaction, 900_000);
    assert.equal(answer.payload.costs?.input, '0.901');
  });

  it('asks a model that pauses on with the same conversation, and no more often than there are steps', async () => {
    engine.say(() => ({ content: searched(1).slice(0, 2), stop_reason: 'pause_turn' }));
    const agent = await agentOf('fifo', { execution_config: { max_turns: 3 } });
    const { run } = await engine.start(agent, 'turn 1');
    await engine.finish(run);
    assert.equal(engine.model.requests.length, 4);
    const asked = engine.model.requests.map(({ body }) => (body as AnthropicRequest).messages);
    assert.deepEqual(
      asked.map((messages) => messages.length),
      [1, 2, 2, 2],
    );
    assert.equal(asked[3]?.[1]?.content.length, 6);
  });

  it('makes a new container where the provider has forgotten the old one', async () => {
    engine.say((request) => {
      if (request['container'] === 'container_old') {
        return { error: { type: 'not_found_error', status: 404, message: 'Container container_old has expired.' } };
      }
      return {
        ...text('ok'),
        container: { id: request['container'] === undefined ? 'container_old' : 'container_new' },
      };
    });
    const agent = await agentOf('fifo');
    const { run } = await inOneGo(agent, 2);
    const log = await engine.log(run);
    assert.equal(log.filter(({ type }) => type === 'model.responded').length, 2);
    assert.equal(engine.model.requests.length, 3, 'asked once more without it');
  });

  it('is answered by its record, container, calibration and forms included', async () => {
    engine.say((request) => {
      const reply = scriptLongThread(request);
      return JSON.stringify(request.messages.at(-1)).includes('demand') ? text('no JSON') : reply;
    });
    const agent = await agentOf('hybrid');
    const { run } = await inOneGo(agent, 12);
    const posted = {
      agentId: agent,
      runId: run,
      idempotency: { tenantId: engine.tenantId, route: 'test', body: null },
    };
    const { postTurn } = await import('../../../modules/runs/post-turn.ts');
    const input = { message: 'demand', output_schema: NUMBER };
    await postTurn(engine.context, { tenantId: engine.tenantId, ...posted, input });
    await engine.finish(run);
    const log = await engine.log(run);
    assert.ok(log.some(({ type }) => type === 'answer.rejected'));
    const before = engine.model.requests.length;
    let replayed = await replayRecorded(engine, run);
    await engine.finish(replayed);
    assert.equal(engine.model.requests.length, before, 'the first turn is asked for again');
    // Each further turn of the record is one of the replay.
    const middle = (await checkpointsOfRun(engine, run)).at(-3);
    replayed = await replayRecorded(engine, run, { checkpointId: middle?.id ?? '' });
    await engine.finish(replayed);
    const differs = (await engine.log(replayed)).flatMap((event) =>
      event.type === 'model.responded' ? [event.payload.recorded ?? event.payload.differs] : [],
    );
    assert.ok(differs.length > 0);
    assert.ok(
      differs.every((each) => each === true),
      JSON.stringify(differs),
    );
    assert.equal(engine.model.requests.length, before);
  });
});
