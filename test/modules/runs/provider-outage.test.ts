import assert from 'node:assert/strict';
import { presentRun } from '../../../api/runs/schemas.ts';
import { LIMITS } from '../../../core/limits.ts';
import { enterModel, leaveProbes, noteModelOutage } from '../../../db/model-outages.ts';
import { findRun } from '../../../db/runs.ts';
import { newId } from '../../../lib/new-id.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { wakeParkedRuns } from '../../../modules/runs/wake-parked.ts';
import { door, openEngine, text, type Engine } from '../../support/engine.ts';
import type { AnthropicReply, AnthropicRequest } from '../../support/fake-anthropic.ts';
import { DOMAIN_MODES } from '../../support/modes.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { reservationsOfRun } from '../../support/queries/budgets.ts';
import { backdateDeferral } from '../../support/queries/logs.ts';
import {
  ageOutages,
  endParking,
  endProbes,
  failuresOfOutages,
  forgetOutages,
  leaveOutages,
  makeOutagesDue,
  makeOutagesLong,
  parkedRuns,
} from '../../support/queries/model-calls.ts';
import { holdOfRun, turnsOfRun, unfinishedRuns } from '../../support/queries/runs.ts';

const AWAY: AnthropicReply = { error: { status: 500, type: 'api_error', message: 'boom', headers: QUICK() } };

/** The quick attempts follow each other at once. */
function QUICK() {
  return { 'retry-after-ms': '0' };
}

