/** Bull Board over the queues: the one file that loads its packages. */
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

/** Answers what is asked of the board, and what it shows of turns. */
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
  // Its own handler answers 500 with the error's words, whatever they are.
  adapter.setErrorHandler((error) => {
    throw error;
  });
  return { board: adapter.registerPlugin({ mount: BASE }), turns };
}
