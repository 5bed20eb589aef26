import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { env } from 'node:process';
import { missingFacts } from '../../scripts/demo/right-answers.ts';
import { fuelAnswer, publishAnswer } from '../support/demo-question.ts';
import { programOf } from '../support/processes.ts';
import { ROOT } from '../support/repository.ts';
import { sized } from '../support/size.ts';
import { isAlive, waitUntil } from '../support/wait-until.ts';

describe('npm run demo', function () {
  this.timeout(600_000);

  let temporary: string;
  let running: Running | undefined;
  let compiled: string[];
  before(async () => {
    compiled = [process.execPath, ...(await programOf('scripts/demo.ts'))];
  });
  beforeEach(() => {
    temporary = mkdtempSync(join(tmpdir(), 'drover-test-demo-'));
  });
  afterEach(() => {
    running?.child.kill('SIGKILL');
    rmSync(temporary, { recursive: true, force: true });
  });
  const start = (...command: string[]) => (running = runDemo(command, temporary));

  it('answers rightly, goes on after a SIGKILL, counts one effect, and leaves nothing behind', async () => {
    // As the README has it each night: from source each start of the service costs ten seconds of a core.
    const demo = start(...sized({ usual: compiled, nightly: ['npm', 'run', 'demo'] }));
    assert.equal(await demo.ended, 0, demo.output());
    const answers = [...demo.output().matchAll(/^Answer: (.*)$/gm)].map((match) => match[1] ?? '');
    assert.equal(answers.length, 2, demo.output());
    const fuel = fuelAnswer(4);
    const { region, cars, mean, firstYear, lastYear, firstMean, lastMean, difference } = fuel;
    for (const fact of [region, cars, mean, firstYear, lastYear, firstMean, lastMean, difference]) {
      assert.ok(answers[0]?.includes(String(fact)), `${fact} is not in: ${answers[0]}`);
    }
    for (const fact of Object.values(publishAnswer('Japan'))) {
      assert.ok(answers[1]?.includes(String(fact)), `${fact} is not in: ${answers[1]}`);
    }
    assert.match(demo.output(), /^effect counted: 1 time\(s\)$/m);
    assert.match(demo.output(), /publish_report was sent 2 times with one idempotency key/);
    // The service is gone when they could be opened.
    assert.doesNotMatch(demo.output(), /http:\/\/\S+\//);
    assert.match(demo.output(), /^ {2}`npm run demo -- --keep` leaves the service running\b.*\n$/m);
    assert.match(demo.output(), /offline planner/);
    // In the order in which it happened: the call, the kill, the call's result.
    const last = demo.output().slice(demo.output().lastIndexOf('Question:'));
    const order = ['→ publish_report', 'SIGKILL', '← publish_report'].map((text) => last.indexOf(text));
    assert.ok(order[0] !== -1 && order.every((place, index) => place > (order[index - 1] ?? -1)), last);
    const pids = [...demo.output().matchAll(/process +(\d+), ready/g)].map((match) => Number(match[1]));
    assert.equal(pids.length, 2);
    assert.deepEqual(pids.filter(isAlive), []);
    assert.deepEqual(demoFolders(temporary), []);
  });

  it('has three agents answer what a planner has split, rightly and as a tree', async () => {
    const demo = start(process.execPath, ...(await programOf('scripts/demo-team.ts')));
    assert.equal(await demo.ended, 0, demo.output());
    assert.match(demo.output(), /├─ ✓ USA .*\n│ {2}├─ ✓ USA to Europe .* after USA, Europe\n│ {2}│ {2}└─ ✓ report/);
    const said = /^Mean fuel economy.*$/m.exec(demo.output())?.[0] ?? '';
    const means = ['USA', 'Europe', 'Japan'].map((region) => String(publishAnswer(region).mean));
    assert.deepEqual(missingFacts(said, means, true), [], said);
    assert.match(demo.output(), /6 subtasks/);
    assert.doesNotMatch(demo.output(), /http:\/\/\S+\//);
    assert.deepEqual(demoFolders(temporary), []);
  });

  it('leaves the service running with --keep, and says how to reach it, until Ctrl-C', async () => {
    const demo = start(...compiled, '--keep');
    await untilSaid(demo, 'curl ');
    const [, url = ''] = /^ {2}queues +(http:\S+)\/admin\/queues \(sign in with the key\)$/m.exec(demo.output()) ?? [];
    const [, key = ''] = /^ {2}key +(\S+)$/m.exec(demo.output()) ?? [];
    const runs = [...demo.output().matchAll(/^ {2}run +(\S+)$/gm)].map(([, id]) => id);
    assert.equal(runs.length, 2, demo.output());
    for (const run of runs) {
      const { status } = await fetch(`${url}/v1/runs/${run}`, { headers: { authorization: `Bearer ${key}` } });
      assert.equal(status, 200);
    }
    demo.child.kill('SIGINT');
    assert.equal(await demo.ended, 0, demo.output());
    assert.doesNotMatch(demo.output(), /--keep/);
  });

  it('stops the service and removes its data at Ctrl-C', async () => {
    const demo = start(...compiled);
    await untilSaid(demo, 'Question:');
    const pid = Number(/process +(\d+), ready/.exec(demo.output())?.[1]);
    assert.ok(isAlive(pid));
    demo.child.kill('SIGINT');
    assert.equal(await demo.ended, 130, demo.output());
    assert.equal(isAlive(pid), false);
    assert.deepEqual(demoFolders(temporary), []);
  });

  it('takes the service with it when it is killed itself, and at night from source', async () => {
    const source = [process.execPath, '--import', 'tsx', 'scripts/demo.ts'];
    const demo = start(...sized({ usual: compiled, nightly: source }));
    await untilSaid(demo, 'ready in');
    const pid = Number(/process +(\d+), ready/.exec(demo.output())?.[1]);
    demo.child.kill('SIGKILL');
    await waitUntil('the end of the service', () => !isAlive(pid));
  });

  it('explains itself', async () => {
    const help = start('npm', 'run', 'demo', '--', '--help');
    assert.equal(await help.ended, 0);
    assert.match(help.output(), /--keep/);
  });

  for (const [program, name, wrong] of [
    ['demo', 'demo', '--fast'],
    ['demo', 'demo', '--keep=1'],
    ['demo-team', 'demo:team', '--fast'],
    ['demo-memory', 'demo:memory', '--fast'],
    ['draw-patterns', 'patterns', '--fast'],
    ['tau2', 'tau2', '--fast'],
  ] as const) {
    it(`says in one line that ${name} does not take ${wrong}, with exit code 2`, async () => {
      const refused = start(process.execPath, ...(await programOf(`scripts/${program}.ts`)), wrong);
      assert.equal(await refused.ended, 2, refused.output());
      assert.match(refused.output(), new RegExp(`^${name}: .*${wrong.replace('=1', '')}.*\n$`));
    });
  }
});

describe('the facts of an answer', () => {
  it('are found as whole numbers only', () => {
    assert.deepEqual(missingFacts('Japan: 31.6, then 34.73.', ['Japan', '31.6', '34.73'], true), []);
    assert.deepEqual(missingFacts('Japan: 31.61', ['Japan', '31.6'], true), ['31.6']);
    assert.deepEqual(missingFacts('Japan: 131', ['Japan', '31'], true), ['31']);
    assert.deepEqual(missingFacts('Japan: 31.6', ['Japan', '31'], true), ['31']);
  });

  it('may be rounded by a model, which must still name the region', () => {
    assert.deepEqual(missingFacts('About 32 in Japan.', ['Japan', '31.6'], false), []);
    assert.deepEqual(missingFacts('About 32 in Europe.', ['Japan', '31.6'], false), ['Japan']);
  });
});

interface Running {
  child: ChildProcess;
  /** Exit code. */
  ended: Promise<number | null>;
  output: () => string;
}

/** Starts it without keys of any model, and with a temporary directory of its own. */
function runDemo([command = '', ...args]: string[], temporary: string): Running {
  const kept = Object.entries(env).filter(
    ([name]) => !/^(ANTHROPIC_|OPENAI_|DROVER_|DATABASE_URL|REDIS_URL)/.test(name),
  );
  const child = spawn(command, args, {
    cwd: ROOT,
    env: { ...Object.fromEntries(kept), TMPDIR: temporary, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += String(chunk)));
  const ended = once(child, 'close').then(([code]) => code as number | null);
  return { child, ended, output: () => output };
}

/** Fails with what it has said where it ends before. */
async function untilSaid({ child, output }: Running, words: string): Promise<void> {
  const isOver = () => output().includes(words) || child.exitCode !== null || child.signalCode !== null;
  await waitUntil(words, isOver, 240_000);
  assert.ok(output().includes(words), output());
}

function demoFolders(temporary: string): string[] {
  return readdirSync(temporary).filter((name) => name.startsWith('drover-demo-'));
}
