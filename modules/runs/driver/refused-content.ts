/** What follows when a provider refuses a request for an image or a file in it: it would refuse every later one of the thread. */
import type { RefusedFiles } from '../../../core/refused-files.ts';
import type { ModelError } from '../../../core/model.ts';
import { holdsFiles, withoutRefused } from '../../run-log/refused-files.ts';
import { lengthOf } from '../../run-log/run-log.ts';
import type { Drive } from './drive-state.ts';

/**
 * What providers call an image or a file of a request. Words such as `files` alone are in other refusals, too, which are the fault
 * of a setting that somebody mends.
 */
const NAMED =
  /\b(?:(?:\w+_)?images?(?:_\w+)?|pictures?|pdfs?|documents?|media[ _]type|mime[ _-]?type|base64|input_file|file_(?:id|data|url)|(?:unsupported|unreadable|invalid|corrupt(?:ed)?|no such|the|this|your) files?)\b/i;
/** Addresses of documentation, and faults of tools, name what they like. */
const ADDRESS = /\bhttps?:\/\/\S+/g;
const OF_TOOLS = /\btools?[.[]\d/;
const STATUS = /\(status 4\d\d\)$/;

/** Whether a provider has refused a request for an image or a file in it. */
export function namesFile(message: string): boolean {
  return STATUS.test(message) && !OF_TOOLS.test(message) && NAMED.test(message.replace(ADDRESS, ''));
}

/**
 * The messages that are sent without images and files from now on: those that came after the last answer, since with the others
 * a model has answered; all, if those have none. Undefined if the refusal is none of a file.
 */
export function refusedFilesFor({ log }: Drive, { kind, message }: ModelError): RefusedFiles | undefined {
  if (kind !== 'invalid_request' || !namesFile(message)) return undefined;
  const held = withoutRefused(log.messages, log.state.refusedFiles).filter(holdsFiles);
  const last = held.at(-1);
  if (!last) return undefined;
  const answered = log.messages.findLast(({ role }) => role === 'assistant')?.ordinal ?? -1;
  return { from: last.ordinal > answered ? answered + 1 : 0, until: lengthOf(log) };
}
