/** A2A's push notification operations: who is notified of a task. Credentials are never returned. */
import { TaskPushNotificationConfig } from '@a2a-js/sdk';
import { TaskNotFoundError } from '@a2a-js/sdk/errors';
import type { A2ARequestHandler } from '@a2a-js/sdk/server';
import { z } from 'zod';
import { badRequest, notFound } from '../../core/errors.ts';
import { hasLogin } from '../../lib/has-login.ts';
import { requireReadableRun } from '../../modules/runs/read-runs.ts';
import {
  createPushConfig,
  readPushConfigs,
  removePushConfig,
  type PushConfigRow,
} from '../../modules/webhooks/push-configs.ts';
import type { A2aRequest } from './request.ts';

type Tx = Parameters<typeof requireReadableRun>[0];
type PushOperations = Pick<
  A2ARequestHandler,
  | 'createTaskPushNotificationConfig'
  | 'getTaskPushNotificationConfig'
  | 'listTaskPushNotificationConfigs'
  | 'deleteTaskPushNotificationConfig'
>;

/** A header's value. */
const printable = z.string().regex(/^[\x20-\x7e]+$/, 'has characters that no header takes');

const NO_PASSWORD = 'has a user name or a password, which belong into authentication';

const wanted = z.object({
  id: z.string().max(200),
  url: z
    .url({ protocol: /^https?$/ })
    .max(2000)
    .refine((url) => !hasLogin(url), NO_PASSWORD),
  token: z.union([z.literal(''), printable.max(4096)]),
  authentication: z.object({ scheme: printable.max(100), credentials: printable.max(8192) }).optional(),
});

/** The operations for one agent and caller. They throw a `DroverError`, or an SDK error. */
export function pushOperations(request: A2aRequest): PushOperations {
  const { caller } = request;
  return {
    createTaskPushNotificationConfig: (config) => putConfig(request, config.taskId, config),
    async getTaskPushNotificationConfig({ taskId, id }) {
      const found = (await configsOf(request, taskId)).find(({ push_id }) => push_id === id);
      if (!found) throw notFound('The push configuration');
      return present(found);
    },
    async listTaskPushNotificationConfigs({ taskId, pageSize, pageToken }) {
      const { limit, start } = pageOf(pageSize, pageToken);
      const inOrder = (await configsOf(request, taskId)).toSorted((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));
      const rows = inOrder.filter((row) => placeOf(row) > start);
      const page = rows.slice(0, limit);
      const last = rows.length > limit ? page.at(-1) : undefined;
      return { configs: page.map((row) => present(row)), nextPageToken: last ? placeOf(last) : '' };
    },
    async deleteTaskPushNotificationConfig({ taskId, id }) {
      await withTask(request, taskId, (tx, runId) => removePushConfig(tx, caller, { runId, pushId: id }));
    },
  };
}

const PAGE = 50;

/** `start` is the place before the page. Throws 400. */
function pageOf(pageSize: number, pageToken: string) {
  if (!Number.isInteger(pageSize) || pageSize < 0) throw badRequest('A page has one configuration at least.');
  const isPlace = pageToken === '' || place.safeParse(pageToken.split(' ')).success;
  if (!isPlace) throw badRequest('A pageToken is one that a page has ended with.');
  return { limit: pageSize === 0 ? PAGE : pageSize, start: pageToken };
}

const place = z.tuple([z.iso.datetime(), z.uuid()]);

/** The sort key within a task, oldest first. */
const placeOf = ({ created_at: at, id }: PushConfigRow) => `${at.toISOString()} ${id}`;

/** Whom to notify, and what to send along. Throws 400. */
export function checkConfig(config: TaskPushNotificationConfig): z.output<typeof wanted> {
  const parsed = wanted.safeParse(config);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw badRequest(`The push configuration: ${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`);
}

/** Adds a push configuration to a task. Throws 400, 404, 422. */
export async function putConfig(
  request: A2aRequest,
  taskId: string,
  config: TaskPushNotificationConfig,
): Promise<TaskPushNotificationConfig> {
  const { id, url, token, authentication } = checkConfig(config);
  const { caller, context } = request;
  const row = await withTask(request, taskId, (tx, runId, contextId) =>
    createPushConfig(
      tx,
      { caller, keyring: context.keyring },
      {
        runId,
        pushId: id === '' ? undefined : id,
        url,
        carries: { contextId, authentication, ...(token !== '' && { token }) },
      },
    ),
  );
  return present(row, authentication?.scheme);
}

async function configsOf(request: A2aRequest, taskId: string): Promise<PushConfigRow[]> {
  return withTask(request, taskId, (tx, runId) => readPushConfigs(tx, runId));
}

/** Does `work` on a task of this agent in a transaction. Throws 404. */
async function withTask<T>(
  { context, caller, agent }: A2aRequest,
  taskId: string,
  work: (tx: Tx, runId: string, contextId: string) => Promise<T>,
): Promise<T> {
  const id = z.uuid().toLowerCase().safeParse(taskId).data;
  if (id === undefined) throw new TaskNotFoundError(`There is no task "${taskId}".`);
  return context.db.withTenant(caller.tenantId, async (tx) => {
    const run = await requireReadableRun(tx, caller, { run: id, id: agent.id });
    return work(tx, id, run.thread_id);
  });
}

function present({ run_id: taskId, push_id: id, url }: PushConfigRow, scheme?: string): TaskPushNotificationConfig {
  return TaskPushNotificationConfig.fromJSON({ id, taskId, url, ...(scheme && { authentication: { scheme } }) });
}
