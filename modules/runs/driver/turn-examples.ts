/** The worked examples of a turn: chosen before its first model call, and kept in the log, so that later drivers show the same. */
import { chooseExamples } from '../../../core/choose-examples.ts';
import { memorySettings } from '../../../core/definition.ts';
import type { Decision } from '../../../core/decide.ts';
import { LIMITS } from '../../../core/limits.ts';
import { startDeadline } from '../../../lib/deadline.ts';
import { examplesOf, questionsOf } from './build-request.ts';
import { recordedExamples } from './replay-source.ts';
import type { Drive } from './drive-state.ts';

type CallModel = Extract<Decision, { kind: 'call_model' }>;

/** Indexes of the chosen examples; undefined if all are shown. */
export async function chooseTurnExamples(
  drive: Drive,
  { step }: Pick<CallModel, 'step'>,
): Promise<number[] | undefined> {
  const { log, definition } = drive;
  const { turn } = log.state;
  if (!turn || turn.examples) return turn?.examples;
  const examples = examplesOf(definition);
  if (examples.length <= LIMITS.examplesShown) return undefined;
  const recorded = recordedExamples(drive, step);
  if (recorded) return recorded.places;
  const question = turn.input.message;
  const likeness = await likenessOf(drive, question);
  return chooseExamples(examples, { question, likeness, most: LIMITS.examplesShown });
}

/** Similarities by vectors. Undefined if the examples have none yet, or the question's comes too late: a turn never fails for them. */
async function likenessOf(
  { definition, context: { embeddings, log }, signal, tenantId, run }: Drive,
  question: string,
): Promise<number[] | undefined> {
  const model = embeddings.modelFor(memorySettings(definition).embeddingModel);
  if (model === undefined || question === '') return undefined;
  const deadline = startDeadline(LIMITS.recallEmbeddingMs, signal);
  try {
    const payer = { tenantId, agentId: run.agent_id, runId: run.id, purpose: 'example_embeddings' } as const;
    const texts = questionsOf(definition);
    return await embeddings.compare(model, { texts, question, signal: deadline.signal, payer });
  } catch (error) {
    if (!signal.aborted) log.warn({ err: error, model }, 'worked examples have no vectors: words choose among them');
    return undefined;
  } finally {
    deadline.clear();
  }
}
