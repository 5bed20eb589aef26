/** What an agent remembers, is asked and is sent, for tests of its memory in runs. */
import type { MemoryOrigin } from '../../core/memory/entry.ts';
import { addMemory, toMemoryRow, type NewMemory } from '../../modules/memory/add-memory.ts';
import type { AnthropicRequest } from './fake-anthropic.ts';
import { activeMemoriesOf } from './queries/memory.ts';
import { replayRecorded } from './recorded-replay.ts';
import type { Engine } from './engine.ts';

/** Asked for at each call: tests have an engine when they begin, and an agent each. */
export function memoryOf(whose: () => { engine: Engine; agent: string }) {
  return {
    /** Adds to what the agent remembers. */
    add: (content: string, { origin = 'user', ...more }: Partial<NewMemory> & { origin?: MemoryOrigin } = {}) => {
      const { engine, agent } = whose();
      const { tenantId } = engine;
      const row = toMemoryRow({ content, memory_type: 'SEMANTIC', ...more }, { tenantId, agentId: agent, origin });
      return engine.context.db.withTenant(tenantId, (tx) => addMemory(tx, row));
    },
    /** A request's messages; marks for the provider's cache move. */
    sent: (n: number): AnthropicRequest['messages'] => {
      const messages = (whose().engine.model.requests[n]?.body as AnthropicRequest | undefined)?.messages ?? [];
      const unmarked = JSON.stringify(messages, (key: string, value: unknown) =>
        key === 'cache_control' ? undefined : value,
      );
      return JSON.parse(unmarked) as AnthropicRequest['messages'];
    },
    /** What the turns of a run were given. */
    retrieved: async (run: string) => {
      const log = await whose().engine.log(run);
      return log.flatMap((event) => (event.type === 'memory.retrieved' ? [event.payload] : []));
    },
    /** What the agent remembers now. */
    live: async () => {
      const { engine, agent } = whose();
      const found = await activeMemoriesOf(engine, agent);
      return found.map(({ content, origin, run_id }) => ({ content, origin, run_id }));
    },
    /** A recorded replay of all of a run, or from one of its checkpoints, which has ended. */
    replayed: async (run: string, checkpointId?: string): Promise<string> => {
      const { engine } = whose();
      const again = await replayRecorded(engine, run, checkpointId === undefined ? {} : { checkpointId });
      await engine.finish(again);
      return again;
    },
    /** A run of the agent with this message, which has ended. */
    ask: async (message: string): Promise<string> => {
      const { engine, agent } = whose();
      const { run } = await engine.start(agent, message);
      await engine.finish(run);
      return run;
    },
  };
}
