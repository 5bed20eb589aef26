/** Budgets where agents make agents: what a child spends is its own, and everybody's above it. */
import assert from 'node:assert/strict';
import { agentsOf, hasResult, startAgentsThatSay, text, use, type Say } from '../support/agents-that-say.ts';
import type { TestApi } from '../support/api.ts';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { door } from '../support/engine.ts';
import type { AnthropicReply, AnthropicRequest } from '../support/fake-anthropic.ts';
import { ownCalls } from '../support/queries/model-calls.ts';
import { waitUntil } from '../support/wait-until.ts';
import { carryHandoffs } from '../../modules/workflows/carry-handoffs.ts';

const ENDED = ['completed', 'failed', 'cancelled'];

/** An answer that uses so many tokens. */
const spending = (tokens: number, reply: AnthropicReply): AnthropicReply => ({
  ...reply,
  usage: { input_tokens: tokens - 100, output_tokens: 100 },
});

const delegating = (...children: { agent: string; max_cost_tokens?: number }[]): AnthropicReply => ({
  content: children.flatMap((child) => {
    const { content = [] } = use('delegate', { ...child, description: `Do what ${child.agent} does.` });
    return content;
  }),
});

describe('budgets of a tree of runs', () => {
  let api: TestApi;
  let shop: LocalServer;
  let tenant: string;
  let { ids, make, read, agent } = {} as ReturnType<typeof agentsOf>;
  let say: Say;

  before(async () => {
    ({ api } = await startAgentsThatSay((...asked) => say(...asked)));
    shop = await startServer((_request, response) => {
      const isFirst = shop.seen.length === 1;
      response.writeHead(isFirst ? 503 : 200, {
        'content-type': 'application/json',
        ...(isFirst && { 'retry-after': '1' }),
      });
      response.end('{"paid": true}');
    });
  });
  after(async () => {
    await shop.close();
    await api.close();
  });
  beforeEach(async () => {
    const { id, key } = await api.newTenant();
    tenant = id;
    ({ ids, make, read, agent } = agentsOf(api, key));
    shop.seen.length = 0;
    const transport = { type: 'http', endpoint: `${shop.url}/pay` };
    await make('/v1/tools', { name: 'pay', description: 'Pays.', transport, risk_level: 'WRITE_HIGH_RISK' });
    const small = { llm_config: { max_tokens: 300 } };
    await agent('lead', { tools: ['delegate'], ...small });
    await agent('payer', { tools: ['pay'], ...small });
    await agent('spender', small);
  });

  const start = async (name: string, config = {}): Promise<string> => {
    const { run_id } = await make(`/v1/agents/${ids[name]}/runs`, { input: { message: 'Go.' }, config }, 202);
    return run_id;
  };
  const ended = async (run: string) => {
    await waitUntil('the run ends', async () => ENDED.includes((await read(`/v1/runs/${run}`)).status));
    return read(`/v1/runs/${run}`);
  };
  const runOf = async (name: string) => (await read(`/v1/runs?agent_id=${ids[name]}`)).runs[0];
  const asked = async () => {
    await waitUntil('a person is asked', async () => (await read('/v1/approvals?status=pending')).approvals.length > 0);
    return (await read('/v1/approvals?status=pending')).approvals[0].id as string;
  };
  const spent = async (name: string) => {
    await waitUntil(`${name} has ended`, async () => (await runOf(name))?.status === 'completed');
  };

  describe('where a call of a child passes the gate again', () => {
    /** The payer asks for its call first, then the spender answers. */
    const paying = (children: Parameters<typeof delegating>, tokens: { payer: number; spender: number }) => {
      say = async (name, _said, request) => {
        if (name === 'lead') return spending(1100, hasResult(request) ? text('done') : delegating(...children));
        if (name === 'payer') return spending(tokens.payer, hasResult(request) ? text('paid') : use('pay', {}));
        await asked();
        return spending(tokens.spender, text('spent'));
      };
    };

    it('stop it if a run above has used up its tokens meanwhile', async () => {
      paying([{ agent: 'payer' }, { agent: 'spender' }], { payer: 1100, spender: 7100 });
      const root = await start('lead', { budget: { max_tokens: 6000 } });
      const approval = await asked();
      await spent('spender');
      const { status, detail } = await make(`/v1/approvals/${approval}`, { decision: 'approve' }, 409);
      assert.equal(status, 409);
      assert.match(detail, /budget is used up/);
      assert.equal((await ended(root)).stop_reason, 'budget');
      assert.equal(shop.seen.length, 0);
    });

    it('let it be made, and made again, whatever its siblings have used of theirs', async () => {
      const most = { max_cost_tokens: 5000 };
      paying(
        [
          { agent: 'payer', ...most },
          { agent: 'spender', ...most },
        ],
        { payer: 1100, spender: 4400 },
      );
      const root = await start('lead');
      const approval = await asked();
      await spent('spender');
      await make(`/v1/approvals/${approval}`, { decision: 'approve' }, 200);
      assert.equal((await ended(root)).status, 'completed');
      assert.deepEqual([(await runOf('payer')).status, shop.seen.length], ['completed', 2]);
    });
  });

  describe('where a child has its answer judged', () => {
    const verdict = (...gaps: string[]) => use('submit_verdict', { meets_criteria: gaps.length === 0, gaps });
    let judged: AnthropicRequest[];
    beforeEach(async () => {
      judged = [];
      await agent('thinker', { execution_config: { reflect: true }, llm_config: { max_tokens: 300 } });
    });
    /** What the lead delegates, and what each call of it and its children uses; the verdict always has a gap. */
    const thinking = (
      child: Parameters<typeof delegating>[0],
      tokens: { lead: number; answer: number; verdict: number },
    ) => {
      say = (name, _said, request) => {
        if (name === 'lead') return spending(tokens.lead, hasResult(request) ? text('done') : delegating(child));
        if (name === 'thinker') return spending(tokens.answer, text('Vienna'));
        judged.push(request);
        return spending(tokens.verdict, verdict('the river'));
      };
    };
    const found = async () =>
      (await read(`/v1/runs/${(await runOf('thinker')).run_id}/events?types=reflection.completed`)).events.map(
        ({ payload }: { payload: { meets_criteria: boolean | null } }) => payload.meets_criteria,
      );

    it('hold the verdict to what is left above it', async () => {
      thinking({ agent: 'thinker' }, { lead: 1100, answer: 8100, verdict: 5000 });
      await ended(await start('lead', { budget: { max_tokens: 9210 } }));
      assert.deepEqual([judged.length, await found()], [0, [null]]);
      await ended(await start('lead', { budget: { max_tokens: 9700 } }));
      assert.ok(Number(judged[0]?.['max_tokens']) < 500, `${JSON.stringify(judged)} of 500`);
    });

    it('count the verdict for the child', async () => {
      thinking({ agent: 'thinker', max_cost_tokens: 13_000 }, { lead: 1100, answer: 8100, verdict: 5000 });
      await ended(await start('lead'));
      const { stop_reason, usage } = await runOf('thinker');
      assert.deepEqual([stop_reason, usage.tokens_in + usage.tokens_out, judged.length], ['budget', 13_100, 1]);
    });

    it('do not count for the child what others have used', async () => {
      thinking({ agent: 'thinker', max_cost_tokens: 20_000 }, { lead: 50_000, answer: 1100, verdict: 1100 });
      await ended(await start('lead', { budget: { max_tokens: 1_000_000 } }));
      assert.equal((await found())[0], false);
    });

    it('let the verdict wait for room that a call under way holds', async () => {
      // Of 10,000 the spender holds 8,000 for its answer, and the prompts a few.
      await agent('slow', { llm_config: { max_tokens: 8000 } });
      const slowly = door();
      say = async (name, _said, request) => {
        if (name === 'lead') {
          const children = delegating({ agent: 'thinker' }, { agent: 'slow' });
          return spending(300, hasResult(request) ? text('done') : children);
        }
        if (name === 'slow') {
          await slowly.pass();
          return spending(300, text('slow'));
        }
        if (name !== 'thinker') return spending(200, verdict());
        await slowly.reached;
        return spending(1600, text('Vienna'));
      };
      const root = await start('lead', { budget: { max_tokens: 10_000 } });
      await waitUntil('there is no room', async () =>
        (await ownCalls({ context: api.context, tenantId: tenant })).some(({ error_code }) => error_code === 'budget'),
      );
      slowly.open();
      assert.equal((await ended(root)).status, 'completed');
      assert.deepEqual(await found(), [true]);
    });
  });

  describe('where a conversation is handed over', () => {
    beforeEach(async () => {
      await agent('ann', { tools: ['handoff', 'delegate', 'calculator'] });
      await agent('bob');
      await agent('child', { tools: ['calculator'] });
    });
    const handing = use('handoff', { to_agent: 'bob', reason: 'Better at it' });
    const calculating = use('calculator', { expression: '1+1' });
    /** The budget of the run that goes on with it. */
    const rest = async () => {
      await waitUntil('it goes on', async () => {
        await carryHandoffs(api.context);
        return (await runOf('bob')) !== undefined;
      });
      const { events } = await read(`/v1/runs/${(await runOf('bob')).run_id}/events?types=run.created`);
      return events[0].payload.config.budget;
    };

    it('leave the target what neither the run nor the one that it repeats has used', async () => {
      const answers = [
        spending(8500, calculating),
        { error: { status: 400, type: 'invalid_request_error', message: 'no' } },
        spending(120, handing),
        spending(120, text('over')),
      ];
      say = (name) => (name === 'ann' && answers.shift()) || text('bob here');
      const run = await start('ann', { budget: { max_tokens: 10_000 } });
      assert.equal((await ended(run)).status, 'failed');
      const { new_run_id: again } = await make(`/v1/runs/${run}/retry`, {}, 202);
      assert.equal((await ended(again)).status, 'completed');
      assert.deepEqual(await rest(), { max_tokens: 10_000 - 8500 - 240 });
    });

    it('leave the target the steps that neither the run nor its children have made', async () => {
      const answers: Record<string, AnthropicReply[]> = {
        ann: [delegating({ agent: 'child' }), handing, text('over')],
        child: [calculating, use('calculator', { expression: '2+2' }), text('4')],
      };
      say = (name) => answers[name]?.shift() ?? text('bob here');
      const budget = { max_steps: 7, max_cost_usd: 1 };
      assert.equal((await ended(await start('ann', { budget }))).status, 'completed');
      const left = await rest();
      assert.equal(left.max_steps, 1);
      assert.ok(left.max_cost_usd > 0.9 && left.max_cost_usd < 1, `${left.max_cost_usd}`);
    });
  });

  describe('where a task is handed over', () => {
    beforeEach(async () => {
      await agent('ann', {
        capabilities: [{ skill_name: 'ann' }],
        tools: ['calculator'],
        llm_config: { max_tokens: 300 },
      });
      await agent('bob');
    });
    /** Hands a task over on which 1,100 tokens were used; answers how often a summary was asked for, which takes 7,100. */
    const handOver = async (max_cost_tokens: number) => {
      let summaries = 0;
      say = (name, _said, request) => {
        if (name === 'ann') {
          // Who hangs has nothing to be paid for: no answer has begun.
          const hangs = { delayMs: 600_000 };
          return hasResult(request) ? hangs : spending(1100, use('calculator', { expression: '1+1' }));
        }
        if (name === 'bob') return text('done by bob');
        summaries += 1;
        return spending(7100, use('submit_summary', { summary: 'Everywhere was looked.' }));
      };
      const requirements = { required_capabilities: ['ann'], preferred_agents: [ids['ann']], max_cost_tokens };
      const description = 'Find them, and look everywhere. '.repeat(100);
      const { id } = await make('/v1/tasks', { description, requirements }, 202);
      await waitUntil('ann is asked again', async () => {
        const { run_id } = await read(`/v1/tasks/${id}`);
        const called = run_id && (await read(`/v1/runs/${run_id}/events?types=model.called`)).events;
        return called?.length === 2;
      });
      const agents = { source_agent_id: ids['ann'], target_agent_id: ids['bob'] };
      const why = { reason: 'Needs an analyst', urgency: 'high', context: {}, target_tokens: 200 };
      await make('/v1/handoffs', { task_id: id, ...agents, ...why });
      return summaries;
    };

    it('count for the task what the summary of its conversation takes, and show it among the calls of Drover', async () => {
      assert.equal(await handOver(12_000), 1);
      await waitUntil('bob goes on', async () => (await runOf('bob')) !== undefined);
      const { events } = await read(`/v1/runs/${(await runOf('bob')).run_id}/events?types=run.created`);
      assert.deepEqual(events[0].payload.config.budget, { max_tokens: 12_000 - 1100 - 7100 });
      const { own_calls } = await read('/v1/dashboard/usage');
      assert.deepEqual(
        own_calls.map(({ purpose, calls }: { purpose: string; calls: number }) => [purpose, calls]),
        [['handoff_summary', 1]],
      );
    });

    it('ask no model for a summary where the task has nothing left for it', async () => {
      assert.equal(await handOver(1200), 0);
    });
  });
});
