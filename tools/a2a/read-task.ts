/** Reads a remote agent's task (A2A 1.0, JSON) as the outcome of the call that began it. */
import { z } from 'zod';
import { digestOf } from '../../core/ids.ts';
import type { ToolOutcome } from '../../core/tool.ts';

const part = z.looseObject({
  text: z.string().optional(),
  data: z.unknown().optional(),
  url: z.string().optional(),
  raw: z.string().optional(),
  filename: z.string().optional(),
  mediaType: z.string().optional(),
});
const message = z.looseObject({ parts: z.array(part).default([]) });
const task = z.looseObject({
  id: z.string().min(1).max(1000),
  contextId: z.string().max(1000).default(''),
  status: z.looseObject({ state: z.string(), message: message.optional() }),
  artifacts: z
    .array(z.looseObject({ name: z.string().optional(), parts: z.array(part).default([]) }))
    .nullish()
    .transform((artifacts) => artifacts ?? []),
});
export type RemoteTask = z.output<typeof task>;
type Part = z.output<typeof part>;

/** A task, or the message that some agents answer with at once; undefined for anything else. */
export function readSent(result: unknown): { task: RemoteTask } | { outcome: ToolOutcome } | undefined {
  const sent = z.union([z.object({ task }), z.object({ message })]).safeParse(result);
  if (!sent.success) return undefined;
  if ('task' in sent.data) return sent.data;
  return { outcome: { kind: 'succeeded', output: outputOf([{ parts: sent.data.message.parts }]) } };
}

export function readTask(result: unknown): RemoteTask | undefined {
  return task.safeParse(result).data;
}

const FAULTS: Readonly<Record<string, string>> = {
  TASK_STATE_FAILED: 'remote-failed',
  TASK_STATE_CANCELED: 'remote-cancelled',
  TASK_STATE_REJECTED: 'remote-rejected',
};
/** States in which a task waits for an answer. */
const ASKING: Readonly<Record<string, string>> = {
  TASK_STATE_INPUT_REQUIRED: 'input-required',
  TASK_STATE_AUTH_REQUIRED: 'auth-required',
};

/** The question of a waiting task; undefined if it asks none. `id` tells questions apart. */
export function questionOfTask({ status }: RemoteTask): { code: string; question: string; id: string } | undefined {
  const code = ASKING[status.state];
  if (code === undefined) return undefined;
  const said = textOf(status.message?.parts ?? []);
  return { code, question: said || 'The remote agent does not say what it asks.', id: digestOf(status) };
}

/** The outcome of an ended task; undefined while it runs or asks something. */
export function outcomeOfTask({ status, artifacts }: RemoteTask): ToolOutcome | undefined {
  const said = textOf(status.message?.parts ?? []);
  if (status.state === 'TASK_STATE_COMPLETED') {
    const all = artifacts.length > 0 ? artifacts : [{ parts: status.message?.parts ?? [] }];
    return { kind: 'succeeded', output: outputOf(all) };
  }
  const fault = FAULTS[status.state];
  if (fault === undefined) return undefined;
  if (said !== '') return { kind: 'error', code: fault, message: said };
  return { kind: 'error', origin: 'drover', code: fault, message: 'The remote agent does not say why.' };
}

/** Text if all parts are text; else parts with metadata, and file contents only by size. */
function outputOf(artifacts: readonly { name?: string | undefined; parts: readonly Part[] }[]): unknown {
  const parts = artifacts.flatMap((each) => each.parts);
  if (parts.every(isText)) return textOf(parts);
  return {
    text: textOf(parts),
    artifacts: artifacts.map(({ name, parts: own }) => ({ ...(name && { name }), parts: own.map(shown) })),
  };
}

function isText(each: Part): boolean {
  return each.text !== undefined;
}

function shown({ text, data, url, raw, filename, mediaType }: Part): Record<string, unknown> {
  const about = { ...(filename && { filename }), ...(mediaType && { media_type: mediaType }) };
  if (text !== undefined) return { text, ...about };
  if (url !== undefined) return { url, ...about };
  if (raw !== undefined) return { omitted_base64_chars: raw.length, ...about };
  return { data, ...about };
}

function textOf(parts: readonly Part[]): string {
  return parts.flatMap(({ text }) => text ?? []).join('\n');
}
