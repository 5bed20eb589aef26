/** The share of a question's evidence that recall finds in BEAM (`BEAM_DIR`): by words and structure, and with offline vectors. */
import type { Figure } from './figures.ts';
import { readBeam, type BeamConversation, type BeamQuestion } from './beam.ts';
import { openDrover, type BenchDrover } from './drover.ts';
import type { Services } from './services.ts';
import { searchedText } from '../core/memory/question.ts';
import { rank } from '../core/memory/ranking.ts';
import { insertMemories } from '../db/memory-entries.ts';
import { storeEmbeddings } from '../db/memory-models.ts';
import { findCandidates, type QuestionVector } from '../db/memory-search.ts';
import { newId } from '../lib/new-id.ts';
import { DEFAULT_TENANT_ID } from '../modules/tenants/bootstrap.ts';
import { OFFLINE_EMBEDDINGS } from '../core/memory/vector-names.ts';
import { toVector } from '../llm/embeddings.ts';
import { toMemoryRow } from '../modules/memory/add-memory.ts';

const tenantId = DEFAULT_TENANT_ID;
const DEPTHS = [5, 10, 50] as const;
const TOGETHER = 200;
const EMBEDDED_TOGETHER = 32;
const MOST_CHARS = 20_000;

/** `BEAM_SIZES` lists the sizes (default `100K`); `BEAM_VECTORS=on` embeds every message, which takes minutes. */
export async function measureMemoryRecall(services: Services): Promise<Figure[]> {
  const dir = process.env['BEAM_DIR'];
  if (dir === undefined) throw new Error('Set BEAM_DIR to a clone of github.com/mohammadtavakoli78/BEAM.');
  const drover = await openDrover('pure', services);
  try {
    const figures: Figure[] = [];
    for (const size of (process.env['BEAM_SIZES'] ?? '100K').split(',')) {
      figures.push(...(await measureSize(drover, readBeam(dir, size), size)));
    }
    return figures;
  } finally {
    await drover.close();
  }
}

async function measureSize(drover: BenchDrover, conversations: BeamConversation[], size: string): Promise<Figure[]> {
  const sums = DEPTHS.map(() => 0);
  const sides = new Map<string, Sides>();
  let questions = 0;
  for (const conversation of conversations) {
    const loaded = await load(drover, conversation);
    const at = conversation.messages.at(-1)?.at ?? new Date();
    for (const question of conversation.questions) {
      const found = await ask(drover, { agentId: loaded.agentId, question, at });
      const evidence = question.evidence.map((id) => loaded.ids.get(id) ?? '');
      DEPTHS.forEach((depth, index) => {
        const hits = evidence.filter((id) => found.slice(0, depth).includes(id)).length;
        sums[index] = (sums[index] ?? 0) + hits / evidence.length;
      });
      questions += 1;
      if (question.sides) countSides(sides, question, foundAt(question.sides, { ids: loaded.ids, found }));
    }
  }
  const figure = (what: string, percent: number, goal?: string): Figure => {
    return { part: 'memory-recall', what, value: percent, unit: '%', ...(goal !== undefined && { goal }) };
  };
  const goal = size === '100K' ? '62 %' : '58 %';
  const evidence = DEPTHS.map((depth, index) => {
    const what = `evidence recall at ${depth}, BEAM ${size}, ${questions} questions`;
    return figure(what, (100 * (sums[index] ?? 0)) / questions, depth === 10 ? goal : undefined);
  });
  const ofSides = [...sides].flatMap(([kind, { asked, both, newestFirst, apart }]) => [
    figure(`both sides in the top ${TOP}, ${kind}, BEAM ${size}, ${asked} questions`, (100 * both) / asked, '90 %'),
    figure(`the newer of the two first, ${kind}, BEAM ${size}, ${apart} questions`, (100 * newestFirst) / apart),
  ]);
  return [...evidence, ...ofSides];
}

/** For one kind of question: updates, or contradictions. */
interface Sides {
  asked: number;
  both: number;
  /** Both are found, in different messages. */
  apart: number;
  newestFirst: number;
}

