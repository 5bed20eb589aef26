/** Requests by chance, out of the API's own description: none of them is Drover's fault. */
import assert from 'node:assert/strict';
import { openApi } from '../../api/kit/openapi.ts';
import { problem } from '../../api/kit/problems.ts';
import { ROUTES } from '../../api/routes.ts';
import { createRandom } from '../../scripts/torture/random.ts';
import { assertAsDescribed, startTestApi, type TestApi } from '../support/api.ts';
import { nextRequest, requestsWithNul, type FuzzRequest, type OpenApi } from '../support/fuzz.ts';
import { DOMAIN_MODES } from '../support/modes.ts';
import { sized } from '../support/size.ts';

const REQUESTS = sized({ usual: 600, nightly: 10_000 });
/** Requests after which another tenant makes them: an earlier one may have been suspended, or have lost its key. */
const PER_TENANT = 150;
/** Another one each night. */
const SEED = sized({ usual: 11, nightly: Math.floor(Date.now() / 86_400_000) });
const ID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;

for (const mode of DOMAIN_MODES) {
  describe(`Requests by chance, from the seed ${SEED}, in ${mode} mode`, function () {
    this.timeout(sized({ usual: 240_000, nightly: 3_600_000 }));
    let api: TestApi;
    before(async () => {
      api = await startTestApi(mode);
    });
    after(() => api.close());

    it('get an answer that the description promises, or a problem that is theirs', async () => {
      const document = openApi(ROUTES, { title: 'Drover', version: '1.2.3' }) as unknown as OpenApi;
      const random = createRandom(SEED, 'requests');
      const statuses = new Map<number, number>();
      let key = '';
      let ids: string[] = [];
      for (let n = 0; n < REQUESTS; n += 1) {
        if (n % PER_TENANT === 0) {
          ({ key } = await api.newTenant());
          ids = [];
        }
        const asked = nextRequest({ random, document, ids });
        const answer = await send(asked, key);
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
        assertFair(asked, answer);
        ids = [...new Set([...ids, ...(answer.text.match(ID) ?? [])])].slice(-40);
      }
      assert.ok(
        [200, 201, 400, 404].every((status) => statuses.has(status)),
        JSON.stringify([...statuses]),
      );
      assert.equal((await api.call('GET', '/readyz', { key: null })).status, 200);
    });

    it('get such an answer where any text of theirs has a NUL', async () => {
      const document = openApi(ROUTES, { title: 'Drover', version: '1.2.3' }) as unknown as OpenApi;
      const random = createRandom(SEED, 'texts');
      const { key } = await api.newTenant();
      const { json: agent } = await api.call('POST', '/v1/agents', { key, body: { name: 'nobody' } });
      const places = new Set<string>();
      for (const asked of requestsWithNul({ random, document, ids: [agent.id] })) {
        places.add(`${asked.method} ${asked.path}`);
        assertFair(asked, await send(asked, key));
      }
      assert.ok(places.size > 150, String(places.size));
    });

    /** An answer without an end is left when it has begun. */
    async function send({ method, path, headers, body }: FuzzRequest, key: string) {
      const response = await fetch(`${api.url}${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, ...headers },
        ...(body === undefined ? {} : { body }),
      });
      const isStream = /event-stream/.test(response.headers.get('content-type') ?? '');
      if (isStream) await response.body?.cancel();
      const text = isStream ? '' : await response.text();
      return { status: response.status, text, type: response.headers.get('content-type') ?? '' };
    }

    function assertFair(asked: FuzzRequest, { status, text, type }: { status: number; text: string; type: string }) {
      const about = `${JSON.stringify(asked).slice(0, 2000)}\n${status} ${text.slice(0, 500)}`;
      assert.ok(status < 500, about);
      const isHead = asked.method === 'HEAD';
      const json: unknown = /json/.test(type) && !isHead ? JSON.parse(text) : undefined;
      if (status >= 400 && !isHead) {
        assert.match(type, /^application\/problem\+json/, about);
        assert.equal(problem.parse(json).status, status, about);
      }
      assertAsDescribed(ROUTES, `${asked.method} ${asked.path}`, { status, text, json, headers: new Headers() });
    }
  });
}
