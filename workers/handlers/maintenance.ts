import { MAINTENANCE } from '../../jobs/maintenance.ts';
import { maintain } from '../../modules/platform/maintain.ts';
import { defineHandler } from '../handler.ts';

/** Carries out one act. */
export const handler = defineHandler(MAINTENANCE, (context, { act }) => maintain(context, act));
