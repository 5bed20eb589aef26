/** What a planner has made of the results, or found that it lacks, is not lost whatever becomes of its next question. */
import assert from 'node:assert/strict';
import { LIMITS } from '../../../core/limits.ts';
import { door, openEngine, text, use, type Engine } from '../../support/engine.ts';
import type { AnthropicReply, AnthropicRequest } from '../../support/fake-anthropic.ts';
import { DOMAIN_MODES } from '../../support/modes.ts';
import { forgetOutages } from '../../support/queries/model-calls.ts';
import { backdateProviderWait, childrenOfRun } from '../../support/queries/runs.ts';
import { addDoneTasks, textOfWorkflow } from '../../support/queries/workflows.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { lookNow, readWorkflow, startWorkflow, subtask } from '../../support/workflows.ts';

const AWAY: AnthropicReply = {
  error: { status: 503, type: 'api_error', message: 'boom', headers: { 'retry-after-ms': '0' } },
};

type Answers = Record<string, (n: number) => AnthropicReply | Promise<AnthropicReply>>;

const GAP = { ...subtask('price'), description: 'Find the price.' };
const written = (...pieces: NonNullable<AnthropicReply['pieces']>): AnthropicReply => ({
  ...use({ name: 'submit_plan' }),
  pieces,
});
const planOf = (...subtasks: object[]) => written(JSON.stringify({ subtasks, success_criteria: '' }));

