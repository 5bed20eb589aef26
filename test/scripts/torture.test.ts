import assert from 'node:assert/strict';
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import type { RunEvent } from '../../core/events.ts';
import type { Delivery } from '../../scripts/torture/effect-server.ts';
import { compareConversations } from '../../scripts/torture/examine-conversations.ts';
import { findRepeated, findUnknownViolations, type Findings } from '../../scripts/torture/examine.ts';
import { findForgotten } from '../../scripts/torture/examine-sessions.ts';
import { KILL_POINTS } from '../../scripts/torture/kill-points.ts';
import { judgeMemory, planLessons, submitted } from '../../scripts/torture/memory.ts';
import { judgeAsking, type SeenAsking } from '../../scripts/torture/examine-people.ts';
import { planAskings } from '../../scripts/torture/people.ts';
import { planRuns, renamed, type PlannedRun } from '../../scripts/torture/plan.ts';
import { describeOutcome, violationsOf, type Outcome } from '../../scripts/torture/report.ts';
import { FAULT_KINDS, makeSchedule } from '../../scripts/torture/schedule.ts';
import { planSessions } from '../../scripts/torture/sessions.ts';
import { MODES, TEST_DATABASE_URL, TEST_REDIS_URL } from '../support/modes.ts';
import { programOf } from '../support/processes.ts';
import { sized } from '../support/size.ts';
import { waitUntil } from '../support/wait-until.ts';

const RUNS = sized({ usual: 8, nightly: 40 });
const SECONDS = sized({ usual: '6', nightly: '60' });
const OWN = { forMs: 60_000, leaseMs: 2000, redis: true, ownServices: true, modelOutages: true };

describe('Conversations after a torture', () => {
  const usage = { input: 1, output: 7, thinking: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };
  const log = [
    { type: 'turn.started', turn_id: 't', payload: {} },
    { type: 'model.responded', turn_id: 't', payload: { usage } },
    { type: 'turn.completed', turn_id: 't', payload: { stop_reason: 'end_turn' } },
  ] as unknown as RunEvent[];
  const shown = {
    row: { id: 't', run_id: 'r', stop_reason: 'end_turn' },
    messages: [{ role: 'assistant' as const, content: [] }],
    usage: { input_tokens: 1, output_tokens: 7, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
  };

  it('are found out where they say something else than the log', () => {
    assert.deepEqual(compareConversations([shown], log), []);
    assert.equal(compareConversations([], log).length, 1);
    assert.equal(compareConversations([{ ...shown, messages: [] }], log).length, 1);
    assert.equal(compareConversations([{ ...shown, usage: { ...shown.usage, output_tokens: 8 } }], log).length, 1);
    assert.equal(compareConversations([{ ...shown, row: { ...shown.row, stop_reason: null } }], log).length, 1);
  });
});

describe('The schedule of a torture', () => {
  it('is the same for the same seed, and another one for another', () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat(), (seed, other) => {
        assert.deepEqual(makeSchedule(seed, OWN), makeSchedule(seed, OWN));
        const work = { runs: 5, withinMs: 1000, leaseMs: 2000, threads: true, hugeOutputs: true };
        assert.deepEqual(planRuns(seed, work), planRuns(seed, work));
        if (seed !== other) assert.notDeepEqual(makeSchedule(seed, OWN), makeSchedule(other, OWN));
      }),
    );
  });

  it('has every kind of fault within a minute, in order', () => {
    const faults = makeSchedule(1, OWN);
    assert.deepEqual(new Set(faults.map(({ kind }) => kind)), new Set(FAULT_KINDS));
    const times = faults.map(({ atMs }) => atMs);
    assert.deepEqual(
      times,
      times.toSorted((a, b) => a - b),
    );
  });

  it('has every point at which a process dies within some minutes, and the docs list them', () => {
    const points = makeSchedule(1, { ...OWN, forMs: 600_000 }).flatMap(({ point }) => point?.name ?? []);
    const docs = readFileSync('docs/torture.md', 'utf8');
    for (const { name, kind } of KILL_POINTS) {
      assert.ok(points.includes(name), name);
      assert.ok(docs.includes(`| ${name} | ${kind === 'api' ? 'API' : kind} |`), name);
    }
  });

  it('freezes for longer than a lease', () => {
    for (const { kind, forMs } of makeSchedule(1, OWN)) if (kind === 'freeze worker') assert.ok(forMs > OWN.leaseMs);
  });

  it('isolates a worker for longer than a lease', () => {
    const isolations = makeSchedule(1, OWN).filter(({ kind }) => kind === 'isolate worker');
    assert.ok(isolations.length > 0);
    for (const { forMs } of isolations) assert.ok(forMs > OWN.leaseMs);
  });

  it('leaves the model alone beside a release that does not bear its absence', () => {
    const kinds = makeSchedule(1, { ...OWN, modelOutages: false, forMs: 600_000 }).map(({ kind }) => kind);
    assert.ok(!kinds.includes('model outage'));
  });

  it('leaves services alone that were given, and Redis if there is none', () => {
    const given = makeSchedule(1, { ...OWN, ownServices: false, forMs: 600_000 }).map(({ kind }) => kind);
    assert.ok(given.includes('cut redis'));
    assert.deepEqual(
      given.filter((kind) => /^(restart|flush)/.test(kind)),
      [],
    );
    const without = makeSchedule(1, { ...OWN, redis: false, forMs: 600_000 }).map(({ kind }) => kind);
    assert.ok(without.includes('restart postgres'));
    assert.deepEqual(
      without.filter((kind) => kind.endsWith('redis')),
      [],
    );
  });
});

