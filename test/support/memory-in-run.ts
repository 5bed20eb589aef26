/** What an agent remembers, is asked and is sent, for tests of its memory in runs. */
import type { MemoryOrigin } from '../../core/memory/entry.ts';
import { addMemory, toMemoryRow, type NewMemory } from '../../modules/memory/add-memory.ts';
import type { AnthropicRequest } from './fake-anthropic.ts';
import { activeMemoriesOf } from './queries/memory.ts';
import { replayRecorded } from './recorded-replay.ts';
import type { Engine } from './engine.ts';

/** A request's messages; marks for the provider's cache move. */
export function sentTo(engine: Engine, n: number): AnthropicRequest['messages'] {
  const messages = (engine.model.requests[n]?.body as AnthropicRequest | undefined)?.messages ?? [];
  const unmarked = JSON.stringify(messages, (key: string, value: unknown) =>
    key === 'cache_control' ? undefined : value,
  );
  return JSON.parse(unmarked) as AnthropicRequest['messages'];
}

/** What the turns of a run were given. */
export async function memoriesGiven(engine: Engine, run: string) {
  return (await engine.log(run)).flatMap((event) => (event.type === 'memory.retrieved' ? [event.payload] : []));
}

/** What the agent remembers now. */
export async function liveMemories(engine: Engine, agent: string) {
  return (await activeMemoriesOf(engine, agent)).map(({ content, origin, run_id }) => ({ content, origin, run_id }));
}

/** Adds to what the agent remembers. */
export function addTo(
  engine: Engine,
  agent: string,
  { origin = 'user', ...memory }: Partial<NewMemory> & { content: string; origin?: MemoryOrigin },
) {
  const { tenantId } = engine;
  const row = toMemoryRow({ memory_type: 'SEMANTIC', ...memory }, { tenantId, agentId: agent, origin });
  return engine.context.db.withTenant(tenantId, (tx) => addMemory(tx, row));
}

/** A recorded replay of all of a run, which has ended. */
export async function replayWhole(engine: Engine, run: string): Promise<string> {
  const again = await replayRecorded(engine, run);
  await engine.finish(again);
  return again;
}

/** A run of the agent with this message, which has ended. */
export async function askOnce(engine: Engine, agent: string, message: string): Promise<string> {
  const { run } = await engine.start(agent, message);
  await engine.finish(run);
  return run;
}
