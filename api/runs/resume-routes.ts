/** Answers to anything a run waits for. */
import { z } from 'zod';
import type { Caller } from '../../core/caller.ts';
import { noteReplaced } from '../../core/content.ts';
import { forbidden } from '../../core/errors.ts';
import { hasScope } from '../../core/scopes.ts';
import { readRunRef } from '../../modules/runs/read-runs.ts';
import { answerWaits, type WaitAnswer } from '../../modules/waits/answer-waits.ts';
import type { Route } from '../kit/route.ts';
import { answerTurn, TURN_ANSWERS } from './answer-turn.ts';
import { decisionBody, toDecision } from './decision-schema.ts';
import { defineRunRoutes, runParams } from './run-access.ts';
import { toolResults } from './request-schemas.ts';

const MAX_ANSWERS = 200;

const fields = z.strictObject({
  answer: z
    .string()
    .min(1)
    .optional()
    .describe('Of a wait of type `user`; of `turn` the message that begins the next one.'),
  decision: decisionBody.optional().describe('Of `approval`; needs the scope `approvals:write`.'),
  tool_results: toolResults.optional().describe('Of `client_tools`.'),
  payload: z.unknown().optional().describe('Of `webhook` and `timer`: any JSON.'),
});
type Fields = z.output<typeof fields>;

const waitIdParam = z.uuid().toLowerCase();
const KINDS = ['answer', 'decision', 'tool_results', 'payload'] as const;

const kindsOf = (given: Fields) => KINDS.filter((kind) => given[kind] !== undefined);

const oneOf = 'is one of answer, decision, tool_results and payload, and no more than one';

const resumeBody = fields
  .extend({
    wait_id: waitIdParam.nullish().describe('Where the run waits for several things. Null as absent, as of `turn`.'),
    answers: z
      .array(
        fields
          .extend({ wait_id: waitIdParam })
          .refine((given) => kindsOf(given).length === 1, `what answers the wait ${oneOf}`),
      )
      .min(1)
      .max(MAX_ANSWERS)
      .refine((all) => new Set(all.map(({ wait_id }) => wait_id)).size === all.length, 'has a wait_id twice')
      .optional()
      .describe('Several at once: all of them or none.'),
  })
  .superRefine((body, context) => {
    const say = (path: string[], message: string) => context.addIssue({ code: 'custom', path, message });
    const kinds = kindsOf(body).length;
    if (body.answers && (kinds > 0 || body.wait_id))
      say(['answers'], 'cannot go with wait_id, or with an answer beside it');
    if (!body.answers && kinds !== 1) say([], `what answers the wait ${oneOf}`);
  });

const resume = defineRunRoutes({
  method: 'post',
  path: '/resume',
  access: 'any-key',
  runToken: 'answer',
  summary:
    'Answer what the run waits for, or begin its next turn: 200 with the answer of its turn, or 202 as a turn; a ' +
    'decision needs the scope `approvals:write`, all else `runs:write`',
  idempotent: true,
  params: runParams,
  body: resumeBody,
  prefers: true,
  responses: TURN_ANSWERS,
  async handle(request) {
    const { caller, params, body, context, ctx, idempotency } = request;
    const { given, replaced } = ctx.state;
    const several = (given as { answers?: unknown[] } | undefined)?.answers;
    const answers = body.answers?.map((answer, n) => ({
      ...toAnswer(answer, `body.answers.${n}`),
      ...noteReplaced(several?.[n]),
    })) ?? [{ ...toAnswer(body, 'body'), replaced }];
    for (const { kind } of answers) requireScope(caller, kind);
    await readRunRef(context, caller, params);
    const about = { caller, runId: params.run, answers, traceparent: ctx.state.traceparent };
    // Both paths mean the same request.
    const route = `POST /v1/runs/${params.run}/resume`;
    return answerTurn(request, () => answerWaits(context, { ...about, idempotency: { ...idempotency, route } }));
  },
});

function toAnswer(given: Fields & { wait_id?: string | null | undefined }, where: string): WaitAnswer {
  const { answer, decision, tool_results, payload } = given;
  const waitId = given.wait_id ?? undefined;
  if (answer !== undefined) return { waitId, kind: 'answer', message: answer };
  if (decision) return { waitId, kind: 'decision', decided: toDecision(decision, `${where}.decision`) };
  if (tool_results) return { waitId, kind: 'tool_results', results: tool_results };
  return { waitId, kind: 'payload', payload };
}

function requireScope({ scopes }: Caller, kind: WaitAnswer['kind']): void {
  const needed = kind === 'decision' ? 'approvals:write' : 'runs:write';
  if (!hasScope(scopes, needed)) throw forbidden(`The key does not have the scope "${needed}", which "${kind}" needs.`);
}

export const RESUME_ROUTES: readonly Route[] = resume;
