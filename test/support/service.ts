/** A whole service: the API and its workers in this process, on a database of their own, with a model that does as it is told. */
import { randomUUID } from 'node:crypto';
import { startWorkers } from '../../workers/start-workers.ts';
import { startTestApi, type TestApi } from './api.ts';
import type { Mode } from './modes.ts';
import { startScriptedModel, type ScriptedModel } from './scripted-model.ts';

interface TestServiceOptions {
  mode?: Mode;
  env?: Record<string, string>;
  /** What stands in for Anthropic; closed with the service. */
  model?: { url: string; close: () => Promise<void> };
}

/** An API whose runs are driven. */
export async function startTestService({ mode, env = {}, model }: TestServiceOptions = {}): Promise<TestApi> {
  const provider = model && { ANTHROPIC_API_KEY: 'test', ANTHROPIC_BASE_URL: model.url };
  const api = await startTestApi(mode, { env: { ...provider, ...env }, forWorkers: true });
  const workers = await startWorkers(api.context);
  return {
    ...api,
    async close() {
      await workers.stop(5000);
      await api.close();
      await model?.close();
    },
  };
}

export interface ScriptedService extends TestApi {
  model: ScriptedModel;
  /** The id of an agent with a name of its own; `more` are other fields of its definition. */
  newAgent: (tools?: readonly string[], more?: Record<string, unknown>) => Promise<string>;
}

/** A service whose model does what messages say, and that has a tool `confirm` of the client's. */
export async function startScriptedService(options: Omit<TestServiceOptions, 'model'> = {}): Promise<ScriptedService> {
  const model = await startScriptedModel();
  const api = await startTestService({ ...options, model });
  const transport = { type: 'client' };
  await api.call('POST', '/v1/tools', { body: { name: 'confirm', description: 'A tool of the test.', transport } });
  const newAgent = async (tools: readonly string[] = ['ask_user', 'confirm', 'calculator'], more = {}) => {
    const { json } = await api.call('POST', '/v1/agents', { body: { name: `a${randomUUID()}`, tools, ...more } });
    return json.id;
  };
  return { ...api, model, newAgent };
}
