/** How the conversations of threads begin that begin with a fork: with turns of other threads, which are counted here. */
import type { Tx } from './database.ts';
import { beginsWithFork, firstNumber, newestOf, originOf, partBehind, turnsMoreBefore } from './thread-parts.ts';

/** The turns of other threads with which a thread's conversation begins. */
export interface Beginning {
  turns: number;
  /** The last of them. */
  lastTurnId: string | undefined;
}

/**
 * How the conversations of these threads begin that begin with a fork. What several of them go back to is read once, so this costs
 * what the page has of threads, and once each thread behind them.
 */
export async function readBeginnings(tx: Tx, threadIds: readonly string[]): Promise<ReadonlyMap<string, Beginning>> {
  const forked = await tx.query<{ id: string }>(
    `select c.id from unnest($1::uuid[]) c (id) where ${beginsWithFork('c.id')}`,
    [threadIds],
  );
  if (forked.length === 0) return new Map();
  const ids = forked.map(({ id }) => id);
  const origins = await readOrigins(tx, ids);
  const lines = await findLines(tx, ids, origins);
  const counted = await countTurns(tx, [...lines.values()].flat());
  const beginnings = new Map<string, Beginning>();
  for (const [id, line] of lines) {
    const parts = line.flatMap((part) => counted.get(keyOfPart(part)) ?? []);
    const turns = parts.reduce((sum, part) => sum + part.turns, 0);
    const last = parts.find((part) => part.last_turn_id !== null)?.last_turn_id ?? undefined;
    if (origins.has(id)) beginnings.set(id, { turns, lastTurnId: last });
  }
  return beginnings;
}

/** Where the first run of a thread was forked from, as `originOf` finds it. */
interface Origin {
  of_thread: string;
  thread_id: string;
  place: number;
  turns: number;
  shared: number;
  are_given: boolean;
}

/** Of these threads, and of all that they go back to. */
async function readOrigins(tx: Tx, threadIds: readonly string[]): Promise<ReadonlyMap<string, Origin>> {
  const columns = 'g.thread_id, g.place, g.turns, g.shared, g.are_given';
  const rows = await tx.query<Origin>(
    `with recursive origins as (
       select c.id as of_thread, ${columns} from unnest($1::uuid[]) c (id) cross join lateral ${originOf('c.id')} g
       union
       select n.thread_id, ${columns} from origins n cross join lateral ${originOf('n.thread_id')} g)
     select * from origins`,
    [threadIds],
  );
  return new Map(rows.map((row) => [row.of_thread, row]));
}

/** The end of what is shown of a thread: in the run at `place`, before its turn number `before`. */
interface Part {
  thread_id: string;
  place: number;
  before: number;
}

const keyOfPart = ({ thread_id, place, before }: Part) => `${thread_id} ${place} ${before}`;

/** What is known of a part that depends on which messages a client has kept. `length`: goes for the threads behind it, too. */
type KeptPart = Part & { length: number | null };

/** A search for the last turn of an origin whose answer is among so many messages. */
interface Search {
  key: string;
  origin: Origin;
  length: number;
}

/** The parts of other threads, nearest first. Searches are made for all threads at once. */
async function findLines(
  tx: Tx,
  threadIds: readonly string[],
  origins: ReadonlyMap<string, Origin>,
): Promise<ReadonlyMap<string, Part[]>> {
  const found = new Map<string, KeptPart>();
  const lines = new Map<string, Part[]>();
  let open = threadIds;
  while (open.length > 0) {
    const searches = new Map<string, Search>();
    for (const id of open) {
      const line = lineOf(id, origins, found);
      if ('key' in line) searches.set(line.key, line);
      else lines.set(id, line);
    }
    for (const [key, part] of await searchAll(tx, [...searches.values()])) found.set(key, part);
    open = open.filter((id) => !lines.has(id));
  }
  return lines;
}

/** What a thread shows of others, or what must be found first. */
function lineOf(
  threadId: string,
  origins: ReadonlyMap<string, Origin>,
  found: ReadonlyMap<string, KeptPart>,
): Part[] | Search {
  const line: Part[] = [];
  let length: number | null = null;
  for (let origin = origins.get(threadId); origin; origin = origins.get(origin.thread_id)) {
    const { thread_id, place, turns, shared, are_given } = origin;
    if (are_given) length = Math.min(length ?? shared, shared);
    if (length === null) {
      line.push({ thread_id, place, before: turns + 1 });
      continue;
    }
    // The answers of a thread are behind the messages that it has of others.
    if (length <= (origins.get(thread_id)?.shared ?? 0)) continue;
    const key = `${thread_id} ${place} ${turns} ${length}`;
    const part = found.get(key);
    if (!part) return { key, origin, length };
    if (part.place > 0) line.push(part);
    ({ length } = part);
  }
  return line;
}

async function searchAll(tx: Tx, searches: readonly Search[]): Promise<Map<string, KeptPart>> {
  if (searches.length === 0) return new Map();
  const rows = await tx.query<KeptPart & { key: string }>(
    `select s.key, p.* from unnest($1::text[], $2::uuid[], $3::int[]) s (key, thread, length)
       cross join lateral ${partBehind('s.thread', 's.length')} p`,
    [
      searches.map(({ key }) => key),
      searches.map(({ origin }) => origin.of_thread),
      searches.map((each) => each.length),
    ],
  );
  return new Map(rows.map(({ key, ...part }) => [key, part]));
}

interface Counted {
  turns: number;
  last_turn_id: string | null;
}

/** How many turns parts have, each of which is counted once, and their last ones. */
async function countTurns(tx: Tx, parts: readonly Part[]): Promise<ReadonlyMap<string, Counted>> {
  const distinct = [...new Map(parts.map((part) => [keyOfPart(part), part])).values()];
  if (distinct.length === 0) return new Map();
  const rows = await tx.query<Part & Counted>(
    `with ends as materialized (select * from unnest($1::uuid[], $2::int[], $3::int[]) as e (thread_id, thread_place, before)),
       earlier as materialized ${turnsMoreBefore('ends')}
     select p.*, (p.place + p.before - 1 - coalesce(${firstNumber('o.id')}, o.turn_count + 1) + coalesce(e.more, 0))::int as turns,
         (select t.id from ${newestOf('1')} t) as last_turn_id
       from (select thread_id, thread_place as place, before from ends) p
         join earlier e on e.thread_id = p.thread_id and e.thread_place = p.place
         join runs o on o.thread_id = p.thread_id and o.thread_place = p.place`,
    [distinct.map((part) => part.thread_id), distinct.map(({ place }) => place), distinct.map(({ before }) => before)],
  );
  return new Map(rows.map(({ turns, last_turn_id, ...part }) => [keyOfPart(part), { turns, last_turn_id }]));
}