for (const mode of DOMAIN_MODES) {
  describe(`a run whose provider is away (${mode})`, () => {
    let engine: Engine;
    let agent: string;

    before(async () => {
      engine = await openEngine(mode);
      agent = await engine.agent();
    });
    afterEach(async () => {
      const open = await unfinishedRuns(engine);
      for (const { id } of open) await cancelRun(engine.context, { tenantId: engine.tenantId, runId: id });
      await forgetOutages(engine.context.db);
    });
    after(() => engine.close());

    const shown = async (run: string) => {
      const row = await engine.context.db.withTenant(engine.tenantId, (tx) => findRun(tx, run));
      assert.ok(row);
      return presentRun(row);
    };
    const events = async (run: string, ...types: string[]) =>
      (await engine.log(run)).filter(({ type }) => types.includes(type));
    const modelEvents = async (run: string) =>
      (await engine.log(run)).flatMap(({ type }) => (type.startsWith('model.') ? [type.slice(6)] : []));
    const held = (run: string) => holdOfRun(engine, run);
    const dueNow = () => makeOutagesDue(engine);
    const isDormant = async (run: string) => (await held(run)).dormant;

    it('parks after its quick attempts: dormant, without a lease or a job, its turn running, and says why', async () => {
      engine.say(() => AWAY);
      const { run } = await engine.start(agent, 'hello', { config: { budget: { max_tokens: 100_000 } } });
      assert.equal(await engine.drive(run), 'dormant');
      assert.equal(engine.model.requests.length, 3);
      assert.deepEqual(await held(run), { status: 'executing', dormant: true, lease: null });
      assert.deepEqual(await modelEvents(run), ['called', 'retried', 'retried', 'failed', 'deferred']);
      const { status, waiting_for: waiting } = await shown(run);
      assert.deepEqual([status, waiting?.type, waiting?.error?.code], ['executing', 'provider', 'unavailable']);
      assert.match(waiting?.error?.message ?? '', /boom/);
      assert.ok(Date.parse(waiting?.next_at ?? '') > Date.parse(waiting?.since ?? ''));
      const day = Date.parse(waiting?.until ?? '') - Date.parse(waiting?.since ?? '');
      assert.equal(Math.round(day / 1000), 86_400);
      const [turn] = await turnsOfRun(engine, run);
      assert.equal(turn?.status, 'running');
      assert.deepEqual(
        (await reservationsOfRun(engine, run)).map(({ state }) => state),
        ['released'],
      );
    });

    it('is asked next at no time that is over, also while another run asks', async () => {
      engine.say(() => AWAY);
      const { run } = await engine.start(agent, 'hello');
      assert.equal(await engine.drive(run), 'dormant');
      await dueNow();
      const before = Date.now();
      const { waiting_for: waiting } = await shown(run);
      assert.ok(Date.parse(waiting?.next_at ?? '') >= before, waiting?.next_at);
    });

    it('lets one of all that wait ask, and each of them goes on once it is answered', async () => {
      engine.say(() => AWAY);
      const runs = await Promise.all(Array.from({ length: 5 }, () => engine.start(agent, 'hello')));
      const [first, ...others] = runs;
      assert.equal(await engine.drive(first?.run ?? ''), 'dormant');
      const [second, ...later] = others;
      assert.equal(await engine.drive(second?.run ?? ''), 'dormant');
      await makeOutagesLong(engine);
      for (const { run } of later) assert.equal(await engine.drive(run), 'dormant');
      assert.equal(engine.model.requests.length, 6, 'once two have found it away, nobody else asks');
      assert.equal(await wakeParkedRuns(engine.context), 0, 'before its time nobody asks');
      await dueNow();
      assert.equal(await wakeParkedRuns(engine.context), 1);
      assert.equal(await wakeParkedRuns(engine.context), 0, 'one asks for all');
      const woken = await firstAwake(runs);
      engine.say(() => AWAY);
      assert.equal(await engine.drive(woken), 'dormant');
      assert.equal(engine.model.requests.length, 1, 'a probe is one request');
      await dueNow();
      assert.equal(await wakeParkedRuns(engine.context), 1);
      engine.say(() => text('back'));
      const probe = await firstAwake(runs);
      assert.equal(await engine.drive(probe), 'dormant');
      assert.equal((await held(probe)).status, 'completed');
      assert.equal(await wakeParkedRuns(engine.context), 4);
      for (const { run } of runs) await engine.finish(run);
      for (const { run } of runs) {
        assert.equal((await held(run)).status, 'completed');
        const [resumed] = await events(run, 'model.resumed');
        assert.ok(resumed?.type === 'model.resumed' && resumed.payload.waited_ms >= 0);
        assert.equal((await shown(run)).waiting_for, undefined);
      }
      assert.equal(engine.model.requests.length, 5);
      assert.deepEqual(await parkedRuns(engine), []);
    });

    const firstAwake = async (runs: readonly { run: string }[]) => {
      for (const { run } of runs) if (!(await isDormant(run)) && (await held(run)).status === 'executing') return run;
      throw new Error('no run is awake');
    };

    it('asks for all, and nobody else does meanwhile, however long ago that was due', async () => {
      const { db } = engine.context;
      const [one, other] = [newId(), newId()];
      const enter = (runId: string) => enterModel(db, { outage: 'o', rateLimiter: 'o', runId, probeMs: 60_000 });
      const problem = { code: 'unavailable', message: 'boom' };
      for (const runId of [one, other])
        await noteModelOutage(db, { outage: 'o', runId, problem, leastMs: 0, mostMs: 1 });
      await waitUntil('it is due', async () => (await enter(one)).kind === 'probe');
      assert.equal((await enter(other)).kind, 'away');
      await leaveProbes(db, one);
      assert.equal((await enter(other)).kind, 'probe');
    });

    /** So many runs, which wait for the provider. */
    const parkAll = async (count: number) => {
      engine.say(() => AWAY);
      const runs = await Promise.all(Array.from({ length: count }, () => engine.start(agent, 'hello')));
      for (const { run } of runs) assert.equal(await engine.drive(run), 'dormant');
      return runs.map(({ run }) => run);
    };
    /** One of them asks for all, and hears nothing until the door is opened. */
    const asksInSilence = async (runs: readonly string[], reply: AnthropicReply) => {
      const silence = door();
      engine.say(async () => {
        await silence.pass();
        return reply;
      });
      const run = await wakeOne(runs);
      const drive = engine.drive(run);
      await silence.reached;
      return { run, open: silence.open, drive, others: runs.filter((each) => each !== run) };
    };
    const wakeOne = async (runs: readonly string[]) => {
      assert.equal(await wakeParkedRuns(engine.context), 1);
      return firstAwake(runs.map((run) => ({ run })));
    };

    it('keeps others waiting for a short time only where its request for all is not answered: the next one asks then', async () => {
      const runs = await parkAll(3);
      await dueNow();
      const silent = await asksInSilence(runs, text('late'));
      await ageOutages(engine, LIMITS.outageProbeMs / 2);
      assert.equal(await wakeParkedRuns(engine.context), 0, 'one asks for all');
      await ageOutages(engine, LIMITS.outageProbeMs / 2);
      engine.say(() => text('back'));
      const second = await wakeOne(silent.others);
      assert.equal(await wakeParkedRuns(engine.context), 0, 'no more than one asks besides');
      await engine.drive(second);
      assert.equal((await held(second)).status, 'completed');
      assert.equal(await wakeParkedRuns(engine.context), 1, 'the last one goes on, although the first still waits');
      silent.open();
      await silent.drive;
      for (const run of runs) await engine.finish(run);
      for (const run of runs) assert.equal((await held(run)).status, 'completed');
    });

    it('ends the outage for all with its late answer, although another asks by now', async () => {
      const runs = await parkAll(3);
      await dueNow();
      const first = await asksInSilence(runs, text('late'));
      await endProbes(engine);
      const second = await asksInSilence(first.others, text('later'));
      first.open();
      await first.drive;
      assert.equal((await held(first.run)).status, 'completed');
      assert.equal(await wakeParkedRuns(engine.context), 1);
      second.open();
      await second.drive;
      assert.equal((await held(second.run)).status, 'completed');
    });

    it('counts as one more failure where it fails late, and lets nobody ask beside the one that asks by now', async () => {
      const runs = await parkAll(3);
      await dueNow();
      const first = await asksInSilence(runs, AWAY);
      await endProbes(engine);
      const second = await asksInSilence(first.others, text('back'));
      const [before] = await failuresOfOutages(engine);
      first.open();
      assert.equal(await first.drive, 'dormant');
      const [now] = await failuresOfOutages(engine);
      assert.equal(now?.failures, (before?.failures ?? 0) + 1);
      await dueNow();
      assert.equal(await wakeParkedRuns(engine.context), 0);
      second.open();
      await second.drive;
      assert.equal((await held(second.run)).status, 'completed');
      assert.equal(await wakeParkedRuns(engine.context), 2);
    });

    it('keeps nobody waiting where it fails after another was answered, and asks by itself from then on', async () => {
      const runs = await parkAll(3);
      await dueNow();
      const first = await asksInSilence(runs, AWAY);
      await endProbes(engine);
      const second = await asksInSilence(first.others, AWAY);
      await endProbes(engine);
      engine.say(() => text('back'));
      const third = await wakeOne(second.others);
      await engine.drive(third);
      assert.equal((await held(third)).status, 'completed');
      for (const late of [first, second]) {
        late.open();
        assert.equal(await late.drive, 'dormant');
      }
      await makeOutagesLong(engine);
      const { run: next } = await engine.start(agent, 'hello');
      await engine.drive(next);
      assert.equal((await held(next)).status, 'completed', 'it is not kept waiting');
      await dueNow();
      assert.equal(await wakeParkedRuns(engine.context), 2);
      for (const { run } of [first, second]) await engine.finish(run);
      for (const { run } of [first, second]) assert.equal((await held(run)).status, 'completed');
    });

    it('is asked for by another when the one that was to ask is cancelled', async () => {
      engine.say(() => AWAY);
      const runs = await Promise.all(Array.from({ length: 2 }, () => engine.start(agent, 'hello')));
      for (const { run } of runs) await engine.drive(run);
      await dueNow();
      await wakeParkedRuns(engine.context);
      await cancelRun(engine.context, { tenantId: engine.tenantId, runId: await firstAwake(runs) });
      await endProbes(engine);
      assert.equal(await wakeParkedRuns(engine.context), 1);
      engine.say(() => text('back'));
      const other = await firstAwake(runs);
      await engine.finish(other);
      assert.equal((await held(other)).status, 'completed');
    });

    it('asks by itself, and keeps nobody waiting, where the provider fails at its request alone', async () => {
      const byMessage = (request: AnthropicRequest) =>
        JSON.stringify(request.messages).includes('poison') ? AWAY : text('fine');
      engine.say(byMessage);
      const { run: poison } = await engine.start(agent, 'poison');
      const { run: other } = await engine.start(agent, 'hello');
      assert.equal(await engine.drive(poison), 'dormant');
      await makeOutagesLong(engine);
      await engine.drive(other);
      assert.equal((await held(other)).status, 'completed', 'what one run alone has met is none for others');
      assert.equal((await shown(poison)).waiting_for?.type, 'provider');
      const { run: third } = await engine.start(agent, 'hello');
      await engine.drive(third);
      assert.equal((await held(third)).status, 'completed', 'it is not kept waiting');
      assert.equal(await wakeParkedRuns(engine.context), 1);
      assert.equal(await engine.drive(poison), 'dormant');
      await makeOutagesLong(engine);
      await engine.drive((await engine.start(agent, 'hello')).run);
      assert.equal(await wakeParkedRuns(engine.context), 0, 'at its own pace, although others were answered');
      await dueNow();
      assert.equal(await wakeParkedRuns(engine.context), 1);
      engine.say(() => text('well'));
      await engine.drive(poison);
      assert.equal((await held(poison)).status, 'completed');
    });

    it('leaves the others their quick attempts where it alone has met the outage, and asks itself when it is time', async () => {
      let failures = 1;
      engine.say((request) => {
        const isPoison = JSON.stringify(request.messages).includes('poison');
        return isPoison || failures-- > 0 ? AWAY : text('fine');
      });
      const { run: poison } = await engine.start(agent, 'poison');
      assert.equal(await engine.drive(poison), 'dormant');
      await dueNow();
      const { run: other } = await engine.start(agent, 'hello');
      await engine.drive(other);
      assert.deepEqual(await modelEvents(other), ['called', 'retried', 'responded']);
      assert.equal(await wakeParkedRuns(engine.context), 1);
      assert.equal(await isDormant(poison), false);
    });

    it('is no second one beside one that waits no more', async () => {
      engine.say((request) => (JSON.stringify(request.messages).includes('poison') ? AWAY : text('fine')));
      const { run: gone } = await engine.start(agent, 'poison');
      assert.equal(await engine.drive(gone), 'dormant');
      await cancelRun(engine.context, { tenantId: engine.tenantId, runId: gone });
      await leaveOutages(engine);
      const { run: poison } = await engine.start(agent, 'poison');
      assert.equal(await engine.drive(poison), 'dormant');
      await makeOutagesLong(engine);
      const { run: third } = await engine.start(agent, 'hello');
      await engine.drive(third);
      assert.equal((await held(third)).status, 'completed', 'it is not kept waiting');
    });

    it('is no second one where another was answered since the first had failed, and goes on with it', async () => {
      const hasty = await engine.agent({ execution_config: { provider_outage_seconds: 0 } });
      const failing = async (by: string) => {
        engine.say(() => AWAY);
        const { run } = await engine.start(by, 'hello');
        assert.equal(await engine.drive(run), 'dormant');
        return { run, requests: engine.model.requests.length };
      };
      const answered = async () => {
        engine.say(() => text('fine'));
        const { run } = await engine.start(agent, 'hello');
        await engine.drive(run);
        assert.equal((await held(run)).status, 'completed');
      };
      const waits = await failing(agent);
      await makeOutagesLong(engine);
      await answered();
      assert.equal(await wakeParkedRuns(engine.context), 1, 'it waits no more');
      await engine.drive(waits.run);
      assert.equal((await held(waits.run)).status, 'completed');
      assert.equal((await failing(hasty)).requests, 3);
      await answered();
      for (const requests of [3, 3, 0]) assert.equal((await failing(hasty)).requests, requests, 'two in a row are one');
    });

    it('asks by itself where others were answered that had met the outage, too', async () => {
      engine.say(() => AWAY);
      const { run: poison } = await engine.start(agent, 'poison');
      const { run: other } = await engine.start(agent, 'hello');
      for (const run of [poison, other]) assert.equal(await engine.drive(run), 'dormant');
      engine.say((request) => (JSON.stringify(request.messages).includes('poison') ? AWAY : text('fine')));
      for (const asks of [poison, other]) {
        await dueNow();
        assert.equal(await wakeParkedRuns(engine.context), 1);
        assert.equal(await isDormant(asks), false, 'those that wait ask in turn');
        await engine.drive(asks);
      }
      assert.equal((await held(other)).status, 'completed');
      assert.equal(await wakeParkedRuns(engine.context), 1);
      assert.equal(await engine.drive(poison), 'dormant');
      const { run: third } = await engine.start(agent, 'hello');
      await engine.drive(third);
      assert.equal((await held(third)).status, 'completed', 'it is not kept waiting');
    });

    it('asks a fallback model meanwhile, and waits only where none answers', async () => {
      const llm_config = { default_model: 'claude-sonnet-5', fallback_model: 'claude-haiku-4-5' };
      const careful = await engine.agent({ llm_config });
      engine.say((request) => (request.model === 'claude-sonnet-5' ? AWAY : text('I can')));
      const first = await engine.start(careful, 'hello');
      await engine.finish(first.run);
      assert.deepEqual(await modelEvents(first.run), [
        'called',
        'retried',
        'retried',
        'failed',
        'fell_back',
        'responded',
      ]);
      const second = await engine.start(careful, 'hello');
      engine.say((request) => (request.model === 'claude-sonnet-5' ? AWAY : text('I can')));
      await engine.finish(second.run);
      assert.deepEqual(engine.model.requests.map(({ body }) => body['model']).slice(-1), ['claude-haiku-4-5']);
      engine.say(() => AWAY);
      const third = await engine.start(careful, 'hello');
      assert.equal(await engine.drive(third.run), 'dormant');
      assert.equal((await shown(third.run)).waiting_for?.type, 'provider');
    });

    it('fails past the time that its agent gives, with the setting and the last error', async () => {
      const hasty = await engine.agent({ execution_config: { provider_outage_seconds: 0 } });
      engine.say(() => AWAY);
      const { run } = await engine.start(hasty, 'hello');
      assert.equal(await engine.drive(run), 'dormant');
      const { status, error } = await shown(run);
      assert.deepEqual([status, error?.code], ['failed', 'provider_unavailable']);
      assert.match(error?.message ?? '', /execution_config\.provider_outage_seconds.*boom/s);
    });

    it('is woken at the end of that time, and fails', async () => {
      engine.say(() => AWAY);
      const { run } = await engine.start(agent, 'hello');
      await engine.drive(run);
      await endParking(engine, run);
      await backdateDeferral(engine, run);
      assert.equal(await wakeParkedRuns(engine.context), 1);
      assert.equal(await engine.drive(run), 'dormant');
      const { status, error, waiting_for: waiting } = await shown(run);
      assert.deepEqual([status, error?.code, waiting], ['failed', 'provider_unavailable', undefined]);
    });

    it('fails at once where the key or the model is wrong, and says what to do', async () => {
      const wrong: [AnthropicReply, RegExp][] = [
        [{ error: { status: 401, type: 'authentication_error', message: 'invalid x-api-key' } }, /ANTHROPIC_API_KEY/],
        [{ error: { status: 404, type: 'not_found_error', message: 'model: claude-x' } }, /default_model/],
      ];
      for (const [reply, advice] of wrong) {
        engine.say(() => reply);
        const { run } = await engine.start(agent, 'hello');
        assert.equal(await engine.drive(run), 'dormant');
        assert.equal(engine.model.requests.length, 1);
        const { status, error } = await shown(run);
        assert.deepEqual([status, error?.code], ['failed', 'provider_rejected']);
        assert.match(error?.message ?? '', advice);
      }
    });
  });
}
