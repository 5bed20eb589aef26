/** `drover memory consolidate`: consolidates, shows results and archive, and reverts. */
import type { Command } from 'commander';
import { agentOf } from './named.ts';
import { connected, id, paged, whole, type Page, type Shared } from './options.ts';
import { line, print, printJson, printNext, printTable } from './print.ts';

interface Consolidated {
  consolidated: number;
  merged: number;
  evicted: number;
  procedural: number;
  consolidation_id: string | null;
}

interface Consolidation {
  id: string;
  strategy: string;
  consolidated: number;
  merged: number;
  evicted: number;
  created_at: string;
  reverted_at: string | null;
}

interface Archived {
  id: string;
  memory_type: string;
  content: string;
  reason: string;
  archived_at: string;
}

type OfAgent = Shared & { agent?: string };

/** Adds the commands. */
export function addConsolidations(command: (name: string, about: string) => Command): void {
  command('consolidate', 'consolidate the short term now: keep, shorten, merge, evict; prints the id for revert')
    .option('--strategy <strategy>', 'importance, age or hybrid (as a rule)')
    .option('--max-entries <n>', 'how many entries at most', whole(1, 500))
    .action(consolidate);
  paged(command('consolidations', 'list consolidations, newest first')).action(list);
  paged(command('archive', 'list what was taken from among the memories, newest first')).action(listArchive);
  command('revert', 'undo a consolidation; what has changed since then stays')
    .argument('<id>', 'the consolidation', id)
    .action(revert);
}

async function consolidate(options: OfAgent & { strategy?: string; maxEntries?: number }): Promise<void> {
  const body = { strategy: options.strategy, max_entries: options.maxEntries };
  const answer = await connected(options, async (client) =>
    client.post<Consolidated>(`/v1/agents/${await agentOf(client, options.agent)}/memory/consolidate`, body),
  );
  if (options.json) return printJson(answer);
  if (answer.consolidation_id === null) return print('Nothing was to be done.');
  const { consolidated, merged, evicted, procedural } = answer;
  print(answer.consolidation_id);
  print(`${consolidated} kept, ${merged} merged, ${evicted} evicted, ${procedural} procedures learnt.`);
}

async function list({ limit, cursor, ...options }: OfAgent & Page): Promise<void> {
  const query = { limit: String(limit), cursor };
  const answer = await connected(options, async (client) => {
    const path = `/v1/agents/${await agentOf(client, options.agent)}/memory/consolidations`;
    return client.get<{ consolidations: Consolidation[]; next_cursor?: string }>(path, query);
  });
  if (options.json) return printJson(answer);
  if (answer.consolidations.length === 0) return print('No consolidations.');
  printTable(
    ['ID', 'STRATEGY', 'KEPT', 'MERGED', 'EVICTED', 'CREATED', 'REVERTED'],
    answer.consolidations.map(({ id: made, strategy, consolidated, merged, evicted, ...at }) => {
      const counts = [consolidated, merged, evicted].map(String);
      return [made, strategy, ...counts, at.created_at, at.reverted_at ?? ''];
    }),
  );
  printNext(answer.next_cursor);
}

async function listArchive({ limit, cursor, ...options }: OfAgent & Page): Promise<void> {
  const query = { limit: String(limit), cursor };
  const answer = await connected(options, async (client) => {
    const path = `/v1/agents/${await agentOf(client, options.agent)}/memory/archive`;
    return client.get<{ entries: Archived[]; next_cursor?: string }>(path, query);
  });
  if (options.json) return printJson(answer);
  if (answer.entries.length === 0) return print('Nothing is archived.');
  printTable(
    ['ID', 'TYPE', 'WHY', 'ARCHIVED', 'CONTENT'],
    answer.entries.map(({ id: of, memory_type: type, reason, archived_at: at, content }) => {
      return [of, type, reason, at, line(content, 80)];
    }),
  );
  printNext(answer.next_cursor);
}

async function revert(consolidation: string, options: OfAgent): Promise<void> {
  const answer = await connected(options, async (client) => {
    const agent = await agentOf(client, options.agent);
    return client.post<Consolidation & { restored: number }>(
      `/v1/agents/${agent}/memory/consolidations/${consolidation}/revert`,
      {},
    );
  });
  if (options.json) return printJson(answer);
  print(`reverted: ${answer.id}, ${answer.restored} entries are back.`);
}
