/** Finds each queue's handler: `workers/handlers/` has a file named after each contract of `jobs/`. */
import { messageOf } from '../core/errors.ts';
import type { Handler } from './handler.ts';

/** Loads the handlers of these queues. @throws a one-line Error for the first queue without one. */
export async function loadHandlers<Q extends string>(queues: readonly Q[]): Promise<Map<Q, Handler>> {
  const entries = queues.map(async (queue) => [queue, await loadHandler(queue)] as const);
  return new Map(await Promise.all(entries));
}

async function loadHandler(queue: string): Promise<Handler> {
  const handler = handlerIn(await importHandler(queue));
  if (handler?.contract.name === queue) return handler;
  throw new Error(`The queue ${queue} has no handler: workers/handlers/${queue} exports none of that name.`);
}

async function importHandler(queue: string): Promise<unknown> {
  try {
    return (await import(`./handlers/${queue}.ts`)) as unknown;
  } catch (cause) {
    const [why] = messageOf(cause).split('\n');
    throw new Error(`The queue ${queue} has no handler: ${why}`, { cause });
  }
}

/** `defineHandler` checks its type. */
function handlerIn(module: unknown): Handler | undefined {
  return (module as { handler?: Handler }).handler;
}
