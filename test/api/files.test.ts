import assert from 'node:assert/strict';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { request } from 'node:http';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { FileStore } from '../../lib/file-store.ts';
import { filesystemStore } from '../../lib/filesystem-store.ts';
import { newId } from '../../lib/new-id.ts';
import { keepForRun } from '../../modules/files/keep-for-run.ts';
import { writeContent } from '../../modules/files/store-file.ts';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { maintain } from '../../modules/platform/maintain.ts';
import { startTestApi, type Answer, type TestApi } from '../support/api.ts';
import { onFilesystem, PLACES, type Place } from '../support/file-places.ts';
import { waitUntil } from '../support/wait-until.ts';
import { addUnwrittenContent, unstoredContents } from '../support/queries/files.ts';

for (const [name, open] of Object.entries(PLACES)) {
  describe(`files on ${name}`, function () {
    let place: Place;
    let api: TestApi;

    before(async () => {
      place = await open();
      api = await startTestApi(undefined, { env: { DROVER_FILES_URL: place.url } });
    });
    after(async () => {
      await api.close();
      await place.close();
    });

    const call = (method: string, path: string, options = {}) => api.call(method, path, options);

    it('come back as they were sent, with what is known of them', async () => {
      const bytes = randomBytes(300_000);
      const sent = await upload(api, bytes, { filename: 'report.pdf', type: 'application/x-thing' });
      assert.equal(sent.status, 201, sent.text);
      const { file_id: id, created_at: _, ...rest } = sent.json;
      assert.deepEqual(rest, {
        id,
        filename: 'report.pdf',
        size: bytes.length,
        mime_type: 'application/x-thing',
        sha256: createHash('sha256').update(bytes).digest('hex'),
        origin: 'user',
        trust: 'untrusted',
        thread_id: null,
        run_id: null,
      });
      assert.deepEqual((await call('GET', `/v1/files/${id}`)).json, sent.json);
      assert.deepEqual((await call('GET', '/v1/files?limit=1')).json.files, [sent.json]);
      const { status, headers, body } = await download(api, id);
      assert.deepEqual([status, body.equals(bytes)], [200, true]);
      assert.deepEqual(
        [
          'content-type',
          'content-length',
          'content-disposition',
          'x-content-type-options',
          'accept-ranges',
          'etag',
        ].map((header) => headers.get(header)),
        [
          'application/x-thing',
          '300000',
          `attachment; filename="report.pdf"; filename*=UTF-8''report.pdf`,
          'nosniff',
          'bytes',
          `"${rest.sha256}"`,
        ],
      );
    });

    it('give the part that is asked for, and say what they do not have', async () => {
      const bytes = randomBytes(1000);
      const { json } = await upload(api, bytes);
      const part = async (headers: Record<string, string>) => {
        const answer = await download(api, json.id, headers);
        return [answer.status, answer.headers.get('content-range'), answer.body.toString('hex')];
      };
      const hex = (from: number, to: number) => bytes.subarray(from, to).toString('hex');
      assert.deepEqual(await part({ range: 'bytes=10-19' }), [206, 'bytes 10-19/1000', hex(10, 20)]);
      assert.deepEqual(await part({ range: 'bytes=990-' }), [206, 'bytes 990-999/1000', hex(990, 1000)]);
      assert.deepEqual(await part({ range: 'bytes=-5' }), [206, 'bytes 995-999/1000', hex(995, 1000)]);
      assert.deepEqual(await part({ range: 'bytes=0-9999' }), [206, 'bytes 0-999/1000', hex(0, 1000)]);
      for (const range of ['bytes=0-1,5-6', 'lines=1-2', 'bytes=9-1', 'bytes=-'])
        assert.deepEqual(await part({ range }), [200, null, hex(0, 1000)], range);
      for (const range of ['bytes=1000-', 'bytes=-0', `bytes=${'9'.repeat(400)}-`])
        assert.deepEqual((await part({ range })).slice(0, 2), [416, 'bytes */1000'], range);
      const etag = `"${json.sha256}"`;
      assert.deepEqual(await part({ range: 'bytes=0-0', 'if-range': etag }), [206, 'bytes 0-0/1000', hex(0, 1)]);
      assert.deepEqual(await part({ range: 'bytes=0-0', 'if-range': '"other"' }), [200, null, hex(0, 1000)]);
      assert.deepEqual(await part({ 'if-none-match': `"x", W/${etag}` }), [304, null, '']);
      const head = async (headers: Record<string, string> = {}) => {
        const all = { ...auth(api), ...headers };
        const answer = await fetch(`${api.url}/v1/files/${json.id}/content`, { method: 'HEAD', headers: all });
        return [answer.status, answer.headers.get('content-range'), answer.headers.get('content-length')];
      };
      for (const range of ['', 'bytes=0-9', 'bytes=1000-'])
        assert.deepEqual(await head(range === '' ? {} : { range }), [200, null, '1000'], range);
    });

    it('are given only where If-Match names them', async () => {
      const { json } = await upload(api, randomBytes(100));
      const etag = `"${json.sha256}"`;
      const statusOf = async (method: 'GET' | 'HEAD', headers: Record<string, string>) => {
        const all = { ...auth(api), ...headers };
        const answer = await fetch(`${api.url}/v1/files/${json.id}/content`, { method, headers: all });
        return [
          answer.status,
          answer.status === 412 ? answer.headers.get('content-type') : (await answer.arrayBuffer()).byteLength,
        ];
      };
      const refused = [412, 'application/problem+json'];
      for (const ifMatch of ['"other"', `W/${etag}`, `"x", W/${etag}`, json.sha256]) {
        assert.deepEqual(await statusOf('GET', { 'if-match': ifMatch }), refused, ifMatch);
        assert.equal((await statusOf('HEAD', { 'if-match': ifMatch }))[0], 412, ifMatch);
      }
      for (const ifMatch of [etag, '*', `"x", ${etag}`])
        assert.deepEqual(await statusOf('GET', { 'if-match': ifMatch }), [200, 100], ifMatch);
      assert.deepEqual(await statusOf('HEAD', { 'if-match': '*' }), [200, 0]);
      assert.deepEqual(
        await statusOf('GET', { 'if-match': '"x"', 'if-none-match': etag }),
        refused,
        'If-Match is first',
      );
      assert.deepEqual(await statusOf('GET', { 'if-match': etag, range: 'bytes=0-9' }), [206, 10]);
    });

    it('are stored once for the same content, which goes with the last of them', async () => {
      const bytes = randomBytes(5000);
      const before = (await place.list()).length;
      const [one, two] = await Promise.all([upload(api, bytes), upload(api, bytes, { filename: 'copy' })]);
      assert.notEqual(one.json.id, two.json.id);
      assert.equal((await place.list()).length, before + 1);
      assert.equal((await call('DELETE', `/v1/files/${one.json.id}`)).status, 204);
      assert.equal((await call('GET', `/v1/files/${one.json.id}`)).status, 404);
      assert.ok((await download(api, two.json.id)).body.equals(bytes));
      assert.equal((await call('DELETE', `/v1/files/${two.json.id}`)).status, 204);
      assert.equal((await place.list()).length, before);
      assert.equal((await call('DELETE', `/v1/files/${two.json.id}`)).status, 404);
    });

    it('may be empty', async () => {
      const { json, status } = await upload(api, Buffer.alloc(0));
      assert.deepEqual([status, json.size], [201, 0]);
      const { status: got, headers, body } = await download(api, json.id);
      assert.deepEqual([got, headers.get('content-length'), body.length], [200, '0', 0]);
      assert.equal((await call('DELETE', `/v1/files/${json.id}`)).status, 204);
    });

    it('leave nothing of an upload that breaks off, or that is refused', async () => {
      const before = await place.list();
      const form = multipart([{ name: 'file', filename: 'x', content: randomBytes(200_000) }]);
      await new Promise<void>((resolve) => {
        const broken = request(`${api.url}/v1/files`, {
          method: 'POST',
          headers: { ...auth(api), ...form.headers, 'content-length': form.body.length },
        });
        broken.on('error', () => resolve());
        broken.write(form.body.subarray(0, 150_000), () => broken.destroy());
      });
      const twice = await send(api, [
        { name: 'file', filename: 'a', content: randomBytes(1000) },
        { name: 'file', filename: 'b', content: randomBytes(1000) },
      ]);
      assert.deepEqual([twice.status, twice.json.detail], [400, 'There is more than one file.']);
      await waitUntil('all of them are gone', async () => {
        const garbage = await unstored(api);
        return garbage.length === 0 && (await place.list()).length === before.length;
      });
    });

    it('are swept where a writer has died before they were any', async () => {
      const id = randomUUID();
      const tenant = DEFAULT_TENANT_ID;
      await addUnwrittenContent({ ...api, tenantId: tenant }, id, 25);
      await addUnwrittenContent({ ...api, tenantId: tenant }, randomUUID(), 23);
      const { fileStore } = api.context;
      await fileStore?.write(`${tenant}/${id}`, Readable.from([Buffer.from('half')]), new AbortController().signal);
      assert.ok((await place.list()).some((key) => key.endsWith(id)));
      assert.deepEqual(await maintain(api.context, 'sweep-files'), { swept: 1 });
      assert.ok(!(await place.list()).some((key) => key.endsWith(id)));
      assert.equal((await unstored(api)).filter(({ state }) => state === 'writing').length, 1);
    });
  });
}

