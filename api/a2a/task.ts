/** A run as an A2A task: turns are the history, answers the artifacts. */
import { Task, TaskState } from '@a2a-js/sdk';
import type { RunStatus } from '../../core/events.ts';
import { changedAt, type RunHead, type TurnRow } from '../../modules/runs/read-runs.ts';
import type { HandedOn } from '../../modules/workflows/read-handoffs.ts';
import { presentRun, presentTurn } from '../runs/schemas.ts';

/** Final states. */
export const ENDED: readonly TaskState[] = [
  TaskState.TASK_STATE_COMPLETED,
  TaskState.TASK_STATE_FAILED,
  TaskState.TASK_STATE_CANCELED,
];
/** States in which nothing more happens without input. */
export const SETTLED: readonly TaskState[] = [...ENDED, TaskState.TASK_STATE_INPUT_REQUIRED];

const END_STATES: Partial<Record<RunStatus, TaskState>> = {
  completed: TaskState.TASK_STATE_COMPLETED,
  failed: TaskState.TASK_STATE_FAILED,
  cancelled: TaskState.TASK_STATE_CANCELED,
};
/** Waits for a person or client, not for time, another system or a provider. */
const ASKING: readonly string[] = ['turn', 'user', 'approval', 'client_tools'];

/** `turns`: the run's last ones, in order. `next`: where its conversation goes on, if it was handed over. */
export function taskOf(row: RunHead, turns: readonly TurnRow[], next: HandedOn | undefined): Task {
  const run = presentRun({ ...row, output: null, cut_off: null });
  const asked = [...(run.waits ?? []), ...(run.waiting_for ? [run.waiting_for] : [])].find(({ type }) =>
    ASKING.includes(type),
  );
  const state = END_STATES[row.status] ?? (asked ? TaskState.TASK_STATE_INPUT_REQUIRED : TaskState.TASK_STATE_WORKING);
  const ids = { contextId: run.thread_id, taskId: run.run_id };
  const history = turns
    .map(presentTurn)
    .flatMap(({ id, input, output }) => [
      messageOf(ids, 'ROLE_USER', { id: input.message_id ?? `${id}-input`, parts: [{ text: input.message }] }),
      ...(output?.message ? [messageOf(ids, 'ROLE_AGENT', { id, parts: [{ text: output.message }] })] : []),
    ]);
  const says = run.error ? [{ text: run.error.message }] : asked ? partsOfWait(asked) : [];
  const answered = turns.filter(({ status }) => status === 'complete').map(presentTurn);
  return Task.fromJSON({
    id: run.run_id,
    contextId: run.thread_id,
    status: {
      state,
      timestamp: changedAt(row),
      ...(says.length > 0 && {
        message: messageOf(ids, 'ROLE_AGENT', { id: `${run.run_id}-${run.last_seq}`, parts: says }),
      }),
    },
    artifacts: answered.map(({ id, output }) => ({
      artifactId: id,
      name: 'answer',
      parts: [{ text: output?.message ?? '' }],
    })),
    history,
    metadata: {
      status: run.status,
      usage: run.usage,
      last_seq: run.last_seq,
      ...(next && { handed_over: handedOver(next) }),
    },
  });
}

/** The other agent has an endpoint of its own, where this is a task like any other. */
function handedOver({ handoff_id, status, agent_id, run_id }: HandedOn): object {
  return { handoff_id, status, agent_id, ...(run_id !== null && { task_id: run_id }) };
}

type Wait = NonNullable<ReturnType<typeof presentRun>['waiting_for']>;

/** In words, and as data that an answer can refer to. */
function partsOfWait(wait: Wait): object[] {
  if (wait.type === 'turn') return [];
  const words = wait.question ?? wait.message ?? `The run waits: ${wait.type}${wait.tool ? ` for ${wait.tool}` : ''}.`;
  return [{ text: words }, { data: wait }];
}

function messageOf(
  ids: { contextId: string; taskId: string },
  role: 'ROLE_USER' | 'ROLE_AGENT',
  { id: messageId, parts }: { id: string; parts: object[] },
): object {
  return { ...ids, messageId, role, parts };
}
