import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { newId } from '../../lib/new-id.ts';
import { evaluateApart } from '../../tools/apart/evaluate-apart.ts';
import { runBuiltin } from '../../tools/builtin.ts';
import { createEgress } from '../../tools/egress.ts';
import { createArgumentValidator } from '../../tools/validate-arguments.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { attemptOf, briefly, outputOf } from '../support/tool-attempt.ts';

const ENDLESS = 'combinations(1e11, 5e10)';

describe('A calculation in another process', () => {
  const evaluate = (expression: string) =>
    evaluateApart({ work: { calculation: { expression } }, tenantId: newId() }, 30_000);

  it('has its time from when that process has loaded what it needs, however long this takes', async function () {
    // Only Linux tells which processes there are.
    if (process.platform !== 'linux') return this.skip();
    await evaluateApart({ work: { jsonata: { text: '1', json: 'null' } }, tenantId: newId() }, 30_000);
    const pids = processesForExpressions();
    assert.notEqual(pids.length, 0);
    for (const pid of pids) process.kill(pid, 'SIGSTOP');
    const answer = evaluate('sqrt(16)');
    // As long as a calculation has, and its process until it is killed: the time is what is tested.
    assert.equal(await Promise.race([answer, sleep(2500)]), undefined);
    for (const pid of pids) process.kill(pid, 'SIGCONT');
    assert.deepEqual(await answer, { json: '{"kind":"succeeded","output":{"result":4}}' });
  });

  it('is stopped after its second all the same', async () => {
    assert.deepEqual(await evaluate(ENDLESS), { fault: 'too-slow', message: 'it takes too long' });
  });

  it('keeps others of its tenant from this process, which each of them would stop for a moment', async () => {
    const [one, other] = [newId(), newId()];
    const tools = {
      egress: createEgress({ allow: [], allowLoopback: true }),
      validator: createArgumentValidator(),
      now: undefined,
    };
    const calculate = (expression: string, tenantId: string) =>
      runBuiltin('calculator', attemptOf({ expression }, { tenantId, timeoutMs: 500 }), tools);
    const slow = [calculate(ENDLESS, one)];
    const before = cpuMs();
    for (let n = 0; n < 20; n++) slow.push(calculate(`${ENDLESS} + ${n}`, one));
    const usedMs = cpuMs() - before;
    assert.ok(usedMs < 300, `${usedMs} ms, where 20 of them here have 50 each`);
    assert.deepEqual(outputOf(await calculate('sqrt(16)', other)), { result: 4 });
    for (const each of await Promise.all(slow)) assert.equal(briefly(each), 'error too-slow');
  });
});

/** Those that this process has started. */
function processesForExpressions(): number[] {
  const isOne = (pid: number) => {
    try {
      const isOwn = readFileSync(`/proc/${pid}/status`, 'utf8').includes(`\nPPid:\t${process.pid}\n`);
      return isOwn && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('--max-old-space-size=128');
    } catch {
      // It has ended.
      return false;
    }
  };
  return readdirSync('/proc').map(Number).filter(isOne);
}
