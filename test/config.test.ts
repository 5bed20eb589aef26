import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import fc from 'fast-check';
import { loadConfig, VARIABLES } from '../config.ts';
import { ConfigError } from '../lib/environment.ts';
import { CONTRACTS } from '../jobs/contracts.ts';
import { variablesRead } from './support/variables.ts';

const POSTGRES = { DATABASE_URL: 'postgres://me:hunter2@db/drover', DROVER_SECRET_KEY: 'k'.repeat(32) };

describe('config', () => {
  it('is the embedded mode with its defaults where nothing is set', () => {
    const config = loadConfig({});
    assert.equal(config.mode, 'embedded');
    assert.equal(config.dataDir, resolve('./.drover'));
    assert.deepEqual([config.port, config.host], [3000, '127.0.0.1']);
    assert.equal(config.leaseMs, 30_000);
    assert.deepEqual([config.shutdownGraceMs, config.poolSize], [25_000, 20]);
    assert.equal(config.queuePrefix, 'drover');
    assert.equal(config.logLevel, 'info');
    assert.deepEqual(
      config.queues,
      CONTRACTS.map(({ name }) => name),
    );
    assert.deepEqual(Object.keys(config.concurrency), [...config.queues]);
    assert.deepEqual([config.concurrency.turns, config.concurrency.maintenance], [20, 5]);
    assert.equal(config.apiKey, undefined);
    assert.deepEqual(config.egressAllow, []);
  });

  it('finds variables that are named like its own and are none, but for those that Kubernetes sets', () => {
    const env = {
      DROVER_QUEUE_PREFX: 'a',
      DROVER_MODELS: 'x',
      DROVER_SERVICE_HOST: '10.0.0.1',
      DROVER_PORT: 'tcp://10.0.0.1:3000',
      DROVER_PORT_3000_TCP: 'tcp://10.0.0.1:3000',
      PATH: '/bin',
    };
    assert.deepEqual(loadConfig(env).unreadVariables, ['DROVER_MODELS', 'DROVER_QUEUE_PREFX']);
    const read = new Set(variablesRead().filter((name) => name.startsWith('DROVER_')));
    assert.deepEqual(new Set(VARIABLES.map((name) => `DROVER_${name}`)), read);
  });

  it('takes an empty variable for an unset one', () => {
    const empty = {
      LOG_LEVEL: '',
      DATABASE_URL: '',
      REDIS_URL: ' ',
      PORT: '',
      DROVER_MODEL: '',
      DROVER_QUEUES: '',
      DROVER_X: '',
    };
    assert.deepEqual(loadConfig(empty), loadConfig({}));
  });

  it('takes several secret keys, the current one first', () => {
    assert.deepEqual(loadConfig({ ...POSTGRES, DROVER_SECRET_KEY: 'new key, old key' }).secretKeys, [
      'new key',
      'old key',
    ]);
    assert.throws(() => loadConfig({ ...POSTGRES, DROVER_SECRET_KEY: ' , ' }), /DROVER_SECRET_KEY is not set/);
  });

  it('tells the three modes apart by the two URLs', () => {
    assert.equal(loadConfig(POSTGRES).mode, 'postgres');
    assert.equal(loadConfig({ ...POSTGRES, REDIS_URL: 'rediss://:p@cache:6380/1' }).mode, 'full');
    assert.equal(loadConfig(POSTGRES).concurrency.turns, 50);
  });

  it('cannot be changed once it is loaded', () => {
    const config = loadConfig({ DROVER_EGRESS_ALLOW: 'a.example' });
    for (const part of [config, config.queues, config.concurrency, config.egressAllow]) {
      assert.ok(Object.isFrozen(part));
    }
  });

  it('reads which queues are served and how many jobs at a time', () => {
    const chosen = loadConfig({ DROVER_QUEUES: 'tool-calls, turns', DROVER_CONCURRENCY: 'turns=50,tool-calls=100' });
    assert.deepEqual(chosen.queues, ['turns', 'tool-calls']);
    assert.equal(chosen.concurrency.turns, 50);
    assert.equal(chosen.concurrency['tool-calls'], 100);
    assert.equal(chosen.concurrency.maintenance, 5);
    assert.equal(loadConfig({ DROVER_CONCURRENCY: '7' }).concurrency.maintenance, 7);
    assert.deepEqual(loadConfig({ DROVER_QUEUES: 'maintenance' }).queues, ['maintenance', 'webhooks', 'titles']);
    const together = loadConfig({ DROVER_QUEUES: 'turns=3' });
    assert.deepEqual([together.queues, together.concurrency.turns], [['turns'], 3]);
  });

  it('takes commands with a space in their path, and numbers for one queue and for all others', () => {
    const commands = { DROVER_STDIO_COMMANDS: 'npx, /opt/my tools/server' };
    assert.deepEqual(loadConfig(commands).stdioCommands, ['npx', '/opt/my tools/server']);
    const { concurrency } = loadConfig({ DROVER_CONCURRENCY: '7,turns=5' });
    assert.deepEqual([concurrency.turns, concurrency.subtasks], [5, 7]);
  });

  it('reads what models take', () => {
    const { contextWindows } = loadConfig({ DROVER_CONTEXT_WINDOWS: 'openai/llama-4=32768, anthropic=200000' });
    assert.deepEqual(contextWindows, { 'openai/llama-4': 32_768, anthropic: 200_000 });
  });

  it('reads what a credential permits a minute', () => {
    const { modelLimits } = loadConfig({ DROVER_MODEL_LIMITS: 'anthropic/claude-sonnet-5=50:40000, openai=:90' });
    assert.deepEqual(modelLimits, {
      'anthropic/claude-sonnet-5': { requestsPerMinute: 50, tokensPerMinute: 40_000 },
      openai: { requestsPerMinute: null, tokensPerMinute: 90 },
    });
  });

  it('reads where files are kept, and repeats no key of a place that is none', () => {
    const store = (DROVER_FILES_URL: string, env = {}) => loadConfig({ ...env, DROVER_FILES_URL }).fileStore;
    assert.deepEqual(store(''), { kind: 'file', path: resolve('./.drover/files') });
    assert.equal(store('', POSTGRES), undefined);
    assert.deepEqual(store('file:some/where'), { kind: 'file', path: resolve('some/where') });
    assert.deepEqual(store('file:///srv/my%20files'), { kind: 'file', path: '/srv/my files' });
    const amazons = {
      kind: 's3',
      bucket: 'b-1',
      prefix: '',
      endpoint: undefined,
      region: 'us-east-1',
      pathStyle: false,
    };
    assert.deepEqual(store('s3://b-1'), { ...amazons, credentials: undefined });
    const own = { prefix: 'a/b/', endpoint: 'http://minio:9000', region: 'eu', pathStyle: true };
    assert.deepEqual(store('s3://me:hunter%2F2@b-1/a/b/?endpoint=http://minio:9000&region=eu'), {
      ...amazons,
      ...own,
      credentials: { accessKeyId: 'me', secretAccessKey: 'hunter/2' },
    });
    const wrong = ['https://x', 's3:b', 's3://me@b-1', 's3://me:hunter2@B_', 's3://b-1?x=1', 's3://b-1/ä', 'file:'];
    for (const value of [...wrong, 's3://me:hunter2@b-1?endpoint=ftp://x', 's3://me:hunter2@b-1?path_style=perhaps']) {
      assert.throws(
        () => store(value),
        (error) =>
          error instanceof ConfigError && !error.message.includes('hunter') && error.variable === 'DROVER_FILES_URL',
        value,
      );
    }
  });

  it('keeps memory: apart from directories', () => {
    assert.equal(loadConfig({ DROVER_DATA_DIR: 'memory:' }).dataDir, 'memory:');
    assert.equal(loadConfig({ DROVER_DATA_DIR: 'data' }).dataDir, resolve('data'));
  });

  const mistakes: [Record<string, string>, string, RegExp][] = [
    [{ REDIS_URL: 'redis://cache' }, 'REDIS_URL', /without DATABASE_URL/],
    [{ DATABASE_POOL_URL: 'postgres://pool/drover' }, 'DATABASE_POOL_URL', /without DATABASE_URL/],
    [{ ...POSTGRES, DATABASE_POOL_URL: 'http://pool' }, 'DATABASE_POOL_URL', /expected postgres:\/\//],
    [{ DATABASE_URL: 'postgres://db/drover' }, 'DROVER_SECRET_KEY', /not set/],
    [{ ...POSTGRES, DATABASE_URL: 'mysql://me:hunter2@db' }, 'DATABASE_URL', /expected postgres:\/\//],
    [{ ...POSTGRES, DATABASE_URL: 'postgres://me:hun/ter2@db/drover' }, 'DATABASE_URL', /in a password as %/],
    [
      { ...POSTGRES, DATABASE_POOL_URL: 'postgres://me:hunter2@db:port/drover' },
      'DATABASE_POOL_URL',
      /expected postgres:\/\//,
    ],
    [{ ...POSTGRES, REDIS_URL: 'http://cache' }, 'REDIS_URL', /expected redis:\/\//],
    [{ ...POSTGRES, REDIS_URL: 'redis://me:50%hunter2@cache' }, 'REDIS_URL', /in a password as %/],
    [{ ...POSTGRES, REDIS_URL: 'redis://cache/drover' }, 'REDIS_URL', /expected redis:\/\//],
    [{ PORT: 'http' }, 'PORT', /"http": expected a whole number from 0 to 65535/],
    [{ PORT: '70000' }, 'PORT', /65535/],
    [{ PORT: '1e3' }, 'PORT', /whole number/],
    [{ DROVER_CORS_ORIGINS: 'https://app.example/' }, 'DROVER_CORS_ORIGINS', /origins separated by commas/],
    [{ DROVER_CORS_ORIGINS: '*,app.example' }, 'DROVER_CORS_ORIGINS', /app\.example/],
    [{ DROVER_DATA_DIR: 's3://bucket' }, 'DROVER_DATA_DIR', /a directory/],
    [{ DROVER_DATA_DIR: '~/drover' }, 'DROVER_DATA_DIR', /"~\/drover": expected a path without ~/],
    [{ DROVER_LEASE_MS: '30s' }, 'DROVER_LEASE_MS', /"30s"/],
    [{ DROVER_LEASE_MS: '-1' }, 'DROVER_LEASE_MS', /whole number/],
    [{ DROVER_SHUTDOWN_MS: 'soon' }, 'DROVER_SHUTDOWN_MS', /whole number/],
    [{ DROVER_WORKER_PORT: 'any' }, 'DROVER_WORKER_PORT', /whole number from 0 to 65535/],
    [{ DROVER_POOL_SIZE: '0' }, 'DROVER_POOL_SIZE', /from 1/],
    [{ DROVER_QUEUES: 'turn' }, 'DROVER_QUEUES', /"turn": expected names among turns, tool-calls/],
    [{ DROVER_QUEUES: ' ,' }, 'DROVER_QUEUES', /is ",": expected an entry, or nothing/],
    [{ DROVER_QUEUES: 'turns,dreams' }, 'DROVER_QUEUES', /"dreams": expected names among turns/],
    [{ DROVER_QUEUES: '50' }, 'DROVER_QUEUES', /names among/],
    [{ DROVER_QUEUES: 'turns=0' }, 'DROVER_QUEUES', /has "turns=0": expected a whole number from 1/],
    [{ DROVER_QUEUES: 'turns=5,turns=6' }, 'DROVER_QUEUES', /has "turns" twice: expected each name once/],
    [{ DROVER_CONCURRENCY: 'turns=5,7,turns=6' }, 'DROVER_CONCURRENCY', /"turns" twice/],
    [{ DROVER_CONCURRENCY: '7,8' }, 'DROVER_CONCURRENCY', /twice/],
    [{ DROVER_CONCURRENCY: 'turns' }, 'DROVER_CONCURRENCY', /turns=50/],
    [{ DROVER_CONCURRENCY: 'turns=0' }, 'DROVER_CONCURRENCY', /from 1/],
    [{ DROVER_CONCURRENCY: 'turns=1=2' }, 'DROVER_CONCURRENCY', /names among/],
    [{ DROVER_EGRESS_ALLOW: 'https://x.example/a' }, 'DROVER_EGRESS_ALLOW', /hosts or CIDRs/],
    [{ DROVER_EGRESS_ALLOW: '10.0.0.0/99' }, 'DROVER_EGRESS_ALLOW', /"10.0.0.0\/99"/],
    [{ DROVER_EGRESS_ALLOW: 'a.example:99999' }, 'DROVER_EGRESS_ALLOW', /hosts or CIDRs/],
    [{ DROVER_EGRESS_ALLOW: 'a.example,300.1.1.1' }, 'DROVER_EGRESS_ALLOW', /"300\.1\.1\.1": expected hosts or CIDRs/],
    [{ DROVER_EGRESS_ALLOW: 'a.example,*' }, 'DROVER_EGRESS_ALLOW', /"\*": expected .+ without wildcards/],
    [{ DROVER_EGRESS_ALLOW: '*.example' }, 'DROVER_EGRESS_ALLOW', /"\*\.example"/],
    [{ DROVER_EGRESS_ALLOW: '10.0.0.256:443' }, 'DROVER_EGRESS_ALLOW', /hosts or CIDRs/],
    [{ DROVER_STDIO_COMMANDS: 'uvx,npx @acme/server' }, 'DROVER_STDIO_COMMANDS', /"npx @acme.+without their arguments/],
    [{ DROVER_MODEL: 'best' }, 'DROVER_MODEL', /provider\/model/],
    [{ DROVER_MODEL_LIMITS: 'claude=50' }, 'DROVER_MODEL_LIMITS', /requests and tokens/],
    [{ DROVER_MODEL_LIMITS: 'openai=:' }, 'DROVER_MODEL_LIMITS', /requests and tokens/],
    [{ DROVER_MODEL_LIMITS: 'openai=5,openai=6' }, 'DROVER_MODEL_LIMITS', /"openai" twice/],
    [{ DROVER_CONTEXT_WINDOWS: 'openai=8000,openai=9000' }, 'DROVER_CONTEXT_WINDOWS', /"openai" twice/],
    [{ DROVER_CONTEXT_WINDOWS: 'llama=8000' }, 'DROVER_CONTEXT_WINDOWS', /tokens that a model takes/],
    [{ DROVER_CONTEXT_WINDOWS: 'openai/llama=8' }, 'DROVER_CONTEXT_WINDOWS', /tokens that a model takes/],
    [{ DROVER_API_KEY: 'two words' }, 'DROVER_API_KEY', /without spaces/],
    [{ OPENAI_API_KEY: 'sk-hunter2…' }, 'OPENAI_API_KEY', /beyond ASCII: expected printable ASCII without spaces/],
    [{ ANTHROPIC_API_KEY: 'sk-hunter2\nsk-ant' }, 'ANTHROPIC_API_KEY', /without spaces/],
    [{ ANTHROPIC_API_KEY: 'Bearer hunter2' }, 'ANTHROPIC_API_KEY', /without spaces/],
    [{ ANTHROPIC_BASE_URL: 'api.example' }, 'ANTHROPIC_BASE_URL', /https?:\/\//],
    [{ OPENAI_BASE_URL: 'ftp://x' }, 'OPENAI_BASE_URL', /https?:\/\//],
    [{ LOG_LEVEL: 'loud' }, 'LOG_LEVEL', /info/],
    [{ DROVER_QUEUE_PREFIX: 'a:b' }, 'DROVER_QUEUE_PREFIX', /letters/],
  ];
  for (const [env, variable, expected] of mistakes) {
    it(`refuses ${JSON.stringify(env).replace(/hunter2/, '…')} with one line about ${variable}`, () => {
      assert.throws(
        () => loadConfig(env),
        (error) => {
          assert.ok(error instanceof ConfigError);
          assert.equal(error.variable, variable);
          assert.match(error.message, expected);
          assert.ok(error.message.startsWith(variable));
          assert.doesNotMatch(error.message, /\n|hunter2/);
          return true;
        },
      );
    });
  }

  it('either loads or throws a ConfigError of one line, whatever the values are', () => {
    const names = ['PORT', 'DATABASE_URL', 'REDIS_URL', 'DROVER_QUEUES', 'DROVER_CONCURRENCY', 'DROVER_DATA_DIR'];
    const environments = fc.record(Object.fromEntries(names.map((name) => [name, fc.string()])), { requiredKeys: [] });
    fc.assert(
      fc.property(environments, (env) => {
        try {
          loadConfig(env);
        } catch (error) {
          assert.ok(error instanceof ConfigError);
          assert.doesNotMatch(error.message, /[\r\n]/);
        }
      }),
    );
  });

  it('knows the address of a provider that is not used, as its key is not there', () => {
    const address = {
      OPENAI_BASE_URL: 'http://127.0.0.1:8090/v1',
      ANTHROPIC_BASE_URL: 'http://127.0.0.1:8091',
      ANTHROPIC_API_KEY: 'k',
    };
    assert.deepEqual(loadConfig(address).unusedAddresses, ['OPENAI_BASE_URL']);
    assert.deepEqual(loadConfig({ ...address, OPENAI_API_KEY: 'any' }).unusedAddresses, []);
  });
});
