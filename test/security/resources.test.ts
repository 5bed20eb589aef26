import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { createEgress } from '../../tools/egress.ts';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { attack, openArena, type Arena } from '../support/red-team.ts';

describe('Wearing Drover out', () => {
  let arena: Arena;
  let bomb: LocalServer;

  before(async () => {
    arena = await openArena();
    await arena.addTool('open');
    bomb = await startServer(({ path }, response) => {
      if (path === '/gzip')
        response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(5_000_000)));
      else response.write('a');
    });
  });
  after(async () => {
    await arena.close();
    await bomb.close();
  });

  const tools = ['open', 'calculator', 'json_query'];
  const isAlive = async () => assert.equal((await arena.call('GET', '/healthz')).status, 200);

  attack('R01', ['a body nested 100,000 levels deep', '400'], async () => {
    const raw = `{"name":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
    assert.equal(
      (await arena.call('POST', '/v1/agents', { raw, headers: { 'content-type': 'application/json' } })).status,
      400,
    );
  });

  attack('R02', ['a body of 11 MiB', '413'], async () => {
    const raw = JSON.stringify({ name: 'x'.repeat(11 * 1024 * 1024) });
    assert.equal(
      (await arena.call('POST', '/v1/agents', { raw, headers: { 'content-type': 'application/json' } })).status,
      413,
    );
  });

  attack('R03', ['a compressed body that is huge', '413'], async () => {
    const raw = gzipSync(JSON.stringify({ name: 'x'.repeat(30 * 1024 * 1024) }));
    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
    assert.equal((await arena.call('POST', '/v1/agents', { raw, headers })).status, 413);
  });

  attack('R04', ['a body with __proto__', '400'], async () => {
    const raw = '{"name":"a","__proto__":{"is_active":true}}';
    assert.equal(
      (await arena.call('POST', '/v1/agents', { raw, headers: { 'content-type': 'application/json' } })).status,
      400,
    );
  });

  attack('R05', ['a tool that answers with 11 MiB', "the tool's error, and the run goes on"], async () => {
    arena.answers.set('/open', () => ({ body: `"${'x'.repeat(11 * 1024 * 1024)}"` }));
    const { status, results } = await arena.play('call open {} | say over', { tools });
    arena.answers.delete('/open');
    assert.equal(status, 'completed');
    assert.ok((results[0] ?? '').length < 2000);
  });

  attack('R06', ['a tool that answers with 2 MiB', 'the model reads 1 MiB of it, and that it was cut'], async () => {
    arena.answers.set('/open', () => ({ body: `"${'x'.repeat(2 * 1024 * 1024)}"` }));
    const agent = { tools, memory_config: { short_term: { max_tokens: 5_000_000 } } };
    const { results } = await arena.play('call open {} | say over', agent);
    arena.answers.delete('/open');
    assert.match(results[0] ?? '', /\[cut: /);
    assert.ok((results[0] ?? '').length < 1024 * 1024 + 200);
  });

  attack('R07', ['an answer that unpacks to far more', 'cut off'], async () => {
    const egress = createEgress({ allow: [], allowLoopback: true });
    const init = { maxBytes: 100_000, timeoutMs: 5000, signal: new AbortController().signal };
    await assert.rejects(egress.fetch(`${bomb.url}/gzip`, init), /bytes|large/);
  });

  attack('R08', ['an answer that never ends', 'given up at the time limit'], async () => {
    const egress = createEgress({ allow: [], allowLoopback: true });
    const init = { maxBytes: 100_000, timeoutMs: 300, signal: new AbortController().signal };
    await assert.rejects(egress.fetch(`${bomb.url}/endless`, init), /300 ms|time/);
  });

  attack('R09', ["a regular expression in a tool's schema that backtracks without end", 'bounded'], async () => {
    const properties = { text: { type: 'string', pattern: '^(a+)+$' } };
    const input_schema = { type: 'object', properties };
    const transport = { type: 'http', endpoint: `${arena.server.url}/slow` };
    const body = { name: 'slow', description: 'A tool.', transport, input_schema };
    const made = await arena.call('POST', '/v1/tools', { body });
    if (made.status !== 201) return assert.equal(made.status, 422);
    const startedMs = Date.now();
    await arena.play(`call slow {"text":"${'a'.repeat(40)}!"} | say over`, { tools: ['slow'] });
    assert.ok(Date.now() - startedMs < 20_000);
    return assert.equal(arena.reached('slow').length, 0);
  });

  attack('R10', ['a regular expression in a policy that would backtrack without end', 'linear time'], async () => {
    const body = { name: 'bomb', when: 'risk.matches("^(([A-Z_])+)+!$")', decision: 'block' };
    const made = await arena.call('POST', '/v1/policies', { body });
    if (made.status !== 201) return assert.equal(made.status, 422);
    const startedMs = Date.now();
    const { status } = await arena.play('call calculator {"expression":"1+1"} | say over', { tools });
    await arena.call('DELETE', `/v1/policies/${made.json.id}`);
    assert.ok(Date.now() - startedMs < 20_000);
    return assert.equal(status, 'completed');
  });

  for (const [id, what, when] of [
    ['R11', 'of 100,000 characters', `tool == "${'x'.repeat(100_000)}"`],
    ['R12', 'nested 1,000 levels deep', `${'('.repeat(1000)}true${')'.repeat(1000)}`],
    ['R13', 'that is no expression', 'tool == '],
    ['R14', 'that calls what is not there', 'process.exit()'],
  ] as const) {
    attack(id, [`a policy with a condition ${what}`, 'refused with the place of the fault'], async () => {
      const answer = await arena.call('POST', '/v1/policies', { body: { name: 'odd', when, decision: 'block' } });
      assert.ok(answer.status === 422 || answer.status === 400, answer.text.slice(0, 300));
      assert.match(answer.text, /when/);
    });
  }

  for (const [id, what, call] of [
    ['R15', 'a sum without end in the calculator', 'calculator {"expression":"2^(10^(10^10))"}'],
    ['R16', 'a huge matrix in the calculator', 'calculator {"expression":"ones(100000,100000)"}'],
    ['R17', 'code in the calculator', 'calculator {"expression":"import({a:1})"}'],
    [
      'R18',
      'a function that calls itself in a query',
      'json_query {"data":{},"expression":"($f := function($x){$f($x)}; $f(1))"}',
    ],
  ] as const) {
    attack(id, [what, 'bounded, the process lives'], async () => {
      const startedMs = Date.now();
      const { status } = await arena.play(`call ${call} | say over`, { tools });
      assert.equal(status, 'completed');
      assert.ok(Date.now() - startedMs < 25_000);
      await isAlive();
    });
  }

  attack('R19', ['a model that never stops calling tools', 'asked for a summary at the step limit'], async () => {
    const message = Array.from({ length: 12 }, () => 'call calculator {"expression":"1+1"}').join(' | ');
    const { status, log } = await arena.play(message, { tools, execution_config: { max_turns: 5 } });
    assert.equal(status, 'completed');
    assert.equal(log.filter(({ type }) => type === 'model.responded').length, 6);
  });

  attack('R20', ['an Idempotency-Key of 10,000 characters', '400'], async () => {
    const headers = { 'idempotency-key': 'k'.repeat(10_000) };
    const answer = await arena.call('POST', '/v1/agents', { body: { name: 'a' }, headers });
    assert.ok(answer.status === 400 || answer.status === 431, String(answer.status));
  });
});
