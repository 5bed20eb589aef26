/** `drover memory`: shows, corrects and forgets what an agent remembers. */
import type { Command } from 'commander';
import { agentOf } from './named.ts';
import { CommandError, EXIT } from './errors.ts';
import { addConsolidations } from './memory-consolidations.ts';
import { addReports } from './memory-reports.ts';
import { addSpaces } from './memory-spaces.ts';
import { connected, id, json, oneOf, paged, share, whole, withPlace, type Page, type Shared } from './options.ts';
import { line, plain, pretty, print, printFields, printJson, printNext, printTable } from './print.ts';

interface Entry {
  id: string;
  memory_type: string;
  content: string;
  status: string;
  origin: string;
  trusted: boolean;
  thread_id: string | null;
  importance: number;
  access_count: number;
  version: number;
  metadata: Record<string, unknown>;
  valid_from: string | null;
  valid_to: string | null;
  expires_at: string | null;
  created_at: string;
}

interface Listed {
  entries: Entry[];
  next_cursor?: string;
}

interface Version {
  id: string;
  version: number;
  content: string;
  status: string;
  reason: string | null;
  created_at: string;
}

type OfAgent = Shared & { agent?: string };

/** Adds the commands. */
export function addMemory(program: Command): void {
  const memory = program.command('memory').description('what an agent remembers: look, add, correct, forget');
  const command = (name: string, about: string) =>
    withPlace(memory.command(name))
      .description(about)
      .option('--agent <agent>', 'whose memory, by id or name, where the workspace has several agents');
  command('add', 'have an agent remember something, and print its id')
    .argument('<content>', 'what')
    .option('--type <type>', 'short_term, episodic, semantic or procedural', 'semantic')
    .option('--thread <thread>', 'the conversation it belongs to')
    .option('--importance <n>', 'from 0 to 1', share)
    .option('--subject <subject>', 'whom or what it is about, for forgetting all of it later')
    .option('--metadata <json>', 'more of your own', json)
    .action(add);
  paged(command('list', 'list what an agent remembers, the most important first'))
    .option('--type <type>', 'of one type')
    .option(
      '--status <status>',
      'active (as a rule), disputed, superseded or archived',
      oneOf('active', 'disputed', 'superseded', 'archived'),
    )
    .option('--thread <thread>', 'of one conversation')
    .action(list);
  command('search', 'ask what an agent remembers, as recall does, the best first')
    .argument('<query>', 'the question')
    .option('--type <type>', 'of one type')
    .option('--thread <thread>', 'the conversation it is asked in')
    .option('--min-score <n>', 'from 0 to 1: nothing that fits less', share)
    .option('--limit <n>', 'how many', whole(1, 100), 5)
    .action(search);
  command('show', 'show a memory, and the versions of its fact')
    .argument('<id>', 'the memory', id)
    .option('--cursor <cursor>', 'go on with the versions where the answer before has ended')
    .action(show);
  command('correct', 'say what is true instead; prints the new id, and the old version stays in the history')
    .argument('<id>', 'the memory', id)
    .argument('<content>', 'what is true')
    .option('--reason <text>', 'why')
    .action(correct);
  command('forget', 'forget for good, with all versions and whatever was made from it')
    .argument('[ids...]', 'the memories', (text: string, before: string[] | undefined) => [...(before ?? []), id(text)])
    .option('--query <words>', 'those with all of these words')
    .option('--subject <subject>', 'those about exactly this')
    .option('--dry-run', 'only say which')
    .action(forget);
  addConsolidations(command);
  addReports(command);
  addSpaces(command);
}

type Adding = OfAgent & { type: string; thread?: string; importance?: number; subject?: string; metadata?: unknown };

async function add(content: string, options: Adding): Promise<void> {
  const { type, thread, importance, subject, metadata } = options;
  if (metadata !== undefined && (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata))) {
    throw new CommandError(EXIT.usage, '--metadata takes a JSON object.');
  }
  const body = {
    content,
    memory_type: type,
    thread_id: thread,
    importance,
    metadata: { ...metadata, ...(subject !== undefined && { subject }) },
  };
  const made = await connected(options, async (client) =>
    client.post<Entry>(`/v1/agents/${await agentOf(client, options.agent)}/memory`, body),
  );
  if (options.json) printJson(made);
  else print(made.id);
}

type Listing = OfAgent & Page & { type?: string; status?: string; thread?: string };

