import { TURNS } from '../../jobs/turns.ts';
import { driveJob } from '../drive-job.ts';
import { defineHandler } from '../handler.ts';

/** Drives the run. */
export const handler = defineHandler(TURNS, driveJob);
