/** Runs and turns with attached files: contents are stored as files first, so that the log and the conversation hold only ids. */
import type { Attachment } from '../../core/content.ts';
import type { AgentDefinition } from '../../core/definition.ts';
import { impossible, notFound } from '../../core/errors.ts';
import { isTerminal, type TurnInput } from '../../core/events.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { findRunRow } from '../../db/runs.ts';
import { findShownTurn } from '../../db/shown-turns.ts';
import { newId } from '../../lib/new-id.ts';
import { filesTakenBy } from '../../llm/files-taken.ts';
import type { FilesTaken } from '../../llm/provider.ts';
import { primaryModelOf } from '../agents/effective-limits.ts';
import { withAttachments, withContents, type GivenAttachment } from '../files/attachments.ts';
import type { Context } from '../governance/context.ts';
import type { IdempotentAnswer } from '../tenants/idempotency.ts';
import type { CarriedTurn } from '../waits/post-tool-results.ts';
import { createRun, type CreatedRun, type CreateRun } from './create-run.ts';
import { cachedStart } from './creation/agent-for-run.ts';
import { onNamedThread } from './creation/named-thread.ts';
import { postTurn, type PostTurn } from './post-turn.ts';

/** A client's input that begins a turn. */
export interface GivenInput {
  message: string;
  attachments?: readonly GivenAttachment[] | null | undefined;
  /** Path of each attachment in the client's request; if absent, as in `input`. */
  attachmentPaths?: readonly string[] | undefined;
  /** Texts among the attachments are files, for which nobody vouches. */
  untrusted?: true | undefined;
  output_schema?: Record<string, unknown> | null | undefined;
  /** Kept with the turn for the client. */
  metadata?: Record<string, string> | undefined;
  /** Number of the request's characters that could not be stored. */
  replaced?: number | undefined;
}

/** `createRun` with a client's attachments. Throws as it and `withAttachments` do. */
export async function createRunWith(
  context: Context,
  { input, ...asked }: Omit<CreateRun, 'input'> & { input: GivenInput | undefined },
): Promise<IdempotentAnswer<CreatedRun>> {
  const request = await onNamedThread(context.db, asked);
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

/** `postTurn` with a client's attachments. */
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
  const taken = await takenByRun(context, run);
  const to = { tenantId, workspaceId: run.workspace_id, runId, threadId: run.thread_id, isNew: false };
  return withAttachments(context, { to: { ...to, taken }, given: attachments }, (kept) =>
    postTurn(context, { ...request, input: { ...plain(input), attachments: kept } }),
  );
}

/** Gives the input of this run's turn, in the transaction that begins it. */
export type InputFor = (tx: Tx, run: { runId: string; isNew: boolean }) => Promise<TurnInput>;

interface SaidOnThread {
  tenantId: string;
  workspaceId: string;
  agentId: string;
  threadId: string;
}

/** Runs `work` with the input for a turn on a thread; `work` finds its run. Throws as `withAttachments` does. */
export async function withInput<T>(
  context: Context,
  { input, ...at }: SaidOnThread & { input: GivenInput },
  work: (inputFor: InputFor) => Promise<T>,
): Promise<T> {
  const { attachments, attachmentPaths: paths } = input;
  if (!attachments || !attachments.some(isFile)) return work(async () => plain(input));
  const taken = await takenOnThread(context, at);
  return withContents(context, { tenantId: at.tenantId, given: attachments, paths }, (take) =>
    work(async (tx, run) => {
      const kept = await take(tx, { ...at, ...run, taken });
      return { ...plain(input), attachments: kept.attachments };
    }),
  );
}

/** File types accepted by the model that will read the message: of the open run, otherwise of the agent's next one. */
async function takenOnThread(context: Context, { tenantId, threadId, ...wanted }: SaidOnThread): Promise<FilesTaken> {
  const run = await context.db.withTenant(tenantId, async (tx) => {
    const shown = await findShownTurn(tx, threadId);
    return shown && findRunRow(tx, shown.runId);
  });
  if (!run || isTerminal(run.status) || run.agent_id !== wanted.agentId) {
    const { start } = await cachedStart(context, { tenantId, ...wanted, config: {} });
    return takenBy(context, start.definition, undefined);
  }
  return takenByRun(context, run);
}

async function takenByRun(context: Context, run: RunRow): Promise<FilesTaken> {
  const { tenant_id: tenantId, agent_id: agentId, agent_version: agentVersion } = run;
  const { definition } = await context.definitions.load({ tenantId, agentId, agentVersion, tools: [] });
  return takenBy(context, definition, run.config.model_override);
}

function isFile(given: GivenAttachment): boolean {
  return given.type === 'file' || (given.type === 'image' && given.source.type === 'base64');
}

/** The input of a turn whose attachments contain no files to store. */
function plain({ message, attachments, untrusted, output_schema, metadata, replaced }: GivenInput): TurnInput {
  const attached = attachments && { attachments: attachments as Attachment[] };
  const noted = replaced !== undefined && { replaced };
  const said = { message, ...attached, ...(untrusted && { untrusted }) };
  return { ...said, ...(output_schema && { output_schema }), ...(metadata && { metadata }), ...noted };
}

/** Throws 422 for a schema that answers cannot be checked against. */
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