describe('files', function () {
  let place: Place;
  let api: TestApi;

  before(async () => {
    place = await onFilesystem();
    api = await startTestApi(undefined, { env: { DROVER_FILES_URL: place.url } });
  });
  after(async () => {
    await api.close();
    await place.close();
  });

  it('are held to what a tenant may have, however many come at once', async () => {
    const tenant = await api.newTenant();
    const settings = { files: { file_bytes: 2000, total_bytes: 3500 } };
    await api.call('PATCH', `/v1/tenants/${tenant.id}`, { body: { settings } });
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => upload(api, randomBytes(1000), { key: tenant.key })),
    );
    const made = answers.filter(({ status }) => status === 201);
    assert.equal(made.length, 3);
    const refused = answers.filter(({ status }) => status !== 201).map(({ status, json }) => [status, json.code]);
    assert.deepEqual(
      refused,
      Array.from({ length: 5 }, () => [413, 'quota-exceeded']),
    );
    assert.equal((await upload(api, randomBytes(2001), { key: tenant.key })).json.code, 'too-large');
    const [first] = made;
    await api.call('DELETE', `/v1/files/${first?.json.id}`, { key: tenant.key });
    assert.equal((await upload(api, randomBytes(1000), { key: tenant.key })).status, 201);
    assert.equal((await upload(api, randomBytes(1000), { key: tenant.key })).status, 413);
    await waitUntil('only what is kept is there', async () => {
      return (await place.list()).filter((key) => key.startsWith(tenant.id)).length === 3;
    });
  });

  it('of a content that the tenant has are stored when it is full, since that takes no room', async () => {
    const tenant = await api.newTenant();
    await api.call('PATCH', `/v1/tenants/${tenant.id}`, { body: { settings: { files: { total_bytes: 1000 } } } });
    const bytes = randomBytes(1000);
    const [first, again] = [
      await upload(api, bytes, { key: tenant.key }),
      await upload(api, bytes, { key: tenant.key }),
    ];
    assert.deepEqual([first.status, again.status, again.json.size], [201, 201, 1000]);
    assert.equal((await upload(api, randomBytes(1), { key: tenant.key })).json.code, 'quota-exceeded');
    await api.call('DELETE', `/v1/files/${first.json.id}`, { key: tenant.key });
    assert.ok((await download(api, again.json.id, auth(api, tenant.key))).body.equals(bytes));
  });

  it('of the same content are apart in two tenants', async () => {
    const [anna, ben] = [await api.newTenant(), await api.newTenant()];
    const bytes = randomBytes(500);
    const ofAnna = await upload(api, bytes, { key: anna.key });
    const ofBen = await upload(api, bytes, { key: ben.key });
    for (const path of ['', '/content'])
      assert.equal((await api.call('GET', `/v1/files/${ofAnna.json.id}${path}`, { key: ben.key })).status, 404);
    assert.equal((await api.call('DELETE', `/v1/files/${ofAnna.json.id}`, { key: ben.key })).status, 404);
    assert.equal((await api.call('DELETE', `/v1/files/${ofAnna.json.id}`, { key: anna.key })).status, 204);
    assert.ok((await download(api, ofBen.json.id, auth(api, ben.key))).body.equals(bytes));
  });

  it('are deleted once, however many ask for it at once, and the audit log has it once', async () => {
    for (let round = 0; round < 10; round += 1) {
      const { json } = await upload(api, randomBytes(10));
      const answers = await Promise.all(Array.from({ length: 5 }, () => api.call('DELETE', `/v1/files/${json.id}`)));
      const found = answers.map(({ status }) => status).toSorted((a, b) => a - b);
      assert.deepEqual(found, [204, 404, 404, 404, 404]);
      const { json: audit } = await api.call('GET', `/v1/audit?action=file.deleted&target=${json.id}`);
      assert.equal(audit.audit.length, 1);
    }
  });

  it('are of one workspace', async () => {
    const tenant = await api.newTenant();
    const { json: key } = await api.call('POST', '/v1/api-keys', {
      key: tenant.key,
      body: { name: 'reader', scopes: ['runs:read'] },
    });
    const { json } = await upload(api, Buffer.from('x'), { key: tenant.key });
    assert.equal((await api.call('GET', `/v1/files/${json.id}`, { key: key.key })).status, 200);
    assert.equal((await upload(api, Buffer.from('x'), { key: key.key })).status, 403);
    assert.equal((await api.call('DELETE', `/v1/files/${json.id}`, { key: key.key })).status, 403);
  });

  it('are made once for one Idempotency-Key', async () => {
    const bytes = randomBytes(100);
    const headers = { 'idempotency-key': randomUUID() };
    const one = await upload(api, bytes, { headers });
    const two = await upload(api, bytes, { headers });
    assert.deepEqual([two.status, two.json], [201, one.json]);
    assert.equal(two.headers.get('idempotent-replayed'), 'true');
    assert.equal((await upload(api, randomBytes(100), { headers })).status, 422);
    assert.deepEqual(await unstored(api), []);
  });

  it('are named by the last part of their name, and are what their first bytes say', async () => {
    const png = Buffer.from('89504e470d0a1a0a0000', 'hex');
    const named = async (filename: string, type: string, content: Buffer = Buffer.from('x')) => {
      const { json } = await upload(api, content, { filename, type });
      return [json.filename, json.mime_type];
    };
    assert.deepEqual(await named('../../etc/passwd', 'text/plain'), ['passwd', 'text/plain']);
    assert.deepEqual(await named('C:\\\\temp\\\\a.md', 'application/octet-stream'), ['a.md', 'text/markdown']);
    assert.deepEqual(await named('..', 'application/octet-stream'), ['file', 'application/octet-stream']);
    assert.deepEqual(await named('a\u202eb.png', 'image/png'), ['ab.png', 'application/octet-stream']);
    assert.deepEqual(await named('a.txt', 'text/plain', png), ['a.txt', 'image/png']);
    assert.deepEqual(await named('data.JSON', 'text/plain'), ['data.JSON', 'application/json']);
    assert.deepEqual(await named('data.json', 'text/csv'), ['data.json', 'text/csv']);
    assert.deepEqual(await named('sum.py', 'application/octet-stream'), ['sum.py', 'text/plain']);
    assert.deepEqual(await named('sum.sql', 'application/sql'), ['sum.sql', 'application/sql']);
    assert.deepEqual(await named('site.css', 'application/octet-stream'), ['site.css', 'text/css']);
    const part = '--b\r\ncontent-disposition: form-data; name="file"; filename="rows.csv"\r\n\r\na,b\r\n--b--\r\n';
    const without = await api.call('POST', '/v1/files', {
      raw: part,
      headers: { 'content-type': 'multipart/form-data; boundary=b' },
    });
    assert.deepEqual([without.status, without.json.mime_type], [201, 'text/csv']);
    assert.deepEqual(await named('x'.repeat(300), 'Text/Plain; charset=utf-8'), ['x'.repeat(255), 'text/plain']);
    const { json } = await upload(api, Buffer.from('<script>'), { filename: 'Ä".html', type: 'text/html' });
    const { headers } = await download(api, json.id);
    assert.equal(headers.get('content-type'), 'application/octet-stream');
    assert.equal(headers.get('content-disposition'), `attachment; filename="__.html"; filename*=UTF-8''%C3%84%22.html`);
    assert.match(headers.get('content-security-policy') ?? '', /sandbox/);
    const acted = ['text/xsl', 'text/css', 'application/hta', 'message/rfc822', 'multipart/x-mixed-replace'];
    acted.push('text/x-component', 'text/rdf', 'application/java-archive');
    const inert = ['text/csv', 'audio/mpeg', 'application/zip', 'application/vnd.oasis.opendocument.text'];
    for (const type of [...acted, ...inert]) {
      const { json: file } = await upload(api, Buffer.from('some'), { filename: 'some', type });
      assert.equal(file.mime_type, type);
      const served = (await download(api, file.id)).headers.get('content-type');
      assert.equal(served, acted.includes(type) ? 'application/octet-stream' : type);
    }
  });

  it('are refused where the request is not what it should be', async () => {
    const status = async (parts: Part[], headers = {}) => {
      const answer = await send(api, parts, headers);
      return `${answer.status} ${answer.json.detail}`;
    };
    const file = { name: 'file', filename: 'a', content: Buffer.from('x') };
    assert.equal(await status([]), '400 There is no file: it comes in the part "file".');
    const unnamed = await status([{ name: 'file', content: Buffer.from('x') }]);
    assert.equal(unnamed, '400 The part "file" is no file without a filename.');
    assert.match(await status([{ ...file, name: 'other' }]), /^400 The part "other" is a file/);
    assert.match(await status([{ name: 'nonsense', content: Buffer.from('x') }, file]), /^400 .*not a known field/);
    assert.match(await status([file, { name: 'thread_id', content: Buffer.from('x') }]), /^400 .*thread_id/);
    assert.match(await status([file, { name: 'thread_id', content: Buffer.from(randomUUID()) }]), /^404 The thread/);
    assert.match(await status([file, { name: 'thread_id', content: randomBytes(5000) }]), /^413 A field/);
    const many = Array.from({ length: 20 }, (_, index) => ({ name: `f${index}`, content: Buffer.from('x') }));
    assert.match(await status([...many, file]), /^400 There are too many fields/);
    const raw = (type: string, body: string) =>
      api.call('POST', '/v1/files', { raw: body, headers: { 'content-type': type } });
    assert.equal((await raw('application/json', '{}')).status, 415);
    assert.equal((await raw('multipart/form-data', 'x')).status, 400);
    assert.equal((await raw('multipart/form-data; boundary=x', '--x\r\nhalf')).status, 400);
    const unending = multipart([file]);
    assert.equal(
      (await raw('multipart/form-data; boundary=b', unending.body.toString('latin1').slice(0, -10))).status,
      400,
    );
    assert.deepEqual(await unstored(api), []);
  });

  it('do not wait for a field that has no end', async () => {
    const socket = connect(Number(new URL(api.url).port), '127.0.0.1');
    const received: string[] = [];
    socket.on('data', (chunk: Buffer) => received.push(chunk.toString()));
    socket.on('error', () => undefined);
    const head = [
      'POST /v1/files HTTP/1.1',
      'host: x',
      `authorization: Bearer ${api.key}`,
      'content-type: multipart/form-data; boundary=b',
      'transfer-encoding: chunked',
      '',
      '',
    ];
    socket.write(head.join('\r\n'));
    const say = (text: string) => socket.write(`${text.length.toString(16)}\r\n${text}\r\n`);
    say('--b\r\ncontent-disposition: form-data; name="thread_id"\r\n\r\n');
    for (let count = 0; count < 100 && received.length === 0; count += 1) {
      say('x'.repeat(16 * 1024));
      await new Promise((resolve) => setImmediate(resolve));
    }
    await waitUntil('it is answered', () => received.length > 0);
    assert.match(received.join(''), /^HTTP\/1\.1 413 /);
    socket.destroy();
  });

  it('go with the thread that they were stored for, and with its last run', async () => {
    const { json: agent } = await api.call('POST', '/v1/agents', { body: { name: randomUUID() } });
    const { json: run } = await api.call('POST', `/v1/agents/${agent.id}/runs`, { body: {} });
    const stored = { name: 'file', filename: 'a.txt', content: randomBytes(100) };
    const parts = [{ name: 'thread_id', content: Buffer.from(run.thread_id) }, stored];
    const name = `ext:${randomUUID()}`;
    const named = () => send(api, [{ name: 'thread_id', content: Buffer.from(name) }, stored]);
    assert.deepEqual(((answer) => [answer.status, answer.json.detail])(await named()), [
      404,
      `The thread "${name}" does not exist.`,
    ]);
    await api.call('PATCH', `/v1/threads/${run.thread_id}`, { body: { external_id: name.slice(4) } });
    const byName = await named();
    assert.deepEqual([byName.status, byName.json.thread_id], [201, run.thread_id], byName.text);
    await api.call('DELETE', `/v1/files/${byName.json.id}`);
    const { json: file, text } = await send(api, parts);
    assert.equal(file.thread_id, run.thread_id, text);
    const listed = await api.call('GET', `/v1/files?thread_id=${run.thread_id}`);
    assert.deepEqual(
      listed.json.files.map(({ id }: { id: string }) => id),
      [file.id],
    );
    const before = (await place.list()).length;
    assert.equal((await api.call('DELETE', `/v1/threads/${run.thread_id}`)).status, 202);
    assert.equal((await api.call('GET', `/v1/files/${file.id}`)).status, 404);
    assert.equal((await place.list()).length, before - 1);
    assert.equal((await send(api, parts)).status, 409);
  });

  it('need a place, which is named where it is missing', async () => {
    const nothing = { source: Readable.from([]), signal: new AbortController().signal };
    const homeless = { ...api.context, fileStore: undefined };
    await assert.rejects(writeContent(homeless, DEFAULT_TENANT_ID, nothing), /DROVER_FILES_URL is not set/);
  });

  it('of a run are read no further where they cannot be kept', async () => {
    const homeless = { ...api.context, fileStore: undefined };
    const source = new Readable({ read: () => undefined });
    const of = { tenantId: DEFAULT_TENANT_ID, runId: newId(), signal: new AbortController().signal };
    const made = { source, filename: 'page.html', mimeType: 'text/html', origin: 'provider' as const };
    await assert.rejects(keepForRun(homeless, of, made), /DROVER_FILES_URL is not set/);
    assert.ok(source.destroyed);
  });

  it('are told to come again where the disk is full, which the log says', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'drover-test-full-'));
    await symlink('/dev/full', join(folder, 'content'));
    const { write } = filesystemStore(folder);
    const full: FileStore['write'] = (_key, content, signal) => write('content', content, signal);
    const other = await startTestApi(undefined, { env: { DROVER_FILES_URL: place.url } });
    const { fileStore } = other.context;
    assert.ok(fileStore);
    fileStore.write = full;
    const refused = await upload(other, randomBytes(1_000_000));
    await other.close();
    await rm(folder, { recursive: true });
    assert.deepEqual([refused.status, refused.json.code], [503, 'unavailable'], refused.text);
    assert.match(refused.json.detail, /^The file store has no room left/);
    assert.match(JSON.stringify(other.log), /The file store could not write: Error ENOSPC/);
  });

  it('are told to come again where the store is away, without its address', async () => {
    const other = await startTestApi(undefined, {
      env: { DROVER_FILES_URL: 's3://key:hidden-secret@no-bucket?endpoint=http://127.0.0.1:9' },
    });
    const away = await upload(other, Buffer.from('x'));
    assert.deepEqual([away.status, away.json.code], [503, 'unavailable'], away.text);
    await other.close();
    const told = away.text + JSON.stringify(other.log);
    for (const secret of ['hidden-secret', 'no-bucket']) assert.ok(!told.includes(secret), told);
  });
});

