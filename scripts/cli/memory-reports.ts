/** `drover memory uses`, `learnt` and `usage`: where memories were used, what turns taught, and the cost. */
import type { Command } from 'commander';
import { agentOf } from './named.ts';
import { connected, id, paged, type Page, type Shared } from './options.ts';
import { print, printJson, printNext, printTable } from './print.ts';

type OfAgent = Shared & { agent?: string };
type Listing = OfAgent & Page;

/** Adds the commands. */
export function addReports(command: (name: string, about: string) => Command): void {
  paged(command('uses', 'list where a memory was used and why it was found, newest first'), { limit: 20 })
    .argument('<id>', 'the memory', id)
    .action(uses);
  paged(
    command('learnt', 'list what the agent has learnt from its turns, and what rules have refused, newest first'),
  ).action(learnt);
  command('usage', 'sum up what the agent remembers, and what models were paid for it').action(usage);
}

interface Use {
  operation: string;
  run_id: string | null;
  score: number | null;
  why: Record<string, number> | null;
  accessed_at: string;
}

async function uses(entry: string, { limit, cursor, ...options }: Listing): Promise<void> {
  const answer = await connected(options, async (client) => {
    const path = `/v1/agents/${await agentOf(client, options.agent)}/memory/${entry}/uses`;
    return client.get<{ uses: Use[]; next_cursor?: string }>(path, { limit: String(limit), cursor });
  });
  if (options.json) return printJson(answer);
  if (answer.uses.length === 0) return print('It was not used yet.');
  printTable(
    ['AT', 'BY', 'SCORE', 'BECAUSE OF', 'RUN'],
    answer.uses.map(({ accessed_at: at, operation, score, why, run_id: run }) => {
      const signals = Object.entries(why ?? {}).map(([signal, part]) => `${signal} ${part.toFixed(2)}`);
      return [at, operation, score?.toFixed(2) ?? '', signals.join(', '), run ?? ''];
    }),
  );
  printNext(answer.next_cursor);
}

interface Extraction {
  run_id: string;
  status: string;
  made_by: string | null;
  added: string[];
  superseded: string[];
  refused: Record<string, number>;
  created_at: string;
}

async function learnt({ limit, cursor, ...options }: Listing): Promise<void> {
  const answer = await connected(options, async (client) => {
    const path = `/v1/agents/${await agentOf(client, options.agent)}/memory/extractions`;
    return client.get<{ extractions: Extraction[]; next_cursor?: string }>(path, { limit: String(limit), cursor });
  });
  if (options.json) return printJson(answer);
  if (answer.extractions.length === 0) return print('No turn was learnt from yet.');
  printTable(
    ['AT', 'STATUS', 'BY', 'ADDED', 'CORRECTED', 'REFUSED', 'RUN'],
    answer.extractions.map(({ added, superseded, refused, ...row }) => {
      const rules = Object.entries(refused).map(([rule, count]) => `${rule} ${count}`);
      const counts = [String(added.length), String(superseded.length), rules.join(', ')];
      return [row.created_at, row.status, row.made_by ?? '', ...counts, row.run_id];
    }),
  );
  printNext(answer.next_cursor);
}

interface Usage {
  entries: { memory_type: string; status: string; count: number; tokens: number }[];
  refused: Record<string, number>;
  model_calls: { purpose: string; calls: number; cost_usd: number | null; unpriced: number }[];
}

async function usage(options: OfAgent): Promise<void> {
  const answer = await connected(options, async (client) =>
    client.get<Usage>(`/v1/agents/${await agentOf(client, options.agent)}/memory/usage`),
  );
  if (options.json) return printJson(answer);
  const entries = answer.entries.map((row) => [row.memory_type, row.status, String(row.count), String(row.tokens)]);
  printTable(['TYPE', 'STATUS', 'ENTRIES', 'TOKENS'], entries);
  for (const [rule, count] of Object.entries(answer.refused)) print(`refused as ${rule}: ${count}`);
  for (const { purpose, calls, cost_usd: cost, unpriced } of answer.model_calls) {
    const known = cost === null ? [] : [`$${cost.toFixed(4)}`];
    const unknown = unpriced === 0 ? [] : [`${unpriced} of unknown price`];
    print([`${purpose}: ${calls} model calls`, ...known, ...unknown].join(', '));
  }
}
