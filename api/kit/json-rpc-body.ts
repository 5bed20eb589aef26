/** Bodies that are JSON-RPC messages: problems also contain the JSON-RPC error. */
import { z } from 'zod';
import { DroverError } from '../../core/errors.ts';
import { RefusedJson } from './refused-json.ts';

const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;
const INVALID_PARAMS = -32602;

/** A request's id. A request with any other kind of id cannot be answered under it. */
export const rpcId = z.union([z.string(), z.int()], { error: 'must be a string or an integer' });

/** Reads and checks a message. Throws problems that also hold JSON-RPC's `error`. */
export async function readMessage<T>(read: () => Promise<unknown>, check: (body: unknown) => T): Promise<T> {
  let body: unknown;
  try {
    body = await read();
  } catch (error) {
    throw error instanceof RefusedJson ? refusedMessage(error) : withRpcError(error, PARSE_ERROR);
  }
  try {
    return check(body);
  } catch (error) {
    throw withRpcError(error, INVALID_REQUEST);
  }
}

const request = z.object({ jsonrpc: z.literal('2.0'), id: rpcId, method: z.string() });

/** The id and code to answer refused JSON with; no id if that is what is wrong, or in a batch. */
export function answerTo({ body, errors }: RefusedJson): { id: string | number | null; code: number } {
  const asked = request.safeParse(body);
  if (!asked.success) return { id: null, code: INVALID_REQUEST };
  const isInParams = errors?.every(({ path }) => path.startsWith('body.params.')) === true;
  return { id: asked.data.id, code: isInParams ? INVALID_PARAMS : INVALID_REQUEST };
}

function refusedMessage(error: RefusedJson): unknown {
  const { id, code } = answerTo(error);
  return withRpcError(error, code, id);
}

function withRpcError(error: unknown, code: number, id: string | number | null = null): unknown {
  if (!(error instanceof DroverError) || error.status !== 400) return error;
  const { message, errors } = error;
  const extra = { jsonrpc: '2.0', id, error: { code, message } };
  return new DroverError(error.code, error.status, message, { errors, extra });
}
