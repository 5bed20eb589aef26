/** Tools that connect to nothing: Drover's own, and those that the client executes. */
import { z } from 'zod';
import type { TransportTypes } from '../../core/tool.ts';
import { runBuiltin } from '../builtin.ts';
import type { TransportKind } from '../transport-kind.ts';

export const BUILTIN: TransportKind<TransportTypes['builtin']> = {
  schemas: { builtin: z.strictObject({ type: z.literal('builtin') }) },
  secretTexts: () => [],
  present: (transport) => transport,
  open: (runtime) => ({ call: ({ tool }, attempt) => runBuiltin(tool.name, attempt, runtime) }),
};

export const CLIENT: TransportKind<TransportTypes['client']> = {
  schemas: {
    client: z.strictObject({ type: z.literal('client') }).describe('Whoever talks to the run executes the tool.'),
  },
  secretTexts: () => [],
  present: (transport) => transport,
  open: () => ({
    call: () =>
      Promise.resolve({ kind: 'error', code: 'no-client', message: 'The client executes this tool, in a run alone.' }),
  }),
};
