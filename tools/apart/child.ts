/** The program of the child processes of `evaluate-apart.ts`: one evaluation after the other. */
import type { ApartAnswer } from './apart-answer.ts';
import { calculateWithin, loadMath, type Calculation } from './calculation.ts';
import { repeatOnCpu } from '../run-bounded.ts';
import { evaluateExpression, type Expression } from './jsonata.ts';

/** What is evaluated. */
export type ApartWork = { jsonata: Expression } | { calculation: Calculation };

export interface ApartRequest {
  work: ApartWork;
  limitMs: number;
}

const evaluate = async ({ work, limitMs }: ApartRequest): Promise<ApartAnswer> =>
  'jsonata' in work ? evaluateExpression(work.jsonata, limitMs) : calculateWithin(work.calculation, limitMs);

const answerTo = async (request: ApartRequest): Promise<ApartAnswer> =>
  repeatOnCpu(
    async () => {
      // Once that is sent: nothing else is, while an evaluation keeps this process busy.
      await new Promise((sent) => process.send?.('begun', sent));
      return evaluate(request);
    },
    { timeoutMs: request.limitMs, isLate: (answer) => 'fault' in answer && answer.fault === 'too-slow' },
  );

// Ignored: it ends with its parent, whatever signals the process group gets.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => undefined);
process.on('message', (request: ApartRequest) => {
  if ('calculation' in request.work) loadMath();
  void answerTo(request).then((answer) => process.send?.(answer));
});
process.send?.('ready');
