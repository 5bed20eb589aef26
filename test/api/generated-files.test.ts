/** Files that a provider's own code makes, fetched over the documented form of its Files API. */
import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startTestApi, type TestApi } from '../support/api.ts';
import { startFakeAnthropic, type FakeFile } from '../support/fake-anthropic.ts';
import { startServer } from '../support/echo-server.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { startWorkers, type Workers } from '../../workers/start-workers.ts';

const CODE = { type: 'code_execution_20250825', name: 'code_execution' };
const PNG = Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), randomBytes(2000)]);

describe('Files that a provider makes', function suite() {
  this.timeout(300_000);
  let folder: string;
  let claude: FakeServer;
  let api: TestApi;
  let workers: Workers;
  let elsewhere: Awaited<ReturnType<typeof startServer>>;
  const files = new Map<string, FakeFile>();
  /** Ids that the next answer names. */
  let made: string[] = [];

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'drover-generated-'));
    elsewhere = await startServer((_, response) => response.end('stolen'));
    claude = await startFakeAnthropic(
      () => ({
        content: [
          { type: 'server_tool_use', id: 'srvtoolu_1', name: 'bash_code_execution', input: { command: 'plot' } },
          {
            type: 'bash_code_execution_tool_result',
            tool_use_id: 'srvtoolu_1',
            content: {
              type: 'bash_code_execution_result',
              stdout: '',
              stderr: '',
              return_code: 0,
              content: made.map((file_id) => ({ type: 'bash_code_execution_output', file_id })),
            },
          },
          { type: 'text', text: 'plotted' },
        ],
        container: { id: 'container_1' },
      }),
      { files },
    );
    const env = {
      DROVER_FILES_URL: `file:${folder}`,
      ANTHROPIC_API_KEY: 'test',
      ANTHROPIC_BASE_URL: claude.url,
    };
    api = await startTestApi(undefined, { env, forWorkers: true });
    workers = await startWorkers(api.context);
  });
  after(async () => {
    await workers.stop(5000);
    await api.close();
    await Promise.all([claude.close(), elsewhere.close()]);
    await rm(folder, { recursive: true, force: true });
  });

  /** A finished turn whose answer names these. */
  async function ask(ids: string[], key: string = api.key) {
    made = ids;
    const llm_config = { default_model: 'anthropic/claude-sonnet-5', server_tools: [CODE] };
    const agent = await api.call('POST', '/v1/agents', { body: { name: randomUUID(), llm_config }, key });
    const { json: run } = await api.call('POST', `/v1/agents/${agent.json.id}/runs`, { body: {}, key });
    const body = { input: { message: 'Plot it.' } };
    const turn = await api.call('POST', `/v1/runs/${run.run_id}/turns`, { body, key });
    assert.deepEqual([turn.status, turn.json.output?.message], [200, 'plotted'], turn.text);
    const { json } = await api.call('GET', `/v1/runs/${run.run_id}/events?types=file.stored,file.failed`, { key });
    const payloads: Record<string, unknown>[] = json.events.map(({ payload }: { payload: object }) => payload);
    const kept = (await api.call('GET', `/v1/files?run_id=${run.run_id}`, { key })).json.files;
    return { run: run.run_id as string, thread: run.thread_id as string, payloads, kept };
  }
  const codes = (payloads: Record<string, unknown>[]) =>
    payloads.map(({ error }) => (error as { code: string } | undefined)?.code ?? 'stored');
  const offer = (file: Partial<FakeFile>) => {
    const id = `file_${randomUUID().replaceAll('-', '')}`;
    files.set(id, { filename: 'plot.png', mime_type: 'image/png', content: PNG, ...file });
    return id;
  };

  it('are files of the run, untrusted, once each, and go with its thread', async () => {
    const id = offer({});
    const { run, thread, payloads, kept } = await ask([id, id]);
    assert.equal(kept.length, 1);
    const [file] = kept;
    const { filename, size, mime_type, origin, trust, run_id } = file;
    assert.deepEqual(
      { filename, size, mime_type, origin, trust, run_id },
      {
        filename: 'plot.png',
        size: PNG.length,
        mime_type: 'image/png',
        origin: 'provider',
        trust: 'untrusted',
        run_id: run,
      },
    );
    assert.deepEqual(payloads, [{ file_id: file.id, provider: 'anthropic', mime_type: 'image/png', size: PNG.length }]);
    const { json: log } = await api.call('GET', `/v1/runs/${run}/log`);
    const actions = JSON.stringify(log);
    for (const type of ['file_generated', 'file_downloaded', 'file_stored']) assert.match(actions, new RegExp(type));
    const { json: shown } = await api.call('GET', `/v1/threads/${thread}/conversations`);
    assert.match(JSON.stringify(shown), new RegExp(file.id));
    await api.call('DELETE', `/v1/threads/${thread}`);
    assert.equal((await api.call('GET', `/v1/files/${file.id}`)).status, 404);
  });

  it('never fail the answer: gone, redirected, ill-named or too many are told', async () => {
    const gone = await ask([offer({ status: 404 })]);
    assert.deepEqual([codes(gone.payloads), gone.kept], [['http_404'], []]);
    const away = await ask([offer({ status: 302, location: `${elsewhere.url}/key` })]);
    assert.deepEqual([codes(away.payloads), away.kept.length, elsewhere.seen.length], [['fetch_failed'], 0, 0]);
    const before = claude.requests.length;
    assert.deepEqual((await ask(['../v1/models', 'file_a/../../b'])).payloads, []);
    assert.equal(claude.requests.length, before + 1, 'such a name is asked for nowhere');
    const many = await ask(Array.from({ length: 22 }, () => offer({})));
    assert.deepEqual([many.kept.length, codes(many.payloads).at(-1)], [20, 'too_many_files']);
  });

  it('are held to what a file and a tenant may have', async () => {
    const tenant = await api.newTenant();
    const settings = { files: { file_bytes: 3000, total_bytes: 4500 } };
    await api.call('PATCH', `/v1/tenants/${tenant.id}`, { body: { settings } });
    const large = await ask([offer({ content: randomBytes(3001), hang: true })], tenant.key);
    assert.deepEqual([codes(large.payloads), large.kept], [['too-large'], []]);
    const ids = [1, 2, 3].map(() => offer({ content: randomBytes(2000) }));
    const full = await ask(ids, tenant.key);
    assert.deepEqual([codes(full.payloads), full.kept.length], [['stored', 'stored', 'quota-exceeded'], 2]);
  });
});
