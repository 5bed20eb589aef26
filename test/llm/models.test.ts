import assert from 'node:assert/strict';
import { createModels } from '../../llm/models.ts';
import { costOf } from '../../llm/prices.ts';
import { DEFAULT_CLAUDE } from '../../llm/providers/anthropic.ts';
import { DEFAULT_GPT } from '../../llm/providers/openai.ts';
import { ModelError, NO_TOKENS } from '../../core/model.ts';
import { startFakeAnthropic } from '../support/fake-anthropic.ts';
import { startFakeOpenAI } from '../support/fake-openai.ts';
import { ask, modelRequest } from '../support/model-request.ts';

const models = createModels({ modelKeys: { anthropic: { apiKey: 'a' }, openai: { apiKey: 'o' } } });
const named = (name: string) => {
  const { provider, model } = models.resolve(name);
  return `${provider} ${model}`;
};

describe('createModels', () => {
  it('finds a model by provider/model, by a bare name that tells its provider, and offline', () => {
    assert.equal(named('anthropic/claude-opus-4-5'), 'anthropic claude-opus-4-5');
    assert.equal(named('openai/meta/llama-4'), 'openai meta/llama-4');
    assert.equal(named('claude-haiku-4-5'), 'anthropic claude-haiku-4-5');
    assert.equal(named('gpt-4.1'), 'openai gpt-4.1');
    assert.equal(named('o3'), 'openai o3');
    assert.equal(named('offline'), 'offline offline');
  });

  it('refuses a name that no provider knows and says which names work', () => {
    for (const name of ['llama', '', 'google/gemini', 'anthropic/', 'openai', 'ollama', 'offline/x', 'claude-a b']) {
      assert.throws(() => models.resolve(name), { code: 'impossible', status: 422, message: /anthropic\/<model>/ });
    }
  });

  it('refuses a provider without a key and names the variable', () => {
    const none = createModels({});
    assert.throws(() => none.resolve('claude-haiku-4-5'), { status: 422, message: /needs ANTHROPIC_API_KEY/ });
    assert.throws(() => none.resolve('openai/gpt-4.1'), { status: 422, message: /needs OPENAI_API_KEY/ });
  });

  it('has a default: the configured model, else Claude, else GPT, else offline', () => {
    assert.equal(models.defaultName(), `anthropic/${DEFAULT_CLAUDE}`);
    assert.equal(createModels({ modelKeys: { openai: { apiKey: 'o' } } }).defaultName(), `openai/${DEFAULT_GPT}`);
    assert.equal(createModels({}).defaultName(), 'offline');
    const chosen = createModels({ modelKeys: { anthropic: { apiKey: 'a' } }, defaultModel: 'claude-haiku-4-5' });
    assert.equal(chosen.defaultName(), 'anthropic/claude-haiku-4-5');
    assert.equal(chosen.resolve(undefined).model, 'claude-haiku-4-5');
    assert.equal(createModels({}).resolve(undefined).provider, 'offline');
  });

  it('has the offline planner say what would have another model answer: a key, another name, or DROVER_MODEL', async () => {
    const modelKeys = { anthropic: { apiKey: 'a' } };
    const said = async ([config, name]: [Parameters<typeof createModels>[0], string | undefined]) => {
      const { response } = await ask(createModels(config).resolve(name).stream, modelRequest());
      return JSON.stringify(response.content);
    };
    assert.match(await said([{}, undefined]), /; set ANTHROPIC_API_KEY or OPENAI_API_KEY for/);
    for (const config of [{}, { modelKeys }])
      assert.match(await said([config, 'offline']), /; its model is `offline` \(`llm_config\.default_model`, or /);
    const chosen = await said([{ modelKeys, defaultModel: 'offline' }, undefined]);
    assert.match(chosen, /; `DROVER_MODEL` is `offline`/);
    assert.doesNotMatch(chosen, /API_KEY/);
  });

  it('knows the prices of its defaults', () => {
    assert.notEqual(costOf('anthropic', DEFAULT_CLAUDE, NO_TOKENS), null);
    assert.notEqual(costOf('openai', DEFAULT_GPT, NO_TOKENS), null);
  });

  it('never repeats the key that it has asked with, whatever its form, in what a server says of it', async () => {
    const apiKey = 'gsk_0123456789abcdef';
    const message = `no account for Authorization: Bearer ${apiKey} (${apiKey})`;
    for (const midStream of [false, true]) {
      const error = { status: 401, type: 'authentication_error', message, midStream };
      const server = await startFakeOpenAI(() => ({ error }));
      const modelKeys = { openai: { apiKey, baseUrl: `${server.url}/v1` } };
      const { stream, model } = createModels({ modelKeys }).resolve('openai/gpt-4.1');
      const failed: unknown = await ask(stream, modelRequest({ model })).catch((thrown: unknown) => thrown);
      await server.close();
      assert.ok(failed instanceof ModelError);
      assert.match(failed.message, /no account for Authorization: Bearer \[key\] \(\[key\]\)/);
      assert.ok(!`${failed.stack} ${String(failed.cause)} ${JSON.stringify(failed)}`.includes(apiKey));
    }
  });

  it('asks the server of the configured base URL', async () => {
    const server = await startFakeAnthropic(() => ({ content: [{ type: 'text', text: 'here' }] }));
    try {
      const modelKeys = { anthropic: { apiKey: 'a', baseUrl: server.url } };
      const { stream, model } = createModels({ modelKeys }).resolve(undefined);
      const { response } = await ask(stream, modelRequest({ model }));
      assert.deepEqual(response.content, [{ type: 'text', text: 'here' }]);
      assert.equal(server.requests[0]?.body['model'], DEFAULT_CLAUDE);
    } finally {
      await server.close();
    }
  });
});