for (const mode of DOMAIN_MODES) {
  describe(`The answer that the planner of a workflow has made (${mode})`, () => {
    let engine: Engine;
    /** How often each tool was asked for. */
    let asked: Record<string, number>;

    before(async () => {
      engine = await openEngine(mode);
    });
    afterEach(() => forgetOutages(engine.context.db));
    after(() => engine.close());

    const answerWith = (answers: Answers) => {
      asked = {};
      const all: Answers = {
        submit_synthesis: (n) => use({ name: 'submit_synthesis', input: { result: `Answer ${n}.` } }),
        submit_verdict: () => use({ name: 'submit_verdict', input: { meets_criteria: false, gaps: ['the price'] } }),
        ...answers,
      };
      engine.say((request: AnthropicRequest) => {
        const name = request.tools?.find((tool) => tool.name.startsWith('submit_'))?.name;
        const isTold = request.messages.length > 1;
        if (name === undefined && request.tools?.length && !isTold) return use({ name: request.tools[0]?.name ?? '' });
        if (name === undefined) return text('done');
        const n = (asked[name] ??= 0);
        asked[name] = n + 1;
        return all[name]?.(n) ?? text('I will not.');
      });
    };
    const look = async (runId: string) => {
      await forgetOutages(engine.context.db);
      await lookNow(engine.context, { tenantId: engine.tenantId, runId });
    };
    const finishChildren = async (id: string) => {
      for (const child of await childrenOfRun(engine, id)) await engine.finish(child.id);
    };
    /** What a plan has said so far is begun by who reads it, when that has come. */
    const hasBegunGap = (id: string) =>
      waitUntil('the subtask for the gap is begun', async () => {
        const { tasks } = await readWorkflow(engine, id);
        return tasks.some(({ name }) => name === 'price');
      });
    /** A workflow whose two subtasks are done, and whose answer is to be made. */
    const answering = async (agentId?: string) => {
      const waiting = { execution_config: { provider_outage_seconds: 60 } };
      const id = await startWorkflow(engine, [], {
        agentId: agentId ?? (await engine.agent(waiting)),
        definition: { subtasks: [subtask('a'), subtask('b')], success_criteria: 'It has a price.' },
        settings: { on_subtask_failure: 'fail', execution: 'eager', max_replans: 1 },
      });
      await look(id);
      await finishChildren(id);
      return id;
    };
    const ended = async (id: string) => {
      const { workflow, tasks } = await readWorkflow(engine, id);
      const result = workflow.output?.map((block) => ('text' in block ? block.text : '')).join('');
      const { status, error, meets_criteria, gaps } = workflow;
      return { status, code: error?.code, result, meets_criteria, gaps, tasks };
    };
    const isKept = async (id: string, result: string) => {
      const { tasks: _, ...end } = await ended(id);
      assert.deepEqual(end, {
        status: 'completed',
        code: undefined,
        result,
        meets_criteria: false,
        gaps: ['the price'],
      });
    };

    it('is paid for once, however often its check is not to be had', async () => {
      let isAway = true;
      const verdict = use({ name: 'submit_verdict', input: { meets_criteria: true, gaps: [] } });
      answerWith({ submit_verdict: () => (isAway ? AWAY : verdict) });
      const id = await answering();
      await look(id);
      await engine.everyoneDies();
      await look(id);
      assert.equal(asked['submit_synthesis'], 1);
      isAway = false;
      await look(id);
      const { status, result, meets_criteria } = await ended(id);
      assert.deepEqual([status, result, meets_criteria], ['completed', 'Answer 0.', true]);
      assert.equal(asked['submit_synthesis'], 1);
      assert.equal((await textOfWorkflow(engine, id)).includes('Answer 0.'), false, 'its run alone has it now');
    });

    it('is made anew with a task that has joined while its check was not to be had', async () => {
      let isAway = true;
      const verdict = use({ name: 'submit_verdict', input: { meets_criteria: true, gaps: [] } });
      answerWith({ submit_verdict: () => (isAway ? AWAY : verdict) });
      const id = await answering();
      await look(id);
      await addDoneTasks(engine, id, 1);
      isAway = false;
      await look(id);
      assert.deepEqual([(await ended(id)).result, asked['submit_synthesis']], ['Answer 1.', 2]);
    });

    it('is the answer where the provider is away until the end of its patience with a plan for the gaps', async () => {
      answerWith({ submit_plan: () => AWAY });
      const id = await answering();
      await look(id);
      await look(id);
      assert.deepEqual([asked['submit_synthesis'], asked['submit_verdict']], [1, 1]);
      await backdateProviderWait(engine, id);
      await look(id);
      await isKept(id, 'Answer 0.');
      const events = await engine.log(id);
      assert.ok(events.every(({ type }) => type !== 'run.failed'));
    });

    it('is the answer where the process died that had a plan for the gaps written, and the next one is of no use', async () => {
      const { pass, open, reached } = door();
      const [begun, rest] = [`{"subtasks": [${JSON.stringify(GAP)}`, ', {"id": "b"'];
      answerWith({ submit_plan: (n) => (n === 0 ? written(begun, rest, pass) : planOf()) });
      const id = await answering();
      const died = look(id);
      await reached;
      await hasBegunGap(id);
      await engine.everyoneDies();
      await look(id);
      open();
      await died;
      await isKept(id, 'Answer 0.');
      assert.deepEqual([asked['submit_synthesis'], asked['submit_verdict']], [1, 1]);
      const states = (await ended(id)).tasks.map(({ name, status }) => `${name} ${status}`);
      assert.deepEqual(states, ['a completed', 'b completed', 'price cancelled']);
    });

    it('is the answer where what a lost plan for the gaps has begun had an effect, and the next one is without it', async () => {
      const agentId = await engine.agent({ autonomy_level: 3 }, [{ name: 'pay' }]);
      let id = '';
      const pays = async () => {
        await hasBegunGap(id);
        await look(id);
        await finishChildren(id);
      };
      const begun = `{"subtasks": [${JSON.stringify(GAP)}`;
      const unusable = ', {"id": "x", "description": "x", "dependencies": ["nobody"]}], "success_criteria": ""}';
      const other = { ...GAP, description: 'Ask somebody.' };
      answerWith({
        submit_plan: (n) => (n === 0 ? written(begun, ', {"id"', pays, ': "y"', unusable) : planOf(other)),
      });
      id = await answering(agentId);
      await look(id);
      // The next planner is told of it.
      await look(id);
      await isKept(id, 'Answer 0.');
      assert.equal(engine.tools.seen.length, 3);
    });

    it('is made anew where so many tasks have joined that a plan for the gaps has no room any more', async () => {
      let id = '';
      answerWith({
        submit_plan: async () => {
          await addDoneTasks(engine, id, LIMITS.subtasksPerPlan - 2);
          return planOf(GAP);
        },
      });
      id = await answering();
      await look(id);
      await look(id);
      await isKept(id, 'Answer 1.');
    });
  });
}
