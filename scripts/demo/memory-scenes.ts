/** The scenes of the memory demo: three conversations, what was learnt, what was recalled and why, and what is forgotten. */
import type { ApiClient } from './api-client.ts';
import type { Screen } from './screen.ts';

interface MemoryStage {
  client: ApiClient;
  screen: Screen;
  setToday: (day: Date) => void;
  pause: (signal: AbortSignal) => Promise<unknown>;
  signal: AbortSignal;
}

interface Entry {
  id: string;
  content: string;
  status: string;
  version: number;
  reason: string | null;
}

interface Given {
  id: string;
  content: string;
  score: number;
  profile: boolean;
}

interface Talk extends MemoryStage {
  agent: string;
}

/** Returns 0 if everything went as expected. */
export async function playMemory(stage: MemoryStage): Promise<number> {
  const { client, screen } = stage;
  const memory_config = { long_term: { enabled: true, extract: true } };
  const { agent_id: agent } = await client.post<{ agent_id: string }>('/v1/agents', {
    name: 'companion',
    memory_config,
  });
  const talk = { ...stage, agent };
  screen.title('Drover: what an agent remembers over days');

  const first = await converse(talk, {
    day: '2026-03-02',
    message: 'Hi! I prefer trains to planes. I live in Oslo. Remember that my locker opens with the word pelican.',
  });
  const second = await converse(talk, {
    day: '2026-03-05',
    message: 'Actually, I live in Bergen now. Which way should I go to the meeting in Rome?',
  });
  const isForgotten = await forget(talk, 'locker');
  const third = await converse(talk, {
    day: '2026-03-11',
    message: 'Where do I live now, how do I like to travel, and what opens my locker?',
  });

  const came = third.given.map(({ content }) => content).join('\n');
  const checks: [string, boolean][] = [
    [
      'the preference was remembered, and came to mind on each later day',
      has(second, 'trains') && has(third, 'trains'),
    ],
    [
      'the fact that has changed was corrected, and the old one stays in the history',
      came.includes('Bergen') && !came.includes('Oslo') && (await isCorrected(talk)),
    ],
    ['what was forgotten is nowhere any more', isForgotten && first.learnt >= 3 && !came.includes('pelican')],
  ];
  screen.title('What has come of it');
  for (const [what, ok] of checks) screen.verdict(what, ok);
  return checks.every(([, ok]) => ok) ? 0 : 1;
}

interface Conversation {
  given: Given[];
  learnt: number;
}

const has = ({ given }: Conversation, word: string) => given.some(({ content }) => content.includes(word));

async function converse(talk: Talk, { day, message }: { day: string; message: string }): Promise<Conversation> {
  const { client, screen, agent } = talk;
  talk.setToday(new Date(`${day}T09:00:00Z`));
  screen.title(day);
  screen.line('user', message);
  const { run_id: run } = await client.post<{ run_id: string }>(`/v1/agents/${agent}/runs`, { input: { message } });
  await until(talk, async () => (await client.get<{ status: string }>(`/v1/runs/${run}`)).status === 'completed');
  const { events } = await client.get<{ events: { payload: { entries: Given[] } }[] }>(
    `/v1/runs/${run}/events?types=memory.retrieved`,
  );
  const given = events.flatMap(({ payload }) => payload.entries);
  for (const each of given) screen.line('recalled', `${each.content}  (${await whyOf(talk, each)})`);
  if (given.length === 0) screen.line('recalled', 'nothing');
  const extraction = await learnt(talk, run);
  for (const id of [...extraction.added, ...extraction.superseded]) {
    const entry = await client.get<Entry>(`/v1/agents/${agent}/memory/${id}`);
    const how = entry.version === 1 ? 'learnt' : 'changed';
    screen.line(how, `${entry.content}${entry.reason ? `  (${entry.reason})` : ''}`);
  }
  for (const [rule, count] of Object.entries(extraction.refused)) screen.line('refused', `${count} as ${rule}`);
  return { given, learnt: extraction.added.length + extraction.superseded.length };
}

/** What each signal contributed at the last recall. */
async function whyOf({ client, agent }: Talk, { id, profile, score }: Given): Promise<string> {
  if (profile) return 'always: a preference';
  const { uses } = await client.get<{ uses: { why: Record<string, number> | null }[] }>(
    `/v1/agents/${agent}/memory/${id}/uses?limit=1`,
  );
  const parts = Object.entries(uses[0]?.why ?? {}).map(([signal, part]) => `${signal} ${part.toFixed(2)}`);
  return `${score.toFixed(2)}: ${parts.join(', ')}`;
}

interface Extraction {
  run_id: string;
  status: string;
  added: string[];
  superseded: string[];
  refused: Record<string, number>;
}

/** What a run has taught, once extracted. */
async function learnt(talk: Talk, run: string): Promise<Extraction> {
  let found: Extraction | undefined;
  await until(talk, async () => {
    const path = `/v1/agents/${talk.agent}/memory/extractions`;
    const { extractions } = await talk.client.get<{ extractions: Extraction[] }>(path);
    found = extractions.find(({ run_id: of, status }) => of === run && status === 'done');
    return found !== undefined;
  });
  if (!found) throw new Error('nothing was learnt from the run');
  return found;
}

/** Shows what would be forgotten, then forgets it; returns whether nothing of it is found afterwards. */
async function forget({ client, screen, agent }: Talk, query: string): Promise<boolean> {
  const path = `/v1/agents/${agent}/memory/forget`;
  const { ids } = await client.post<{ ids: string[] }>(path, { query, dry_run: true });
  screen.title('The user asks to be forgotten');
  for (const id of ids) {
    const { content } = await client.get<Entry>(`/v1/agents/${agent}/memory/${id}`);
    screen.line('would go', content);
  }
  const { removed } = await client.post<{ removed: Record<string, number> }>(path, { query });
  screen.line(
    'gone',
    Object.entries(removed)
      .map(([what, count]) => `${count} ${what}`)
      .join(', '),
  );
  const { entries } = await client.post<{ entries: Entry[] }>(`/v1/agents/${agent}/memory/query`, { query });
  return ids.length > 0 && entries.every(({ content }) => !content.includes('pelican'));
}

async function isCorrected({ client, agent }: Talk): Promise<boolean> {
  const { entries } = await client.get<{ entries: Entry[] }>(`/v1/agents/${agent}/memory?status=superseded`);
  return entries.some(({ content }) => content.includes('Oslo'));
}

async function until({ pause, signal }: MemoryStage, isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await pause(signal);
}
