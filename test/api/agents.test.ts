import assert from 'node:assert/strict';
import { startTestApi } from '../support/api.ts';
import type { TestApi } from '../support/api.ts';
import { walkList } from '../support/walk-list.ts';

describe('agents over HTTP', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());

  const create = async (body: Record<string, unknown>) => {
    const answer = await api.call('POST', '/v1/agents', { body });
    assert.equal(answer.status, 201, answer.text);
    return answer.json;
  };
  const patch = (id: string, body: unknown) => api.call('PATCH', `/v1/agents/${id}`, { body });

  it('are registered with a name alone', async () => {
    const answer = await api.call('POST', '/v1/agents', { body: { name: 'Solo' } });
    assert.equal(answer.status, 201);
    const { id, agent_id, name, version, status } = answer.json;
    assert.deepEqual(
      { name, version, status, agent_id },
      { name: 'Solo', version: '1.0.0', status: 'active', agent_id: id },
    );
    assert.equal(answer.headers.get('location'), `/v1/agents/${id}`);
  });

  it('show their definition as it was sent', async () => {
    const definition = {
      name: 'Full',
      version: '2.3.4',
      description: 'd',
      system_prompt: {
        role: 'r',
        examples: ['one', { question: 'q', steps: [{ tool: 'calculator', input: { expression: '1' } }] }],
      },
      tools: ['calculator'],
      llm_config: { default_model: 'offline', fallback_model: 'anthropic/claude-sonnet-5' },
      metadata: { team: 'x' },
      tags: ['t'],
      capabilities: [{ skill_name: 's', domain: 'd', proficiency: 0.5 }],
      constraints: { max_concurrent_tasks: 2 },
      health: { avg_tokens_per_task: 100 },
      memory_config: {
        long_term: { enabled: true },
        short_term: { strategy: 'hybrid' },
        procedural: { enabled: true },
      },
      guardrail_config: { input_rails: [] },
    };
    const { id } = await create(definition);
    const { json } = await api.call('GET', `/v1/agents/${id}`);
    for (const [field, value] of Object.entries(definition)) assert.deepEqual(json[field], value, field);
  });

  it('naming tools that are not there, twice the same, or unknown models are 422 with the place', async () => {
    const { status, json } = await api.call('POST', '/v1/agents', {
      body: {
        name: 'x',
        tools: ['nowhere', 'calculator', 'calculator'],
        llm_config: { default_model: 'palm' },
        model_preferences: { fallback_models: ['offline', 'llama'] },
      },
    });
    assert.equal(status, 422);
    assert.deepEqual(json.errors.map((error: { path: string }) => error.path).toSorted(), [
      'body.llm_config.default_model',
      'body.model_preferences.fallback_models.1',
      'body.tools.0',
      'body.tools.2',
    ]);
  });

  for (const [path, fields] of Object.entries({
    'guardrail_config.input_rails': { guardrail_config: { input_rails: [{ type: 'pii' }] } },
    'tool_bindings.0': { tool_bindings: [{ rate_limit: 1 }] },
  })) {
    it(`asking for ${path} are 400: nothing would come of it, and silence would pretend otherwise`, async () => {
      const { status, json } = await api.call('POST', '/v1/agents', { body: { name: 'x', ...fields } });
      assert.deepEqual([status, json.errors.length, json.errors[0].path], [400, 1, `body.${path}`]);
    });
  }

  describe('when patched', () => {
    it('get a new version; null takes a field away, what is absent stays', async () => {
      const { id } = await create({ name: 'p', description: 'old', tags: ['a'] });
      const { status, json } = await patch(id, { description: null, tools: ['calculator'] });
      assert.equal(status, 200);
      assert.equal(json.version, '1.1.0');
      assert.deepEqual([json.description, json.tags, json.tools], [undefined, ['a'], ['calculator']]);
    });

    it('keep their earlier versions as they were', async () => {
      const { id } = await create({ name: 'v', description: 'one' });
      await patch(id, { description: 'two', version: '3.0.0' });
      const { json } = await api.call('GET', `/v1/agents/${id}/versions`);
      const seen = json.versions.map((each: { version: string; description: string }) => [
        each.version,
        each.description,
      ]);
      assert.deepEqual(seen, [
        ['3.0.0', 'two'],
        ['1.0.0', 'one'],
      ]);
      const first = (await api.call('GET', `/v1/agents/${id}/versions/1.0.0`)).json;
      assert.equal(first.description, 'one');
      const ids: string[] = json.versions.map((each: { id: string }) => each.id);
      assert.equal(ids[1], first.id);
      assert.equal(new Set([id, ...ids]).size, 3);
      assert.match(first.id, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
      assert.equal((await api.call('GET', `/v1/agents/${id}/versions/2.0.0`)).status, 404);
    });

    it('to a version that is not above the current one are 422', async () => {
      const { id } = await create({ name: 'v 1.10', version: '1.10.0' });
      for (const version of ['1.10.0', '1.9.0', '0.99.99']) {
        const { status, json } = await patch(id, { version, description: 'x' });
        assert.equal(status, 422);
        assert.deepEqual([json.errors[0].path, /above.*1\.10\.0/.test(json.errors[0].message)], ['body.version', true]);
      }
    });

    it('with nothing new publish nothing', async () => {
      const { id } = await create({ name: 'same', tags: ['a'] });
      assert.equal((await patch(id, { tags: ['a'] })).json.version, '1.0.0');
      assert.equal((await patch(id, {})).json.version, '1.0.0');
    });

    it('by many at once lose no change', async () => {
      const { id } = await create({ name: 'busy' });
      const fields = [{ tags: ['t'] }, { description: 'd' }, { metadata: { m: '1' } }, { permissions: ['p'] }];
      const answers = await Promise.all(fields.map((field) => patch(id, field)));
      assert.deepEqual(
        answers.map(({ status }) => status),
        [200, 200, 200, 200],
      );
      const { json } = await api.call('GET', `/v1/agents/${id}`);
      assert.deepEqual(
        [json.version, json.tags, json.description, json.metadata, json.permissions],
        ['1.4.0', ['t'], 'd', { m: '1' }, ['p']],
      );
    });
  });

  it('are deprecated by DELETE, once and again, and take no more versions', async () => {
    const { id } = await create({ name: 'old' });
    assert.equal((await api.call('DELETE', `/v1/agents/${id}`)).status, 204);
    assert.equal((await api.call('DELETE', `/v1/agents/${id}`)).status, 204);
    assert.equal((await api.call('GET', `/v1/agents/${id}`)).json.status, 'deprecated');
    assert.equal((await patch(id, { description: 'x' })).status, 409);
  });

  it('are listed newest first, page by page, each once', async () => {
    const { key } = await api.newTenant();
    const made: string[] = [];
    for (let index = 0; index < 5; index += 1) {
      made.unshift((await api.call('POST', '/v1/agents', { key, body: { name: `a${index}` } })).json.id);
    }
    const seen: string[] = [];
    let cursor = '';
    let pages = 0;
    do {
      const { json } = await api.call('GET', `/v1/agents?limit=2${cursor}`, { key });
      seen.push(...json.agents.map(({ id }: { id: string }) => id));
      cursor = json.next_cursor === undefined ? '' : `&cursor=${json.next_cursor}`;
      pages += 1;
    } while (cursor !== '');
    assert.deepEqual([seen, pages], [made, 3]);
  });

  it('that are large are listed in pages that end where they are large enough, and so are their versions', async () => {
    const input = { text: 'x'.repeat(1_500_000) };
    const large = { system_prompt: { examples: [{ question: 'q', steps: [{ tool: 'calculator', input }] }] } };
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.unshift((await create({ name: `large ${n}`, ...large })).id);
    for (let n = 0; n < 4; n++) await patch(ids[0] ?? '', { description: `d${n}` });
    const listed = await walkList(api, '/v1/agents', { list: 'agents' });
    assert.deepEqual(
      listed.slice(0, 5).map(({ id }) => id),
      ids,
    );
    assert.equal(new Set(listed.map(({ id }) => id)).size, listed.length);
    const versions = await walkList(api, `/v1/agents/${ids[0]}/versions`, { list: 'versions' });
    assert.deepEqual(
      versions.map(({ version }) => version),
      ['1.4.0', '1.3.0', '1.2.0', '1.1.0', '1.0.0'],
    );
  });

  it('can be listed by status', async () => {
    const { key } = await api.newTenant();
    const { json: gone } = await api.call('POST', '/v1/agents', { key, body: { name: 'gone' } });
    await api.call('POST', '/v1/agents', { key, body: { name: 'here' } });
    await api.call('DELETE', `/v1/agents/${gone.id}`, { key });
    const { json } = await api.call('GET', '/v1/agents?status=deprecated', { key });
    assert.deepEqual(
      json.agents.map(({ id }: { id: string }) => id),
      [gone.id],
    );
  });

  it('are found by an id in upper case', async () => {
    const { id } = await create({ name: 'case' });
    assert.equal((await api.call('GET', `/v1/agents/${id.toUpperCase()}`)).json.id, id);
  });
});
