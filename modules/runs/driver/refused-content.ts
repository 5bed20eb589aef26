/** What follows when a provider refuses a request for an image or a file in it: it would refuse every later one of the thread. */
import type { RefusedFiles } from '../../../core/refused-files.ts';
import type { ModelError } from '../../../core/model.ts';
import { holdsFiles, withoutRefused } from '../../run-log/refused-files.ts';
import { lengthOf } from '../../run-log/run-log.ts';
import type { Drive } from './drive-state.ts';

/** A refusal in which the provider speaks of one. Others may be the fault of a setting, which somebody mends. */
const REFUSED = /(?:image|picture|pdf|document|\bfiles?\b|media|base64)[^]*\(status 4\d\d\)$/i;

/**
 * The messages that are sent without images and files from now on: those that came after the last answer, since with the others
 * a model has answered; all, if those have none. Undefined if the refusal is none of a file.
 */
export function refusedFilesFor({ log }: Drive, { kind, message }: ModelError): RefusedFiles | undefined {
  if (kind !== 'invalid_request' || !REFUSED.test(message)) return undefined;
  const held = withoutRefused(log.messages, log.state.refusedFiles).filter(holdsFiles);
  const last = held.at(-1);
  if (!last) return undefined;
  const answered = log.messages.findLast(({ role }) => role === 'assistant')?.ordinal ?? -1;
  return { from: last.ordinal > answered ? answered + 1 : 0, until: lengthOf(log) };
}
