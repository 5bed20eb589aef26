import assert from 'node:assert/strict';
import { newName } from './new-name.ts';
import type { TestApi } from './api.ts';

/** The id of an agent with long-term memory, and with none of its settings. */
export async function newRememberingAgent(api: Pick<TestApi, 'call'>): Promise<string> {
  const body = { name: newName('rememberer'), memory_config: { long_term: { enabled: true } } };
  const { status, json, text } = await api.call('POST', '/v1/agents', { body });
  assert.equal(status, 201, text);
  return json.id;
}