describe('The runs of a torture', () => {
  it('come three to a thread here and there, unless they shall not', () => {
    const work = { runs: 10, withinMs: 1000, leaseMs: 2000, hugeOutputs: false };
    const followed = (threads: boolean) => planRuns(1, { ...work, threads }).map(({ follows }) => follows);
    assert.deepEqual(
      followed(true).flatMap((label, index) => (label === undefined ? [] : [[label, `run-${index + 1}`]])),
      [
        ['run-3', 'run-4'],
        ['run-4', 'run-5'],
        ['run-8', 'run-9'],
        ['run-9', 'run-10'],
      ],
    );
    assert.deepEqual(new Set(followed(false)), new Set([undefined]));
  });
});

describe('The tools of a torture', () => {
  it('answer with megabytes here and there, unless they shall not', () => {
    const work = { runs: 50, withinMs: 1000, leaseMs: 2000, threads: true };
    const huge = (hugeOutputs: boolean) =>
      planRuns(1, { ...work, hugeOutputs }).flatMap(({ steps }) =>
        steps.flatMap(({ calls }) => calls.flatMap(({ input }) => ('intent' in input ? (input.bytes ?? []) : []))),
      );
    assert.ok(huge(true).length >= 3);
    assert.ok(huge(true).every((bytes) => bytes >= 1024 * 1024));
    assert.deepEqual(huge(false), []);
  });
});

describe('The sessions of a torture', () => {
  it('are the same for the same seed, and end with a message that waits for its turn', () => {
    fc.assert(
      fc.property(fc.nat(), (seed) => {
        const sessions = planSessions(seed, { runs: 20, withinMs: 1000 });
        assert.deepEqual(sessions, planSessions(seed, { runs: 20, withinMs: 1000 }));
        for (const { messages } of sessions) {
          assert.ok(messages.length > 1);
          assert.deepEqual([messages.at(-1)?.mode, messages.at(-1)?.interruptsAfterMs], ['queue', undefined]);
        }
      }),
    );
  });
});

