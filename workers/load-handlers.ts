/** Finds the handler of each queue: `workers/handlers/` has one file for each contract of `jobs/`, of the queue's name. */
import { messageOf } from '../core/errors.ts';
import type { Handler } from './handler.ts';

/** The handlers of these queues. @throws an Error of one line for the first queue that has none. */
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

/** `defineHandler` has typed it. */
function handlerIn(module: unknown): Handler | undefined {
  return (module as { handler?: Handler }).handler;
}