async function list(options: Listing): Promise<void> {
  const { type: memory_type, status, thread: thread_id, limit, cursor } = options;
  const query = { memory_type, status, thread_id, limit: String(limit), cursor };
  const answer = await connected(options, async (client) =>
    client.get<Listed>(`/v1/agents/${await agentOf(client, options.agent)}/memory`, query),
  );
  if (options.json) return printJson(answer);
  if (answer.entries.length === 0) return print('No memories.');
  printTable(
    ['ID', 'TYPE', 'IMPORTANCE', 'FROM', 'CONTENT'],
    answer.entries.map((entry) => {
      return [entry.id, entry.memory_type, entry.importance.toFixed(2), entry.origin, line(entry.content, 80)];
    }),
  );
  printNext(answer.next_cursor);
}

type Searching = OfAgent & { type?: string; thread?: string; minScore?: number; limit: number };
type Hit = Entry & { score: number; why: Record<string, number>; validity?: string };

async function search(query: string, options: Searching): Promise<void> {
  const body = {
    query,
    memory_types: options.type === undefined ? undefined : [options.type],
    thread_id: options.thread,
    min_score: options.minScore,
    top_k: options.limit,
  };
  const answer = await connected(options, async (client) =>
    client.post<{ entries: Hit[] }>(`/v1/agents/${await agentOf(client, options.agent)}/memory/query`, body),
  );
  if (options.json) return printJson(answer);
  if (answer.entries.length === 0) return print('Nothing is remembered about that.');
  printTable(
    ['ID', 'SCORE', 'STATUS', 'BECAUSE OF', 'CONTENT'],
    answer.entries.map(({ id: entry, score, status, why, validity = 'current', content }) => {
      const signals = Object.entries(why).filter(([, part]) => part > 0);
      const [most] = signals.toSorted(([, a], [, b]) => b - a);
      return [entry, score.toFixed(2), validity === 'current' ? status : validity, most?.[0] ?? '', line(content, 80)];
    }),
  );
}

async function show(entry: string, { cursor, ...options }: OfAgent & { cursor?: string }): Promise<void> {
  const found = await connected(options, async (client) => {
    const path = `/v1/agents/${await agentOf(client, options.agent)}/memory/${entry}`;
    return client.get<Entry & { history: Version[]; next_cursor?: string }>(path, { cursor });
  });
  if (options.json) return printJson(found);
  printFields({
    memory: found.id,
    type: found.memory_type,
    status: found.status,
    from: found.trusted ? found.origin : `${found.origin} (not trusted)`,
    thread: found.thread_id,
    importance: found.importance,
    'times recalled': found.access_count,
    'true from': found.valid_from,
    'true until': found.valid_to,
    expires: found.expires_at,
    created: found.created_at,
  });
  print(`\n${plain(found.content)}`);
  if (Object.keys(found.metadata).length > 0) print(`\nmetadata ${pretty(found.metadata)}`);
  if (found.history.length < 2 && cursor === undefined) return;
  print();
  printTable(
    ['VERSION', 'ID', 'STATUS', 'CREATED', 'REASON', 'CONTENT'],
    found.history.map(({ version, status, created_at: created, reason, ...rest }) => {
      return [String(version), rest.id, status, created, line(reason ?? '', 40), line(rest.content, 60)];
    }),
  );
  printNext(found.next_cursor);
}

async function correct(entry: string, content: string, options: OfAgent & { reason?: string }): Promise<void> {
  const { reason } = options;
  const changed = await connected(options, async (client) =>
    client.patch<Entry>(`/v1/agents/${await agentOf(client, options.agent)}/memory/${entry}`, { content, reason }),
  );
  if (options.json) printJson(changed ?? {});
  else print(changed?.id ?? entry);
}

type Forgetting = OfAgent & { query?: string; subject?: string; dryRun?: true };
interface Forgotten {
  removed: { entries: number; summaries: number; archive: number; events: number };
  ids: string[];
}

async function forget(given: string[] | undefined, options: Forgetting): Promise<void> {
  const ids = given?.length ? given : undefined;
  const { query, subject, dryRun } = options;
  if ([ids, query, subject].filter((each) => each !== undefined).length !== 1) {
    throw new CommandError(EXIT.usage, 'Say what to forget: ids, or --query, or --subject; one of them.');
  }
  const body = { ids, query, subject, dry_run: dryRun };
  const answer = await connected(options, async (client) =>
    client.post<Forgotten>(`/v1/agents/${await agentOf(client, options.agent)}/memory/forget`, body),
  );
  if (options.json) return printJson(answer);
  for (const each of answer.ids) print(each);
  const { entries, summaries, archive, events } = answer.removed;
  const counts = `${entries} entries, ${summaries} summaries, ${archive} in the archive, ${events} events`;
  print(`${dryRun ? 'would be forgotten' : 'forgotten'}: ${counts}.`);
}
