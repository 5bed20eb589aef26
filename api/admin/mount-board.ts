/** Bull Board over the queues: the only file that loads its packages. */
import { createBullBoard } from '@bull-board/api';
import { KoaAdapter } from '@bull-board/koa';
import { TURNS } from '../../jobs/turns.ts';
import type { Context } from '../../modules/governance/context.ts';
import type { AppParts } from '../kit/route.ts';
import type { Middleware } from '../kit/state.ts';
import { BOARD as BASE, SIGN_OUT } from './board-paths.ts';
import { QueueAdapter } from './queue-adapter.ts';
import { TurnsAdapter } from './turns-adapter.ts';

export interface MountedBoard {
  board: Middleware;
  turns: TurnsAdapter;
}

/** Makes the board's middleware and its adapter for turns. */
export function mountBoard(context: Context, { queues }: AppParts): MountedBoard {
  const adapter = new KoaAdapter();
  const turns = new TurnsAdapter(context, context.queues.queue(TURNS.name));
  createBullBoard({
    queues: queues.map((queue) => (queue.name === TURNS.name ? turns : new QueueAdapter(context, queue))),
    serverAdapter: adapter,
    options: {
      uiConfig: {
        boardTitle: 'Drover',
        hideDocsLink: true,
        miscLinks: [{ text: 'Sign out', url: SIGN_OUT }],
      },
    },
  });
  adapter.setBasePath(BASE);
  // Its own handler would answer 500 with any error's message.
  adapter.setErrorHandler((error) => {
    throw error;
  });
  return { board: adapter.registerPlugin({ mount: BASE }), turns };
}
