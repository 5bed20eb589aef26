/** Records what is left out of the conversation, in the log and as a metric, whenever the cut moves. */
import { recordContextCut } from '../../../core/decision-events/model-calls.ts';
import type { ResolvedModel } from '../../../llm/models.ts';
import { appendEvent } from '../../run-log/run-log.ts';
import { askedOf, fitContext, sourceOf, type FittedContext } from './build-request.ts';
import type { Drive } from './drive-state.ts';

/** Records where the conversation sent to a model begins, unless the log has it. Returns what is sent. */
export function recordCut(drive: Drive, resolved: ResolvedModel): FittedContext {
  const { log, context } = drive;
  const source = sourceOf(drive);
  const fitted = fitContext(source, askedOf(source.limits, resolved));
  if (fitted.dropped === (log.state.firstKept ?? 0) && !log.state.cut?.isInherited) return fitted;
  const { room, dropped, droppedTokens } = fitted;
  appendEvent(
    log,
    recordContextCut(log.state, {
      reason: room.reason,
      first_kept_ordinal: dropped,
      dropped_messages: dropped,
      dropped_tokens: droppedTokens,
      budget_tokens: room.limit,
    }),
  );
  context.metrics.contextCuts.inc({ reason: room.reason });
  context.metrics.droppedTokens.inc({ reason: room.reason }, droppedTokens);
  return fitted;
}
