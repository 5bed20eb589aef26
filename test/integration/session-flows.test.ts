/**
 * The ways of a session from its first message to its end, over real WebSockets, with two APIs and a worker in processes of
 * their own: what is asked of one API is seen at the other.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { startInstallation, type Installation } from '../support/installation.ts';
import { request } from '../support/api.ts';
import { MODES } from '../support/modes.ts';
import { waitUntil } from '../support/wait-until.ts';
import { last, typesOf, watchSession, type Frame, type Watcher } from '../support/watch-session.ts';

const RISKS = {
  get_war_summary: 'READ_ONLY',
  get_combat_losses: 'READ_ONLY',
  get_top_destroyed_ships: 'READ_ONLY',
  get_material_requirements: 'READ_ONLY',
  get_regional_comparison: 'READ_ONLY',
  search_item: 'READ_ONLY',
  create_shopping_list: 'WRITE_LOW_RISK',
  add_shopping_items: 'WRITE_LOW_RISK',
};
const CHARACTER = 1117367444;
const APIS = ['api', 'api-2'] as const;
type Api = (typeof APIS)[number];

const [mode] = MODES.filter((each) => each !== 'embedded').slice(-1);

if (mode !== undefined) {
  describe(`the flows of a session with two APIs (${mode})`, function () {
    let installation: Installation;
    let agent: string;
    const watchers: Watcher[] = [];
    before(async () => {
      installation = await startInstallation(mode, { workers: ['one'] });
      await installation.start('api-2');
      for (const [name, risk_level] of Object.entries(RISKS)) {
        const transport = { type: 'http', endpoint: `${installation.world.url}/${name}` };
        await at('api', ['POST', '/v1/tools'], { name, description: 'A tool.', risk_level, transport });
      }
      agent = (await at('api', ['POST', '/v1/agents'], { name: 'copilot', tools: Object.keys(RISKS) })).json.id;
    });
    after(() => installation.close());
    afterEach(() => {
      for (const { socket } of watchers.splice(0)) socket.terminate();
    });

    const at = (api: Api, [method, path]: readonly [method: string, path: string], body?: unknown) =>
      request(`${installation.url(api)}${path}`, method, {
        key: installation.key,
        ...(body !== undefined && { body }),
      });
    const post = async (api: Api, path: string, { expected = 200, ...body }: Record<string, unknown>) => {
      const answer = await at(api, ['POST', path], body);
      assert.equal(answer.status, expected, answer.text);
      return answer.json;
    };
    const begin = (message: string) => {
      const body = { message, session_id: null, character_id: CHARACTER, agent_id: agent };
      return post('api', '/agent/chat', { ...body, expected: 202 });
    };
    const say = (api: Api, session_id: string, message: string) =>
      post(api, '/agent/chat', { message, session_id, character_id: CHARACTER, expected: 202 });
    const read = async (api: Api, session: string) => (await at(api, ['GET', `/agent/session/${session}`])).json;
    /** One client at each API, from the session's beginning. */
    /** From the session's beginning on: what has happened before the socket has asked for that has come already, and comes again. */
    const replayed = (frames: readonly Frame[]): Frame[] => {
      const beginning = frames.findLastIndex(({ type }) => type === 'session_created');
      return beginning === -1 ? [] : frames.slice(beginning);
    };
    const watch = async (session: string) => {
      const headers = { authorization: `Bearer ${installation.key}` };
      const opened = await Promise.all(
        APIS.map((api) => watchSession({ url: installation.url(api), session, headers, after: 0 })),
      );
      watchers.push(...opened);
      return {
        /** What both have seen, which is the same: one of them may have seen more by now. */
        async upTo(what: string, holds: (frames: readonly Frame[]) => boolean): Promise<Frame[]> {
          await Promise.all(opened.map((each) => each.until(what, (frames) => holds(replayed(frames)))));
          const seen = opened.map(({ frames }) => replayed(frames).filter(({ seq }) => seq !== undefined));
          const [here, there] = seen.map((frames) => frames.slice(0, Math.min(...seen.map(({ length }) => length))));
          assert.deepEqual(here, there);
          return here ?? [];
        },
      };
    };
    const fieldsOf = ({ payload }: Frame) => Object.keys(payload).toSorted();

    it('a plan that only reads is carried out at once, and seen step by step', async () => {
      const calls = [
        `get_war_summary {"label":"${randomUUID()}"}`,
        'get_combat_losses {"region_id":10000002}',
        'get_top_destroyed_ships {}',
        'get_material_requirements {"type_ids":[587]}',
        'get_regional_comparison {}',
      ];
      const message = `call ${calls.join(' & ')} | say Major battles in Vale of the Silent.`;
      const begun = await begin(message);
      assert.ok(['planning', 'executing'].includes(begun.status), begun.status);
      const watched = await watch(begun.session_id);
      const frames = await watched.upTo('the end', last('completed'));
      const steps = new Set(['tool_call_started', 'tool_call_completed']);
      assert.deepEqual(
        typesOf(frames).filter((type) => !steps.has(type)),
        ['session_created', 'planning_started', 'plan_proposed', 'execution_started', 'answer_ready', 'completed'],
      );
      const [proposed] = frames.filter(({ type }) => type === 'plan_proposed');
      assert.ok(proposed);
      assert.equal(proposed.auto_executing, true);
      assert.deepEqual(fieldsOf(proposed), ['max_risk_level', 'purpose', 'steps', 'tool_count']);
      assert.deepEqual([proposed.payload.max_risk_level, proposed.payload.tool_count], ['READ_ONLY', 5]);
      for (const [index, step] of proposed.payload.steps.entries()) {
        const of = frames.filter(({ type, payload }) => steps.has(type) && payload.step_index === index);
        assert.deepEqual(typesOf(of), ['tool_call_started', 'tool_call_completed']);
        assert.ok(of.every(({ payload, plan_id }) => payload.tool === step.tool && plan_id === proposed.plan_id));
        assert.deepEqual(of[0]?.payload.arguments, step.arguments);
      }
      const [ready] = frames.filter(({ type }) => type === 'answer_ready');
      assert.deepEqual(
        [ready?.payload.answer, ready?.payload.tool_calls_count],
        ['Major battles in Vale of the Silent.', 5],
      );
      const now = await read('api-2', begun.session_id);
      assert.deepEqual([now.status, now.character_id, now.autonomy_level], ['completed', CHARACTER, 1]);
      assert.deepEqual(now.messages[0], { role: 'user', content: message });
    });

    it('a plan that writes waits, is refined and approved at the other API, once, and is carried out once', async () => {
      const label = randomUUID();
      const plan = (n: number) =>
        `call search_item {} & create_shopping_list {"label":"${label} ${n}","ms":1500} & add_shopping_items {} & get_regional_comparison {}`;
      const { session_id } = await begin(`${plan(1)} | ${plan(2)} | say Created.`);
      const watched = await watch(session_id);
      const asks = (times: number) => (frames: readonly Frame[]) =>
        frames.filter(({ type }) => type === 'waiting_for_approval').length === times;
      await watched.upTo('the plan waits', asks(1));
      const waiting = await read('api-2', session_id);
      assert.equal(waiting.status, 'waiting_approval');
      const { plan_id: refused, steps, max_risk_level } = waiting.pending_plan;
      assert.deepEqual([max_risk_level, steps.length], ['WRITE_LOW_RISK', 4]);
      await post('api-2', '/agent/refine', { session_id, plan_id: refused, feedback: 'Fewer of them.', expected: 202 });
      await watched.upTo('another plan waits', asks(2));
      await post('api', '/agent/execute', { session_id, plan_id: refused, expected: 409 });
      const { plan_id } = (await read('api', session_id)).pending_plan;
      assert.notEqual(plan_id, refused);
      const body = { session_id, plan_id };
      const answers = await Promise.all(APIS.map((api) => at(api, ['POST', '/agent/execute'], body)));
      assert.deepEqual(
        answers.map(({ status }) => status).toSorted((left, right) => left - right),
        [200, 409],
      );
      const frames = await watched.upTo('the end', last('completed'));
      const about = ['plan_proposed', 'plan_refined', 'plan_approved', 'answer_ready', 'execution_started'];
      assert.deepEqual(
        typesOf(frames).filter((type) => about.includes(type)),
        ['plan_proposed', 'plan_refined', 'plan_proposed', 'plan_approved', 'execution_started', 'answer_ready'],
      );
      assert.deepEqual(
        frames.filter(({ type }) => type === 'plan_proposed').map((frame) => frame.auto_executing),
        [false, false],
      );
      const { result, status } = await post('api-2', '/agent/execute', body);
      assert.deepEqual([result, status], ['Created.', 'completed']);
      const made = [1, 2].map((n) => installation.world.deliveries(`${label} ${n}`).length);
      assert.deepEqual(made, [0, 1]);
    });

    it('of two messages that come at two APIs while it executes the newer one is answered, also where it is interrupted', async () => {
      const label = randomUUID();
      const { session_id } = await begin(`call get_war_summary {"label":"${label}","ms":600000} | say never`);
      const watched = await watch(session_id);
      await waitUntil('the tool is called', () => installation.world.deliveries(label).length === 1);
      await say('api-2', session_id, 'say first');
      const queued = await say('api', session_id, 'say And in Dodixie?');
      assert.equal(queued.status, 'executing_queued');
      const now = await read('api-2', session_id);
      assert.deepEqual([now.status, now.queued_message], ['executing_queued', 'say And in Dodixie?']);
      const stopped = await post('api-2', '/agent/interrupt', { session_id });
      assert.deepEqual([stopped.status, stopped.queued_message], ['interrupted', 'say And in Dodixie?']);
      const frames = await watched.upTo('the answer to the newer one', last('completed'));
      const previews = frames.filter(({ type }) => type === 'message_queued').map(({ payload }) => payload);
      assert.deepEqual(
        previews.map((payload) => [payload.queued_message_preview, payload.will_process_after]),
        [
          ['say first', 'current execution completes'],
          ['say And in Dodixie?', 'current execution completes'],
        ],
      );
      assert.deepEqual(typesOf(frames.slice(typesOf(frames).indexOf('interrupted'))), [
        'interrupted',
        'session_resumed',
        'planning_started',
        'answer_ready',
        'completed',
      ]);
      assert.equal(frames.at(-2)?.payload.answer, 'And in Dodixie?');
      assert.equal(installation.model.asked('say first').length, 0);
      const nothing = await post('api', '/agent/interrupt', { session_id });
      assert.deepEqual([nothing.status, nothing.queued_message], ['completed', undefined]);
    });

    it('of decisions on one plan that come at two APIs at once one counts, and both show what has come of it', async () => {
      const label = randomUUID();
      const { session_id } = await begin(`call add_shopping_items {"label":"${label}"} | say bought`);
      const watched = await watch(session_id);
      await watched.upTo('the plan waits', (frames) => typesOf(frames).includes('waiting_for_approval'));
      const { plan_id } = (await read('api', session_id)).pending_plan;
      const answers = await Promise.all(
        APIS.flatMap((api) => [
          at(api, ['POST', '/agent/execute'], { session_id, plan_id }),
          at(api, ['POST', '/agent/reject'], { session_id, plan_id, reason: 'Too expensive' }),
          at(api, ['POST', '/agent/refine'], { session_id, plan_id, feedback: 'Fewer of them' }),
        ]),
      );
      // The same decision again is no other one.
      const kinds = answers.flatMap(({ status, json }, n) => (status < 300 ? [`${n % 3} ${json.status}`] : []));
      assert.ok(new Set(kinds.map((kind) => kind[0])).size === 1, answers.map(({ text }) => text).join());
      assert.ok(answers.every(({ status }) => [200, 202, 409].includes(status)));
      const decisions = new Set(['plan_approved', 'plan_rejected', 'plan_refined']);
      const frames = await watched.upTo('the decision', (seen) => typesOf(seen).some((type) => decisions.has(type)));
      assert.equal(typesOf(frames).filter((type) => decisions.has(type)).length, 1);
      await post('api', '/agent/interrupt', { session_id });
      assert.ok(installation.world.deliveries(label).length <= 1);
      // What was under way at the interrupt still ends between one look and the other.
      await waitUntil('both show the same', async () =>
        isDeepStrictEqual(await read('api', session_id), await read('api-2', session_id)),
      );
    });

    it('a plan is rejected at one API, a session deleted at the other: both close its WebSockets', async () => {
      const { session_id } = await begin('call add_shopping_items {}');
      const watched = await watch(session_id);
      await watched.upTo('the plan waits', (frames) => typesOf(frames).includes('waiting_for_approval'));
      const { plan_id } = (await read('api-2', session_id)).pending_plan;
      const rejected = await post('api-2', '/agent/reject', { session_id, plan_id, reason: 'Too expensive' });
      assert.equal(rejected.status, 'idle');
      const frames = await watched.upTo('the refusal', (seen) => typesOf(seen).includes('plan_rejected'));
      assert.match(frames.find(({ type }) => type === 'plan_rejected')?.payload.reason ?? '', /Too expensive/);
      await waitUntil(
        'it is idle at the other API, too',
        async () => (await read('api', session_id)).status === 'idle',
      );
      const gone = await at('api-2', ['DELETE', `/agent/session/${session_id}`]);
      assert.deepEqual([gone.status, gone.json], [200, { message: 'Session deleted', archived: true }]);
      assert.deepEqual(await Promise.all(watchers.map(({ closed }) => closed)), [4010, 4010]);
      assert.equal(
        (await at('api', ['POST', '/agent/chat'], { message: 'say x', session_id, character_id: CHARACTER })).status,
        409,
      );
    });
  });
}
