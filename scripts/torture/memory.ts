/** Memories in a torture: turns that teach one fact each, consolidations meanwhile, and what must be remembered afterwards. */
import { setTimeout as delay } from 'node:timers/promises';
import type { RetryingClient } from './client.ts';
import type { Script } from './plan.ts';
import { createRandom } from './random.ts';

interface PlannedLesson extends Script {
  startAtMs: number;
}

export interface StartedLessons {
  agent: string;
  /** Run ids by label. */
  runs: Map<string, string>;
}

const RUNS_PER_LESSON = 4;
const CONSOLIDATES_EVERY_MS = 3000;
const POLL_MS = 500;

/** Plans one lesson per several runs: a turn whose message is its label, answered by the model at once. */
export function planLessons(seed: number, { runs, withinMs }: { runs: number; withinMs: number }): PlannedLesson[] {
  const random = createRandom(seed, 'lessons');
  return Array.from({ length: Math.ceil(runs / RUNS_PER_LESSON) }, (_lesson, index) => ({
    label: `lesson-${index + 1}`,
    startAtMs: random.whole(0, withinMs),
    steps: [],
  }));
}

/** What the stand-in model submits as memories of a turn: its lesson's fact. */
export function submitted(material: string): { add: object[] } {
  const said = material.split('<user>').at(-1) ?? '';
  const label = /lesson-\d+/.exec(said)?.[0];
  return { add: label === undefined ? [] : [{ content: factOf(label), memory_type: 'SHORT_TERM', importance: 0.5 }] };
}

function factOf(label: string): string {
  return `The fact of ${label} is remembered.`;
}

/** Makes an agent that learns from its turns, and whose memories may be consolidated at any time. */
async function createLearner(client: RetryingClient, model: string): Promise<string> {
  const memory_config = {
    short_term: { max_tokens: 10_000_000 },
    long_term: { enabled: true, extract: true },
    consolidation: { min_age_hours: 0, importance_threshold: 0 },
  };
  const agent = { name: 'learner', llm_config: { default_model: model }, memory_config };
  return (await client.post<{ agent_id: string }>('/v1/agents', agent, 'learner')).agent_id;
}

/** Teaches each lesson at its time, and consolidates meanwhile. */
export async function teach(
  client: RetryingClient,
  work: { model: string; plan: readonly PlannedLesson[]; signal: AbortSignal },
): Promise<StartedLessons> {
  const { plan, signal } = work;
  const agent = await createLearner(client, work.model);
  const runs = new Map<string, string>();
  const over = new AbortController();
  const start = async ({ label, steps, startAtMs }: PlannedLesson) => {
    await delay(startAtMs, undefined, { signal });
    const input = { message: JSON.stringify({ label, steps } satisfies Script) };
    const { run_id: run } = await client.post<{ run_id: string }>(`/v1/agents/${agent}/runs`, { input }, label);
    runs.set(label, run);
  };
  const consolidate = async () => {
    while (!over.signal.aborted) {
      await client.postOnce(`/v1/agents/${agent}/memory/consolidate`, { strategy: 'importance' });
      await delay(CONSOLIDATES_EVERY_MS, undefined, { signal });
    }
  };
  const taught = Promise.all(plan.map(start)).finally(() => over.abort());
  await Promise.all([taught, consolidate()]);
  return { agent, runs };
}

interface ExaminedMemory {
  /** Facts remembered exactly once. */
  remembered: number;
  /** Runs without a memory of their fact, repeated facts, and proposals applied twice. */
  wrong: string[];
}

interface Extraction {
  run_id: string;
  status: string;
}

interface Consolidation {
  diff: { kept: { id: string }[] };
}

/** Waits until every lesson is learnt or the time is up, consolidates once more, and examines the memories. */
export async function examineMemory(
  client: RetryingClient,
  { agent, runs }: StartedLessons,
  withinMs: number,
): Promise<ExaminedMemory> {
  const path = `/v1/agents/${agent}/memory`;
  const endsAtMs = performance.now() + withinMs;
  const learnt = () => client.all<Extraction>(`${path}/extractions`, 'extractions');
  let extractions = await learnt();
  const isDone = () => extractions.filter(({ status }) => status === 'done').length >= runs.size;
  while (!isDone() && performance.now() < endsAtMs) {
    await delay(POLL_MS);
    extractions = await learnt();
  }
  await client.post(`${path}/consolidate`, { strategy: 'importance' });
  const entries = await client.all<{ content: string }>(path, 'entries');
  const consolidations = await client.all<Consolidation>(`${path}/consolidations`, 'consolidations');
  const known = new Map(extractions.map((each) => [each.run_id, each]));
  return judgeMemory({
    lessons: [...runs].map(([label, run]) => ({ label, learnt: known.get(run)?.status === 'done' })),
    contents: entries.map(({ content }) => content),
    kept: consolidations.flatMap(({ diff }) => diff.kept.map((each) => each.id)),
  });
}

/** Violations: each fact must be there once, and each entry consolidated once. */
export function judgeMemory(found: {
  lessons: readonly { label: string; learnt: boolean }[];
  contents: readonly string[];
  /** Of all consolidations. */
  kept: readonly string[];
}): ExaminedMemory {
  const { lessons, contents, kept } = found;
  const times = (fact: string) => contents.filter((content) => content === fact).length;
  const wrong = lessons.flatMap(({ label, learnt }) => {
    const count = times(factOf(label));
    if (!learnt) return [`${label} is not learnt from yet`];
    return count === 1 ? [] : [`the fact of ${label} is remembered ${count} times`];
  });
  const twice = kept.filter((id, place) => kept.indexOf(id) !== place);
  const remembered = lessons.filter(({ label }) => times(factOf(label)) === 1).length;
  if (kept.length !== contents.length) {
    wrong.push(`${kept.length} entries were consolidated of ${contents.length} that are there`);
  }
  return { remembered, wrong: [...wrong, ...twice.map((id) => `entry ${id} was consolidated twice`)] };
}
