import assert from 'node:assert/strict';
import { LIMITS } from '../../core/limits.ts';
import type { TestApi } from './api.ts';

/** All of a list, page by page, none of which is larger than a page may be. */
export async function walkList(
  api: Pick<TestApi, 'call' | 'key'>,
  path: string,
  { key = api.key, list }: { key?: string; list: string },
): Promise<Record<string, string>[]> {
  const found: Record<string, string>[] = [];
  for (let cursor = ''; ;) {
    const { json, text } = await api.call('GET', `${path}?limit=200${cursor}`, { key });
    assert.ok(text.length < LIMITS.eventsPageBytes, `${text.length} characters`);
    found.push(...json[list]);
    if (json.next_cursor === undefined) return found;
    cursor = `&cursor=${json.next_cursor}`;
  }
}
