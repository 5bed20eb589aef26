/**
 * Stands between a model's intent and a tool: one function, one order. A call that does not pass becomes an observation
 * for the model, with its reason.
 */
import { faultOf } from '../../core/intents.ts';
import type { PolicyRef } from '../../core/policy.ts';
import type { ToolDefinition } from '../../core/tool.ts';
import { judgeAutonomy } from './stages/autonomy.ts';
import { judgeBinding } from './stages/binding.ts';
import { judgeBudget } from './stages/budget.ts';
import { judgePermissions } from './stages/permissions.ts';
import { judgeRails } from './stages/rails.ts';
import { judgeRules } from './stages/rules.ts';
import { judgeTaint } from './stages/taint.ts';
import type { GatedCall, GateInput, Rewrite, Stage, StageVerdict } from './stages/stage.ts';

/** The deciding stage, and its rule if it has one. */
export interface DecidedBy {
  stage: string;
  policy?: PolicyRef | undefined;
}

interface Decided {
  by: DecidedBy;
  /** The arguments for the tool, possibly rewritten by a rule. */
  arguments: Record<string, unknown>;
  rewritten?: Rewrite | undefined;
}

export type GateDecision =
  | ({ kind: 'allow'; tool: ToolDefinition; message: string } & Decided)
  /** A person must approve exactly these arguments first; with `fourEyes`, not the requester. */
  | ({ kind: 'ask'; tool: ToolDefinition; code: string; message: string; fourEyes: boolean } & Decided)
  | ({ kind: 'invalid'; tool: ToolDefinition | undefined; code: string; message: string } & Decided)
  | ({ kind: 'deny'; tool: ToolDefinition; code: string; message: string } & Decided);

/**
 * The binding order (docs/design/decisions.md): a new stage is a file in `modules/governance/stages/` and a line here
 * (docs/extending.md).
 */
const ORDER: readonly Stage[] = [
  { name: 'binding', judge: judgeBinding },
  { name: 'permissions', judge: judgePermissions },
  { name: 'rails', judge: judgeRails },
  { name: 'rules', judge: judgeRules },
  { name: 'autonomy', judge: judgeAutonomy },
  { name: 'taint', judge: judgeTaint },
  { name: 'budget', judge: judgeBudget },
];

/** All stages that can decide on a call; `arguments` is the schema check. */
export const STAGES: readonly string[] = [...ORDER.map(({ name }) => name), 'arguments'];

/** Decides on one call. Pure. Rewritten arguments pass the schema and all stages once more. */
export function gate(input: GateInput): GateDecision {
  const decision = pass(input, undefined);
  if (decision.kind !== 'rewrite') return decision;
  const again = pass({ ...input, arguments: decision.arguments }, decision.rewrite);
  if (again.kind === 'rewrite') throw new Error('rewritten arguments were rewritten again');
  if (again.kind !== 'invalid') return again;
  return { ...again, message: `The policy "${decision.rewrite.policy.name}" rewrote the arguments: ${again.message}` };
}

function pass(
  input: GateInput,
  rewritten: Rewrite | undefined,
): GateDecision | { kind: 'rewrite'; rewrite: Rewrite; arguments: Record<string, unknown> } {
  const args = { arguments: input.arguments, rewritten };
  const tool = input.tools.get(input.name);
  const fault = faultOf(input, input);
  if (!tool || fault) {
    const by: DecidedBy = { stage: tool ? 'arguments' : 'binding' };
    return { kind: 'invalid', tool, code: fault?.code ?? '', message: fault?.message ?? '', by, ...args };
  }
  const call: GatedCall = { ...input, tool, rewritten };
  let verdict: { by: DecidedBy; said: Extract<StageVerdict, { kind: 'ask' | 'allow' }> } | undefined;
  for (const { name, judge } of ORDER) {
    // A rule that allows or asks replaces the autonomy matrix, but no later stage.
    if (name === 'autonomy' && verdict) continue;
    const said = judge(call);
    if (!said) continue;
    const by: DecidedBy = { stage: name, policy: said.policy };
    if (said.kind === 'deny') return { kind: 'deny', tool, code: said.code, message: said.message, by, ...args };
    if (said.kind === 'rewrite') {
      return { kind: 'rewrite', rewrite: { policy: said.policy, message: said.message }, arguments: said.arguments };
    }
    if (verdict?.said.kind !== 'ask') verdict = { by, said };
  }
  if (!verdict) return { kind: 'allow', tool, message: '', by: { stage: 'autonomy' }, ...args };
  const { by, said } = verdict;
  if (said.kind === 'allow') return { kind: 'allow', tool, message: said.message, by, ...args };
  const { code, message, fourEyes = false } = said;
  return { kind: 'ask', tool, code, message, fourEyes, by, ...args };
}
