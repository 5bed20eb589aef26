/** Tools that need no way to anywhere: those that Drover brings, and those that the client executes. */
import { z } from 'zod';
import type { TransportTypes } from '../../core/tool.ts';
import { runBuiltin } from '../builtin.ts';
import type { TransportKind } from '../transport-kind.ts';

export const BUILTIN: TransportKind<TransportTypes['builtin']> = {
  type: 'builtin',
  schema: z.strictObject({ type: z.literal('builtin') }),
  secretTexts: () => [],
  present: (transport) => transport,
  call: ({ tool }, attempt, runtime) => runBuiltin(tool.name, attempt, runtime),
};

export const CLIENT: TransportKind<TransportTypes['client']> = {
  type: 'client',
  schema: z.strictObject({ type: z.literal('client') }).describe('Whoever talks to the run executes the tool.'),
  secretTexts: () => [],
  present: (transport) => transport,
  call: () =>
    Promise.resolve({ kind: 'error', code: 'no-client', message: 'The client executes this tool, in a run alone.' }),
};