const TOP = 10;

interface SideFound {
  /** Its index; infinite if not found. */
  place: number;
  /** Id of the first message that says it. */
  saidAt: number;
}

/** The best message of each side. */
function foundAt(
  sides: NonNullable<BeamQuestion['sides']>,
  { ids, found }: { ids: ReadonlyMap<number, string>; found: readonly string[] },
): SideFound[] {
  return sides.map((messages) => {
    const places = messages.map((id) => found.indexOf(ids.get(id) ?? '')).filter((place) => place >= 0);
    return { place: Math.min(...places), saidAt: Math.min(...messages) };
  });
}

function countSides(sums: Map<string, Sides>, { kind }: BeamQuestion, found: readonly SideFound[]): void {
  const sum = sums.get(kind) ?? { asked: 0, both: 0, apart: 0, newestFirst: 0 };
  const [older, newer] = found.toSorted((a, b) => a.saidAt - b.saidAt);
  const both = found.every(({ place }) => place < TOP);
  const apart = both && older?.saidAt !== newer?.saidAt;
  sums.set(kind, {
    asked: sum.asked + 1,
    both: sum.both + Number(both),
    apart: sum.apart + Number(apart),
    newestFirst: sum.newestFirst + Number(apart && (newer?.place ?? 0) <= (older?.place ?? 0)),
  });
}

/** Loads each message as an entry, each session as a thread. */
async function load({ context }: BenchDrover, { name, messages }: BeamConversation) {
  const agentId = newId();
  const ids = new Map<number, string>();
  const rows = messages.map(({ id, role, content, at, session }) => {
    const metadata = { role, occurred_at: at.toISOString() };
    const memory = { content: content.slice(0, MOST_CHARS), memory_type: 'EPISODIC' as const, metadata };
    const row = toMemoryRow({ ...memory, thread_id: `${name}-${session}` }, { tenantId, agentId, origin: 'user' });
    ids.set(id, row.id);
    return row;
  });
  for (let from = 0; from < rows.length; from += TOGETHER) {
    const batch = rows.slice(from, from + TOGETHER);
    await context.db.withTenant(tenantId, (tx) => insertMemories(tx, batch));
  }
  if (!withVectors()) return { agentId, ids };
  for (let from = 0; from < rows.length; from += EMBEDDED_TOGETHER) {
    const batch = rows.slice(from, from + EMBEDDED_TOGETHER);
    const vectors = await embed(
      context,
      batch.map(({ content }) => content),
    );
    const stored = batch.map(({ id }, index) => ({ id, vector: toVector(vectors[index] ?? []) }));
    const model = OFFLINE_EMBEDDINGS;
    await context.db.withTenant(tenantId, (tx) =>
      storeEmbeddings(tx, { tenantId, agentId, model, name: model, wanted: undefined, rows: stored }),
    );
  }
  return { agentId, ids };
}

/** Ids found, best first. */
async function ask(
  { context }: BenchDrover,
  { agentId, question, at }: { agentId: string; question: BeamQuestion; at: Date },
): Promise<string[]> {
  const [values] = withVectors() ? await embed(context, [question.text]) : [];
  const vector: QuestionVector | undefined = values && {
    model: OFFLINE_EMBEDDINGS,
    vector: toVector(values),
    dimensions: values.length,
  };
  const text = searchedText(question.text);
  const candidates = await context.db.withTenant(tenantId, (tx) => findCandidates(tx, { agentId }, { text, vector }));
  return rank({ text: question.text, at }, candidates).map(({ entry }) => entry.id);
}

const withVectors = () => process.env['BEAM_VECTORS'] === 'on';

function embed({ embeddings }: BenchDrover['context'], texts: string[]): Promise<number[][]> {
  const payer = { tenantId, purpose: 'recall_embeddings' } as const;
  return embeddings.embed(OFFLINE_EMBEDDINGS, texts, { signal: new AbortController().signal, payer });
}
