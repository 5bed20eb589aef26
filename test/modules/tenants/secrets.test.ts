import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { loadConfig } from '../../../config.ts';
import { createKeyring, SecretUnreadableError } from '../../../core/secret-box.ts';
import { openPlatform } from '../../../modules/platform/open-platform.ts';
import { DEFAULT_TENANT_ID } from '../../../modules/tenants/bootstrap.ts';
import { openKeyring } from '../../../modules/tenants/open-keyring.ts';
import { reencryptSecrets } from '../../../modules/tenants/reencrypt-secrets.ts';
import { readSecrets, storeSecret } from '../../../modules/tenants/secrets.ts';
import { createTestServices, type TestServices } from '../../support/database.ts';
import { startServer, type LocalServer } from '../../support/echo-server.ts';
import { redisKeysWith, tablesWith } from '../../support/find-text.ts';
import { DOMAIN_MODE, DOMAIN_MODES } from '../../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../../support/platform.ts';
import { forgetKeyMarks } from '../../support/queries/tenants.ts';
import { startScriptedModel, type ScriptedModel } from '../../support/scripted-model.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { ODD_SERVER } from '../../support/odd-server.ts';

const NODE = process.execPath;

for (const mode of DOMAIN_MODES) {
  describe(`a secret in ${mode} mode`, () => {
    const canary = `Canary-${randomUUID()}`;
    let model: ScriptedModel;
    let platform: TestPlatform;
    let echo: LocalServer;
    /** Whatever the API has answered. */
    const answers: string[] = [];

    before(async () => {
      model = await startScriptedModel();
      echo = await startServer(({ path, headers }, response) => {
        const key = String(headers['x-key']);
        if (path === '/redirect') {
          response.writeHead(302, { location: `http://${key}.invalid/${key}?k=${key}` }).end(key);
        } else {
          response.writeHead(path === '/error' ? 400 : 200, { 'content-type': 'application/json', 'x-echo': key });
          response.end(
            JSON.stringify({ said: `your key is ${key}`, [key]: Buffer.from(`k:${key}`).toString('base64') }),
          );
        }
      });
      platform = await openTestPlatform(mode, {
        workers: true,
        api: true,
        env: {
          ANTHROPIC_API_KEY: 'test',
          ANTHROPIC_BASE_URL: model.url,
          DROVER_EGRESS_ALLOW: '127.0.0.1',
          DROVER_STDIO_COMMANDS: NODE,
        },
      });
    });
    after(async () => {
      await platform.close();
      await echo.close();
      await model.close();
    });

    async function call(method: string, path: string, body?: unknown) {
      const response = await fetch(`${platform.url}${path}`, {
        method,
        headers: { authorization: `Bearer ${platform.apiKey}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      answers.push(text, JSON.stringify([...response.headers]));
      return {
        status: response.status,
        text,
        // oxlint-disable-next-line typescript/no-explicit-any -- tests say themselves what they expect of an answer
        body: (text.startsWith('{') ? JSON.parse(text) : {}) as Record<string, any>,
      };
    }

    async function registerEchoes(): Promise<string[]> {
      assert.equal((await call('PUT', '/v1/secrets/canary', { value: canary })).status, 201);
      const http = ['body', 'error', 'redirect'].map((name) => ({
        name: `say_${name}`,
        transport: { type: 'http', endpoint: `${echo.url}/${name}`, headers: { 'x-key': '{{secret:canary}}' } },
      }));
      const server = {
        type: 'mcp_stdio',
        ...ODD_SERVER,
        env: { LEAK: '{{secret:canary}}' },
      };
      const stdio = ['environment', 'blurt'].map((tool) => ({ name: `mcp_${tool}`, transport: { ...server, tool } }));
      for (const tool of [...http, ...stdio]) {
        const { status, text } = await call('POST', '/v1/tools', { ...tool, description: 'Tells.' });
        assert.equal(status, 201, text);
      }
      return [...http, ...stdio].map(({ name }) => name);
    }

    it('reaches the tool, and is nowhere else, although the tool says it in every way', async () => {
      const tools = await registerEchoes();
      const { body: agent } = await call('POST', '/v1/agents', {
        name: 'teller',
        tools,
        autonomy_level: 3,
        // A redirect to nowhere leaves it unknown what was done.
        execution_config: { on_unknown: 'tell_model' },
      });
      const message = `call ${tools.map((tool) => `${tool} {}`).join(' & ')} | say marker-in-the-database`;
      const { body: run } = await call('POST', `/v1/agents/${agent['id']}/runs`, { input: { message } });
      const path = `/v1/runs/${run['run_id']}`;
      await waitUntil('the run has ended', async () => (await call('GET', path)).body['status'] === 'completed');

      for (const tool of ['say_body', 'say_error', 'say_redirect']) {
        const [request] = echo.seen.filter(({ path: seen }) => seen === `/${tool.slice(4)}`);
        assert.equal(request?.headers['x-key'], canary, `${tool} got it`);
      }
      for (const part of ['/events', '/turns', '/checkpoints', '/stream']) await call('GET', `${path}${part}`);
      const { body: turns } = await call('GET', `${path}/turns`);
      const { body: turn } = await call('GET', `${path}/turns/${turns['turns'][0].id}`);
      const calls = turn['steps'].flatMap((step: { tool_calls: unknown[] }) => step.tool_calls) as {
        id: string;
        tool: string;
      }[];
      assert.deepEqual(calls.map(({ tool }) => tool).toSorted(), tools.toSorted());
      for (const { id } of calls) await call('GET', `/v1/tool-calls/${id}/output`);
      for (const { id } of (await call('GET', '/v1/tools?limit=200')).body['tools'])
        await call('GET', `/v1/tools/${id}`);
      for (const tool of tools) {
        const listed = await call('GET', `/v1/tools?filter=name:${tool}`);
        await call('POST', `/v1/tools/${listed.body['tools'][0].id}/execute`, { input: {} });
      }
      await call('GET', '/v1/secrets');
      await call('GET', '/v1/secrets/canary');

      const results = model.asked(message)[1]?.results ?? [];
      assert.equal(results.length, tools.length);
      assert.equal(results.filter((result) => result.includes('[secret]')).length, tools.length - 1);
      await searchEverywhere();
    });

    async function searchEverywhere() {
      const { db, config } = platform.context;
      assert.ok((await tablesWith(db, 'marker-in-the-database')).length > 0, 'the search finds what is there');
      for (const form of [canary, Buffer.from(canary).toString('base64')]) {
        assert.deepEqual(await tablesWith(db, form), []);
        if (mode === 'full') {
          assert.ok((await redisKeysWith(config.queuePrefix, 'tool-calls')).found.length > 0);
          assert.deepEqual((await redisKeysWith(config.queuePrefix, form)).found, []);
        }
        const printed = JSON.stringify([answers, platform.log]).toLowerCase();
        assert.ok(printed.includes('marker-in-the-database'));
        assert.ok(!printed.includes(form.toLowerCase()));
      }
    }

    it('that is missing fails the call without any attempt, and the model reads which one', async () => {
      const transport = {
        type: 'http',
        endpoint: `${echo.url}/none`,
        headers: { 'x-key': '{{secret:nobody_set_it}}' },
      };
      const { body: tool } = await call('POST', '/v1/tools', {
        name: 'keyless',
        description: 'Needs a key.',
        transport,
      });
      const { body: agent } = await call('POST', '/v1/agents', { name: 'keyless', tools: ['keyless'] });
      const message = 'call keyless {}';
      const { body: run } = await call('POST', `/v1/agents/${agent['id']}/runs`, { input: { message } });
      const path = `/v1/runs/${run['run_id']}`;
      await waitUntil('the run has ended', async () => (await call('GET', path)).body['status'] === 'completed');
      assert.match(model.asked(message)[1]?.results[0] ?? '', /The secret "nobody_set_it" is not set/);
      const { body: executed } = await call('POST', `/v1/tools/${tool['id']}/execute`, { input: {} });
      assert.equal(executed['error'].code, 'secret-missing');
      assert.equal(echo.seen.filter((request) => request.path === '/none').length, 0);
    });

    it('is read by its own tenant only, and re-encrypted under the next key while an old one still reads', async () => {
      const { db, keyring } = platform.context;
      const next = createKeyring(['the next key', ...platform.context.config.secretKeys]);
      const { tenantId } = platform;
      const stranger = randomUUID();
      await db.withTenant(tenantId, (tx) => storeSecret(tx, keyring, { tenantId, name: 'rotated', value: 'v-1' }));
      assert.equal((await readSecrets({ db, keyring }, stranger, ['rotated'])).size, 0);

      const only = createKeyring(['the next key']);
      const lost = await reencryptSecrets({ db, keyring: only });
      assert.ok(lost.unreadable.includes(`${tenantId} rotated`));
      if (mode !== 'embedded') {
        const { reencrypted, unreadable } = await reencryptSecrets({ db, keyring: next });
        assert.deepEqual(unreadable, []);
        assert.ok(reencrypted >= 2);
        assert.equal((await readSecrets({ db, keyring: only }, tenantId, ['rotated'])).get('rotated')?.value, 'v-1');
        assert.equal((await reencryptSecrets({ db, keyring: next })).reencrypted, 0);
        await assert.rejects(readSecrets({ db, keyring }, tenantId, ['rotated']), SecretUnreadableError);
      }
    });
  });
}

describe('the key of an embedded installation', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'drover-key-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const open = (...secretKeys: string[]) => openKeyring({ mode: 'embedded', dataDir: folder, secretKeys });

  it('is made at the first start, for its owner alone, and is the same at the next', async () => {
    const first = (await open()).currentKeyId();
    assert.equal(statSync(join(folder, 'secret-key')).mode & 0o777, 0o600);
    assert.match(readFileSync(join(folder, 'secret-key'), 'utf8'), /^[\w-]{43}\n$/);
    assert.equal((await open()).currentKeyId(), first);
  });

  it('goes on reading where a key is configured later', async () => {
    const owner = { tenantId: 't', name: 'n' };
    const stored = (await open()).seal(owner, 'v', Buffer.alloc(12));
    const later = await open('configured');
    assert.equal(later.open(owner, stored), 'v');
    assert.notEqual(later.currentKeyId(), stored.keyId);
  });

  it('is made anew where a crash has left an empty file, which no secret can be under', async () => {
    writeFileSync(join(folder, 'secret-key'), '');
    await open();
    assert.match(readFileSync(join(folder, 'secret-key'), 'utf8'), /^[\w-]{43}\n$/);
  });
});

describe('a key that secrets are under', () => {
  const [FIRST, NEXT] = ['the first key of this test', 'the next key of this test'];
  const LACKING = {
    name: 'ConfigError',
    message: /^DROVER_SECRET_KEY [^\n]*lacks? a key [^\n]*secrets:reencrypt[^\n]*\.$/,
  };
  let services: TestServices;
  beforeEach(async () => {
    services = await createTestServices(DOMAIN_MODE);
  });
  afterEach(() => services.drop());

  const open = (...keys: string[]) =>
    openPlatform(loadConfig({ ...services.env, DROVER_SECRET_KEY: keys.join(',') }), {
      log: pino({ level: 'silent' }),
    });
  /** What a process does that starts with these keys, and ends. */
  const start = async (...keys: string[]) => (await open(...keys)).close();
  const reencrypt = async (keys: string[], options?: { isLost: boolean }) => {
    const { context, close } = await open(NEXT, FIRST);
    const done = await reencryptSecrets({ db: context.db, keyring: createKeyring(keys) }, options);
    await close();
    return done;
  };

  it('is asked for at the start, before, in the middle of and after a rotation', async () => {
    await start(FIRST);
    await assert.rejects(start(NEXT), LACKING);
    await start(FIRST, NEXT);
    await start(FIRST);
    await start(NEXT, FIRST);
    for (const alone of [FIRST, NEXT]) await assert.rejects(start(alone), LACKING, 'either may have been used');
    assert.equal((await reencrypt([NEXT])).isDone, false, 'the old one is not there');
    await assert.rejects(start(NEXT), LACKING);
    assert.equal((await reencrypt([NEXT, FIRST])).isDone, true);
    await start(NEXT);
    await assert.rejects(start(FIRST), LACKING);
  });

  it('is asked for where secrets were stored by a release that did not note their key', async () => {
    const { context, close } = await open(FIRST);
    const owner = { tenantId: DEFAULT_TENANT_ID, name: 'old' };
    await context.db.withTenant(owner.tenantId, (tx) => storeSecret(tx, context.keyring, { ...owner, value: 'v' }));
    await forgetKeyMarks({ context, tenantId: owner.tenantId });
    await close();
    await assert.rejects(start(NEXT), LACKING);
    await start(FIRST);
    await assert.rejects(start(NEXT), LACKING);
  });

  it('may be given up where it is gone, with what is under it', async () => {
    const { context, close } = await open(FIRST);
    const owner = { tenantId: DEFAULT_TENANT_ID, name: 'lost' };
    await context.db.withTenant(owner.tenantId, (tx) => storeSecret(tx, context.keyring, { ...owner, value: 'v' }));
    await close();
    const { unreadable, isDone } = await reencrypt([NEXT], { isLost: true });
    assert.deepEqual([unreadable, isDone], [[`${owner.tenantId} lost`], true]);
    await start(NEXT);
  });

  it('is the one of whoever was first where processes with several start at once', async function () {
    if (DOMAIN_MODE === 'embedded') return void this.skip();
    const keys = [FIRST, NEXT, FIRST, NEXT];
    const ends = await Promise.allSettled(keys.map((key) => start(key)));
    const started = keys.filter((_, n) => ends[n]?.status === 'fulfilled');
    assert.deepEqual([started.length, new Set(started).size], [2, 1]);
  });
});
