/** State that a run passes to the next run of its thread, which then continues seamlessly. Pure. */
import { calibrate, corrected, type Calibration } from './calibration.ts';
import { contextChange, inheritedCut, type ContextCut } from './context-state.ts';
import type { NewEvent, RunEvent } from './events.ts';
import { INTERRUPTED } from './model-call-state.ts';
import type { RefusedFiles } from './refused-files.ts';

export interface Carried {
  calibration?: Calibration | undefined;
  containerId?: string | undefined;
  /** Ordinals of messages that came in the middle of a turn. */
  steered?: number[] | undefined;
  refusedFiles?: RefusedFiles[] | undefined;
  /** Where the conversation that models are sent begins, and what was left out. Only grows within a budget. */
  firstKept?: number | undefined;
  cut?: ContextCut | undefined;
}

/** A part of the run's state: the messages that are sent without their images and files. */
export interface Refused {
  refusedFiles?: RefusedFiles[];
}

type Known = { [Key in keyof Carried]: NonNullable<Carried[Key]> };

/** What the first event of a run says of it. */
export type Handed = Pick<Payload<'run.created'>, 'calibration' | 'container_id' | 'steered' | 'refused_files' | 'cut'>;

/** The state with which a run begins. */
export function takenOver(handed: Handed): Known {
  const { calibration, container_id: containerId, steered, refused_files: refusedFiles, cut } = handed;
  return {
    ...(refusedFiles && { refusedFiles }),
    ...(calibration && { calibration }),
    ...(containerId !== undefined && { containerId }),
    ...(steered && { steered }),
    ...(cut && inheritedCut(cut)),
  };
}

/** The same state during a model call. */
export interface Carrying extends Carried {
  modelCall?:
    | { asked?: { model: string; estimated: number }; failures: number; turnId?: string | undefined }
    | null
    | undefined;
}

/** Types of events that change this state. */
export const CARRYING = [
  'model.called',
  'model.retried',
  'model.failed',
  'model.responded',
  'message.dequeued',
  'context.compacted',
  'context.transformed',
] as const;
type CarryingEvent = Extract<NewEvent, { type: (typeof CARRYING)[number] }>;

/** The state after more of those events. Equals what the fold of all events gives. */
export function carriedAfter(
  start: Carrying,
  events: readonly Pick<CarryingEvent, 'type' | 'payload' | 'turn_id'>[],
): Known {
  let { calibration, containerId, modelCall, steered, refusedFiles, firstKept, cut } = start;
  for (const { type, payload, turn_id: turnId } of events as readonly CarryingEvent[]) {
    if (type === 'message.dequeued') {
      if (payload.as === 'steer' && payload.length !== undefined) steered = [...(steered ?? []), payload.length - 1];
    } else if (type === 'context.compacted' || type === 'context.transformed') {
      ({ firstKept, cut } = contextChange({ type, payload } as Extract<RunEvent, { type: typeof type }>));
    } else if (type === 'model.called') {
      if (typeof payload.tool_choice === 'object') continue;
      modelCall = { ...estimateOf(payload), failures: 0, turnId };
    } else if (type === 'model.retried') {
      calibration = corrected(calibration, payload.calibration);
    } else if (payload.tool !== undefined) {
      continue;
    } else if (type === 'model.failed') {
      if (payload.error.code === INTERRUPTED) continue;
      calibration = corrected(calibration, payload.calibration);
      if (payload.refused_files) refusedFiles = [...(refusedFiles ?? []), payload.refused_files];
      // A turn that was ended meanwhile tells of its models late: no failure of the next one's call.
      const isLate = modelCall?.turnId !== undefined && modelCall.turnId !== turnId;
      if (modelCall && !isLate) modelCall = { ...modelCall, failures: modelCall.failures + 1 };
    } else {
      calibration = calibrationAfter({ calibration, modelCall }, payload);
      containerId = payload.container_id ?? containerId;
      modelCall = null;
    }
  }
  return {
    ...(calibration && { calibration }),
    ...(containerId !== undefined && { containerId }),
    ...(steered && { steered }),
    ...(refusedFiles && { refusedFiles }),
    ...(cut && firstKept !== undefined && { firstKept, cut }),
  };
}

/** What a failed request teaches of the next ones. */
export function learnedFrom(
  { calibration, refusedFiles = [] }: Pick<Carried, 'calibration' | 'refusedFiles'>,
  { type, payload }: RunEvent,
): { calibration?: Calibration; refusedFiles?: RefusedFiles[] } {
  if (type !== 'model.retried' && type !== 'model.failed') return {};
  const after = corrected(calibration, payload.calibration);
  const refused = type === 'model.failed' ? payload.refused_files : undefined;
  return { ...(after && { calibration: after }), ...(refused && { refusedFiles: [...refusedFiles, refused] }) };
}

type Payload<T extends NewEvent['type']> = Extract<NewEvent, { type: T }>['payload'];

/** The announced model and the estimated tokens of its prompt; empty for events of older builds, which lack them. */
export function estimateOf({ provider, model, ...tokens }: Payload<'model.called'>): {
  asked?: { model: string; estimated: number };
} {
  const { estimated_tokens: conversation, fixed_tokens: fixed } = tokens;
  return fixed === undefined ? {} : { asked: { model: `${provider}/${model}`, estimated: conversation + fixed } };
}

/** Unchanged after a fallback: the tokens counted are another model's. */
function calibrationAfter(
  { calibration: before, modelCall }: Carrying,
  { usage, calibration: more }: Payload<'model.responded'>,
): Calibration | undefined {
  const calibration = corrected(before, more);
  if (!modelCall?.asked || modelCall.failures > 0) return calibration;
  return calibrate(calibration, { ...modelCall.asked, usage });
}