interface Part {
  name: string;
  filename?: string;
  type?: string;
  content: Buffer;
}

const BOUNDARY = 'b';

function multipart(parts: readonly Part[]): { headers: Record<string, string>; body: Buffer } {
  const chunks = parts.flatMap(({ name, filename, type, content }) => [
    Buffer.from(
      `--${BOUNDARY}\r\ncontent-disposition: form-data; name="${name}"${filename === undefined ? '' : `; filename="${filename.replaceAll('"', '\\"')}"`}\r\n` +
        `${type === undefined ? '' : `content-type: ${type}\r\n`}\r\n`,
    ),
    content,
    Buffer.from('\r\n'),
  ]);
  return {
    headers: { 'content-type': `multipart/form-data; boundary=${BOUNDARY}` },
    body: Buffer.concat([...chunks, Buffer.from(`--${BOUNDARY}--\r\n`)]),
  };
}

const auth = ({ key }: Pick<TestApi, 'key'>, other?: string) => ({ authorization: `Bearer ${other ?? key}` });

function send(api: TestApi, parts: readonly Part[], headers: Record<string, string> = {}): Promise<Answer> {
  const form = multipart(parts);
  return api.call('POST', '/v1/files', { raw: form.body, headers: { ...form.headers, ...headers } });
}

function upload(
  api: TestApi,
  content: Buffer,
  {
    filename = 'file.bin',
    type,
    key,
    headers = {},
  }: { filename?: string; type?: string; key?: string; headers?: Record<string, string> } = {},
): Promise<Answer> {
  const form = multipart([{ name: 'file', filename, content, ...(type !== undefined && { type }) }]);
  return api.call('POST', '/v1/files', {
    raw: form.body,
    headers: { ...form.headers, ...headers },
    ...(key !== undefined && { key }),
  });
}

async function download(
  api: TestApi,
  id: string,
  headers: Record<string, string> = {},
): Promise<{ status: number; headers: Headers; body: Buffer }> {
  const response = await fetch(`${api.url}/v1/files/${id}/content`, { headers: { ...auth(api), ...headers } });
  return { status: response.status, headers: response.headers, body: Buffer.from(await response.arrayBuffer()) };
}

function unstored({ context }: TestApi): ReturnType<typeof unstoredContents> {
  return unstoredContents({ context, tenantId: DEFAULT_TENANT_ID });
}
