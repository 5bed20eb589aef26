/** A message of a client of another protocol, in which everything beside its words is a file. */
import type { GivenInput } from '../../modules/sessions/converse.ts';

interface FileOfMessage {
  attachment: NonNullable<GivenInput['attachments']>[number];
  /** Its place in the client's request. */
  path: string;
}

/** The input of a turn. A text is as untrusted as any other file: who sends it need not be its author. */
export function inputWithFiles(message: string, files: readonly FileOfMessage[]): GivenInput {
  const attachments = files.map(({ attachment }) => attachment);
  const hasText = attachments.some(({ type }) => type === 'text');
  const attachmentPaths = files.map(({ path }) => path);
  return { message, attachments, attachmentPaths, ...(hasText && { untrusted: true }) };
}