describe('The people of a torture', () => {
  const wire = (intent: string) => ({ tool: 'wire' as const, input: { intent, ms: 1, fault: 'none' as const } });
  const ask = (question: string) => ({ tool: 'ask_user' as const, input: { question } });
  const steps = [[ask('q1')], [wire('a'), wire('b')], [ask('q2')], [wire('c'), wire('d')]].map((calls) => {
    return { calls, thinkMs: 0, breaks: false };
  });
  const verdicts = { a: 'approve', b: 'deny', c: 'edit', d: 'contest' } as const;
  const seen: SeenAsking = {
    plan: { label: 'asking-1', steps, startAtMs: 0, early: false, verdicts },
    decided: Object.entries(verdicts).map(([intent, verdict]) => ({ intent, verdict, atMs: 100 })),
    approvals: new Map([
      ['a', { status: 'approved', succeeded: true }],
      ['b', { status: 'denied', succeeded: false }],
      ['c', { status: 'approved', succeeded: true }],
      ['d', { status: 'denied', succeeded: false }],
    ]),
    answers: ['The answer to q1.', 'The answer to q2.'],
  };
  const sent = ['a', 'c-edited'].map((intent) => ({ intent, atMs: 200 }));
  const unallowed = (...more: typeof sent) => judgeAsking(seen, [...sent, ...more]).unallowed.length;
  const unheard = (found: Partial<SeenAsking>) => judgeAsking({ ...seen, ...found }, sent).unheard.length;

  it('are heard where their answers have come in order and their decisions have come to what they are', () => {
    assert.deepEqual(judgeAsking(seen, sent), { unallowed: [], unheard: [] });
    assert.equal(unheard({ answers: seen.answers.toReversed() }), 1);
    assert.equal(unheard({ answers: [...seen.answers, 'The answer to q2.'] }), 1);
    assert.equal(unheard({ answers: seen.answers.slice(1) }), 1);
    const ending = (intent: string, status: string) =>
      new Map(seen.approvals).set(intent, { status, succeeded: false });
    assert.equal(unheard({ approvals: ending('a', 'pending') }), 1);
    assert.equal(unheard({ approvals: ending('b', 'expired') }), 1);
    assert.equal(judgeAsking(seen, sent.slice(1)).unheard.length, 1, 'it has succeeded and was never sent');
  });

  it('have allowed what was sent, with these arguments, before it was', () => {
    assert.equal(unallowed({ intent: 'b', atMs: 200 }), 1, 'it was denied');
    assert.equal(unallowed({ intent: 'c', atMs: 200 }), 1, 'it was edited');
    assert.equal(unallowed({ intent: 'd', atMs: 200 }), 1, 'it was denied by the one who came first');
    assert.equal(unallowed({ intent: 'a', atMs: 99 }), 1, 'nobody had decided yet');
    assert.equal(judgeAsking({ ...seen, decided: [] }, sent).unallowed.length, 2, 'nobody has decided at all');
  });

  it('are the same for the same seed, and say something to every call', () => {
    fc.assert(
      fc.property(fc.nat(), (seed) => {
        const askings = planAskings(seed, { runs: 20, withinMs: 1000 });
        assert.deepEqual(askings, planAskings(seed, { runs: 20, withinMs: 1000 }));
        for (const { steps: planned, verdicts: said } of askings) {
          const intents = planned.flatMap(({ calls }) =>
            calls.flatMap(({ input }) => ('intent' in input ? [input.intent] : [])),
          );
          assert.deepEqual(Object.keys(said), intents);
        }
      }),
    );
  });
});

describe('The memories of a torture', () => {
  const lessons = ['lesson-1', 'lesson-2'].map((label) => ({ label, learnt: true }));
  const contents = lessons.map(({ label }) => `The fact of ${label} is remembered.`);
  const wrongOf = (found: Partial<Parameters<typeof judgeMemory>[0]>) =>
    judgeMemory({ lessons, contents, kept: ['a', 'b'], ...found }).wrong.length;

  it('are there once, and were consolidated once', () => {
    assert.equal(wrongOf({}), 0);
    assert.equal(wrongOf({ lessons: [{ label: 'lesson-1', learnt: false }], contents: [], kept: [] }), 1);
    assert.equal(wrongOf({ contents: contents.slice(1), kept: ['b'] }), 1);
    assert.equal(wrongOf({ contents: [...contents, ...contents.slice(1)], kept: ['a', 'b', 'c'] }), 1);
    assert.equal(wrongOf({ kept: ['a', 'a'] }), 1);
    assert.equal(wrongOf({ kept: ['a'] }), 1);
  });

  it('are what the stand-in for a model reads in the words of the user', () => {
    const [planned] = planLessons(1, { runs: 1, withinMs: 1 });
    assert.ok(planned);
    const material = `<memories>lesson-9</memories><user>${JSON.stringify(planned)}</user>`;
    assert.match(JSON.stringify(submitted(material)), /fact of lesson-1 is/);
    assert.deepEqual(submitted('<user>Hello.</user>'), { add: [] });
  });
});

