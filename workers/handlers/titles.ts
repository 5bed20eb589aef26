import { TITLES } from '../../jobs/titles.ts';
import { titleThread } from '../../modules/conversations/title-thread.ts';
import { defineHandler } from '../handler.ts';

/** Gives the thread its title. */
export const handler = defineHandler(TITLES, (context, payload, held) => titleThread(context, payload, held.stop));
