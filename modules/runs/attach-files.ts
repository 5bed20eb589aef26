/** Runs and turns that begin with files: contents become files first, so that the log and the conversation hold ids alone. */
import type { Attachment } from '../../core/content.ts';
import type { AgentDefinition } from '../../core/definition.ts';
import { impossible, notFound } from '../../core/errors.ts';
import type { TurnInput } from '../../core/events.ts';
import { findRunRow } from '../../db/runs.ts';
import { newId } from '../../lib/new-id.ts';
import { filesTakenBy } from '../../llm/files-taken.ts';
import type { FilesTaken } from '../../llm/provider.ts';
import { primaryModelOf } from '../agents/effective-limits.ts';
import { withAttachments, type GivenAttachment } from '../files/attachments.ts';
import type { Context } from '../governance/context.ts';
import type { IdempotentAnswer } from '../tenants/idempotency.ts';
import type { CarriedTurn } from '../waits/post-tool-results.ts';
import { createRun, type CreatedRun, type CreateRun } from './create-run.ts';
import { cachedStart } from './creation/agent-for-run.ts';
import { postTurn, type PostTurn } from './post-turn.ts';

/** What a client says to begin a turn. */
export interface GivenInput {
  message: string;
  attachments?: readonly GivenAttachment[] | null | undefined;
  output_schema?: Record<string, unknown> | null | undefined;
}

/** `createRun` with what the client has attached. Throws as that and `withAttachments` do. */
export async function createRunWith(
  context: Context,
  { input, ...request }: Omit<CreateRun, 'input'> & { input: GivenInput | undefined },
): Promise<IdempotentAnswer<CreatedRun>> {
  if (!input) return createRun(context, request);
  checkSchema(context, input);
  const { attachments } = input;
  if (!attachments || !attachments.some(isFile)) return createRun(context, { ...request, input: plain(input) });
  const { start } = await cachedStart(context, request);
  const ids = { runId: newId(), newThreadId: newId() };
  const { tenantId, workspaceId } = request;
  const to = { tenantId, workspaceId, runId: ids.runId, threadId: request.threadId ?? ids.newThreadId, isNew: true };
  const taken = takenBy(context, start.definition, request.config.model_override);
  return withAttachments(context, { to: { ...to, taken }, given: attachments }, (kept) =>
    createRun(context, { ...request, ...ids, input: { ...plain(input), attachments: kept } }),
  );
}

/** `postTurn` in the same way. */
export async function postTurnWith(
  context: Context,
  { input, ...request }: Omit<PostTurn, 'input'> & { input: GivenInput },
): Promise<CarriedTurn> {
  checkSchema(context, input);
  const { attachments } = input;
  if (!attachments || !attachments.some(isFile)) return postTurn(context, { ...request, input: plain(input) });
  const { tenantId, runId } = request;
  const run = await context.db.withTenant(tenantId, (tx) => findRunRow(tx, runId));
  if (!run) throw notFound('The run');
  const pins = { tenantId, agentId: run.agent_id, agentVersion: run.agent_version, tools: [] };
  const { definition } = await context.definitions.load(pins);
  const taken = takenBy(context, definition, run.config.model_override);
  const to = { tenantId, workspaceId: run.workspace_id, runId, threadId: run.thread_id, isNew: false };
  return withAttachments(context, { to: { ...to, taken }, given: attachments }, (kept) =>
    postTurn(context, { ...request, input: { ...plain(input), attachments: kept } }),
  );
}

function isFile(given: GivenAttachment): boolean {
  return given.type === 'file' || (given.type === 'image' && given.source.type === 'base64');
}

/** Nothing in it is a file. */
function plain({ message, attachments, output_schema }: GivenInput): TurnInput {
  const attached = attachments && { attachments: attachments as Attachment[] };
  return { message, ...attached, ...(output_schema && { output_schema }) };
}

/** Throws 422 for a schema that no answer can be held to. */
function checkSchema({ tools }: Context, { output_schema: schema }: GivenInput): void {
  const errors = schema ? tools.validator.checkAnswerSchema(schema) : [];
  const at = 'body.input.output_schema';
  if (errors.length === 0) return;
  const named = errors.map(({ path, message }) => ({ path: path === '' ? at : `${at}.${path}`, message }));
  throw impossible('An answer can be held to no such schema.', named);
}

function takenBy(context: Context, definition: AgentDefinition, override: string | null | undefined): FilesTaken {
  return filesTakenBy(context.models.resolve(primaryModelOf(definition, override)));
}