describe('A run of a torture that is asked for again', () => {
  it('has the same work, and shares no intent with the first', () => {
    const work = { runs: 5, withinMs: 1000, leaseMs: 2000, threads: true, hugeOutputs: true };
    const intentsOf = ({ steps }: PlannedRun) =>
      steps.flatMap(({ calls }) => calls.flatMap(({ input }) => ('intent' in input ? [input.intent] : [])));
    fc.assert(
      fc.property(fc.nat(), (seed) => {
        for (const plan of planRuns(seed, work)) {
          const again = renamed(plan, `${plan.label}.2`);
          assert.deepEqual(renamed(again, plan.label), plan);
          const before = new Set(intentsOf(plan));
          assert.ok(intentsOf(again).every((intent) => intent.startsWith(`${again.label}-`) && !before.has(intent)));
        }
      }),
    );
  });
});

describe('The examination after a torture', () => {
  const delivery: Delivery = { tool: 'charge', intent: 'run-1-1-1', key: 'k', call: 'c', atMs: 0, outcome: 'effect' };

  it('finds an intent that took effect twice, under one key or two', () => {
    assert.deepEqual(findRepeated([delivery, { ...delivery, intent: 'run-1-1-2' }]), []);
    for (const key of ['k', 'another']) assert.equal(findRepeated([delivery, { ...delivery, key }]).length, 1);
  });

  it('takes refusals and honoured keys for no effects', () => {
    const others = (['refused', 'repeated', 'read'] as const).map((outcome) => ({ ...delivery, outcome }));
    assert.deepEqual(findRepeated([delivery, ...others]), []);
  });

  it('finds a call of unknown outcome that was sent again', () => {
    const again = [delivery, delivery];
    assert.equal(findUnknownViolations(again, new Map([['c', 0]])).length, 1);
    assert.deepEqual(findUnknownViolations([delivery], new Map([['c', 0]])), []);
  });

  it('finds a message of a session that is neither in the conversation nor was replaced by a newer one', () => {
    const plan = { label: 'session-1', messages: [] };
    const taken = ['first', 'second', 'third'].map((label) => ({ label, text: label }));
    const session = { plan, id: 's', taken };
    const queued = (text: string) => queuedMessage({ id: text, text });
    const conversation = ['first\n', 'third'];
    const found = (logs: RunEvent[][]) => findForgotten(session, { conversation, logs });
    assert.deepEqual(found([]), ['second was taken by session-1 and is not in the conversation']);
    assert.deepEqual(found([[queued('second')]]).length, 1);
    assert.deepEqual(found([[queued('second'), queued('third')]]), []);
    assert.deepEqual(found([[queued('second')], [queued('third')]]).length, 1, 'each run has a queue of its own');
    assert.deepEqual(found([[queued('second'), dequeued('second'), queued('third')]]).length, 1);
  });

  it('names every broken promise', () => {
    const broken: Findings = {
      completed: 1,
      workflows: 0,
      unlike: ['a'],
      lost: ['b'],
      deliveries: 0,
      effects: 0,
      repeated: ['c'],
      unknowns: 0,
      unknownViolations: ['d'],
      gaps: ['e'],
      differences: ['f'],
      stuck: ['g'],
      drift: ['h'],
      forgotten: ['i'],
      untold: ['j'],
      hugeOutputs: 0,
      cutShort: ['k'],
      remembered: 0,
      memories: ['l'],
      answered: 0,
      decided: 0,
      unallowed: ['m'],
      unheard: ['n'],
      deferred: 0,
      recoveriesMs: [10, 20, 90],
    };
    const outcome: Outcome = { planned: 4, findings: broken, injected: [], apiRepeats: 0, crashes: 1, elapsedMs: 0 };
    const violations = violationsOf(outcome);
    for (const [name, sentences] of violations) assert.ok(sentences.length > 0, name);
    assert.equal(violations.get('lost')?.length, 2, 'a run that was never started is lost, too');
    const text = describeOutcome(outcome);
    for (const name of violations.keys()) assert.match(text, new RegExp(`^  ${name}:$`, 'm'));
  });
});

