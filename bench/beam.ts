/**
 * Reads BEAM (github.com/mohammadtavakoli78/BEAM): long conversations with questions, and the messages that answer them. Not
 * included: `BEAM_DIR` is its folder.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

interface BeamMessage {
  id: number;
  role: 'user' | 'assistant';
  content: string;
  /** Date of its session. */
  at: Date;
  session: number;
}

export interface BeamQuestion {
  kind: string;
  text: string;
  /** Ids of the answering messages. */
  evidence: number[];
  /** For updates and contradictions: message ids of the one statement, and of the other. */
  sides: readonly [number[], number[]] | undefined;
}

export interface BeamConversation {
  name: string;
  messages: BeamMessage[];
  /** Only those that name their evidence. */
  questions: BeamQuestion[];
}

interface Turn {
  role: 'user' | 'assistant';
  id: number;
  content: string;
  time_anchor?: string;
}

/** Reads all conversations of a size, such as `100K` or `500K`. */
export function readBeam(dir: string, size: string): BeamConversation[] {
  const of = join(dir, 'chats', size);
  const names = readdirSync(of)
    .filter((name) => /^\d+$/.test(name))
    .toSorted((a, b) => Number(a) - Number(b));
  return names.map((name) => {
    const messages = messagesOf(read(join(of, name, 'chat.json')) as { turns: Turn[][] }[]);
    const known = new Set(messages.map(({ id }) => id));
    const asked = read(join(of, name, 'probing_questions', 'probing_questions.json')) as Record<string, Asked[]>;
    const questions = Object.entries(asked).flatMap(([kind, list]) =>
      list.map(({ question: text, source_chat_ids: sources }) => {
        return { kind, text, evidence: idsIn(sources, known), sides: sidesIn(kind, sources, known) };
      }),
    );
    return { name, messages, questions: questions.filter(({ evidence }) => evidence.length > 0) };
  });
}

interface Asked {
  question: string;
  source_chat_ids?: unknown;
}

function read(path: string): unknown {
  return JSON.parse(readFileSync(path, 'utf8'));
}

function messagesOf(batches: readonly { turns: Turn[][] }[]): BeamMessage[] {
  let at = new Date(0);
  return batches.flatMap(({ turns }, session) =>
    turns.flat().map(({ id, role, content, time_anchor: anchor }) => {
      const said = anchor === undefined ? Number.NaN : Date.parse(`${anchor.replaceAll('-', ' ')} UTC`);
      if (!Number.isNaN(said)) at = new Date(said);
      return { id, role, content, at, session };
    }),
  );
}

function idsIn(sources: unknown, known: ReadonlySet<number>): number[] {
  if (typeof sources === 'number') return known.has(sources) ? [sources] : [];
  if (typeof sources !== 'object' || sources === null) return [];
  return [...new Set(Object.values(sources).flatMap((each) => idsIn(each, known)))];
}

const WITH_SIDES = new Set(['knowledge_update', 'contradiction_resolution']);

/** Undefined if the two sides are not named separately. */
function sidesIn(kind: string, sources: unknown, known: ReadonlySet<number>): BeamQuestion['sides'] {
  if (!WITH_SIDES.has(kind) || typeof sources !== 'object' || sources === null || Array.isArray(sources))
    return undefined;
  const [one, other, ...more] = Object.values(sources).map((side) => idsIn(side, known));
  return one?.length && other?.length && more.length === 0 ? [one, other] : undefined;
}