const place = placeOf();
const suite = place ? describe : describe.skip;

suite(`A torture (${place?.name ?? 'left out: it needs Postgres and Redis, see above'})`, function () {
  this.timeout(600_000);
  let running: ChildProcess | undefined;
  afterEach(() => running?.kill('SIGKILL'));

  const start = async (...args: string[]) => {
    const fleet = ['--apis', '1', '--workers', '2', ...(place?.args ?? [])];
    const command = [...(await programOf('scripts/torture.ts')), ...fleet, ...args];
    const child = spawn(process.execPath, command, { stdio: ['ignore', 'pipe', 'pipe'] });
    running = child;
    let text = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (text += String(chunk)));
    return { child, output: () => text };
  };

  it('loses nothing, repeats nothing, and leaves no process behind', async () => {
    const { child, output } = await start(
      '--seed',
      '1',
      '--runs',
      String(RUNS),
      '--seconds',
      SECONDS,
      '--settle',
      '90',
    );
    const [code] = await once(child, 'close');
    assert.equal(code, 0, output());
    assert.match(output(), new RegExp(`^ {2}completed +${RUNS}$`, 'm'));
    assert.deepEqual(processesOf(child), []);
  });

  it('takes its fleet along when it is killed', async function () {
    if (process.platform !== 'linux') this.skip();
    const { child, output } = await start('--seed', '2', '--runs', '5', '--seconds', '60');
    await waitUntil('a fault', () => / s {2}\w+/.test(output()) || child.exitCode !== null, 240_000);
    assert.ok(processesOf(child).length >= 2, output());
    child.kill('SIGKILL');
    await waitUntil('the fleet has ended', () => processesOf(child).length === 0);
  });
});

const ENVELOPE = { run_id: '', seq: 1, occurred_at: '', turn_id: null, step: null } as const;

function queuedMessage({ id, text }: { id: string; text: string }): RunEvent {
  const payload = { message_id: id, mode: 'queue', input: { message: text } };
  return { ...ENVELOPE, type: 'message.queued', actor: 'user', payload } as unknown as RunEvent;
}

function dequeued(id: string): RunEvent {
  const payload = { message_id: id, as: 'turn' };
  return { ...ENVELOPE, type: 'message.dequeued', actor: 'system', payload } as unknown as RunEvent;
}

/** Private services where the servers are installed, else those of the tests. */
function placeOf(): { name: string; args: string[] } | undefined {
  const probe = 'command -v redis-server && { command -v initdb || ls /usr/lib/postgresql/*/bin/initdb; }';
  try {
    if (process.platform === 'linux') execFileSync('/bin/sh', ['-c', probe], { stdio: 'ignore' });
    if (process.platform === 'linux') return { name: 'with services of its own', args: [] };
  } catch {
    // Not installed.
  }
  if (!MODES.includes('full')) return undefined;
  const urls = ['--database-url', TEST_DATABASE_URL ?? '', '--redis-url', TEST_REDIS_URL ?? ''];
  return { name: 'on the services of the tests', args: urls };
}

/** The fleet's processes are known by their queue prefix. */
function processesOf({ pid }: ChildProcess): string[] {
  if (process.platform !== 'linux') return [];
  return readdirSync('/proc').filter((entry) => {
    try {
      return /^\d+$/.test(entry) && readFileSync(`/proc/${entry}/environ`, 'utf8').includes(`=torture-${pid}\0`);
    } catch {
      return false;
    }
  });
}
