/** What a stage of the gate is given, and what it may say. */
import type { BudgetStanding } from '../../../core/budget.ts';
import type { AgentDefinition } from '../../../core/definition.ts';
import type { OfferedTools } from '../../../core/intents.ts';
import type { PolicyRef } from '../../../core/policy.ts';
import type { ToolDefinition } from '../../../core/tool.ts';
import type { Governance } from '../governance.ts';
import type { RuleInput } from '../rules.ts';

export interface GateInput extends OfferedTools {
  /** What is current, whatever the run has pinned. */
  governance: Governance;
  /** The agent's definition as the run pinned it, and the autonomy level of the run. */
  definition: AgentDefinition;
  autonomyLevel: number;
  /** Of the session that the run belongs to; empty where it belongs to none. */
  userId: string;
  /** What a rule's `when` sees of them. */
  agent: RuleInput['agent'];
  run: RuleInput['run'];
  name: string;
  arguments: Record<string, unknown>;
  /** Calls of this turn before this one. */
  callsInTurn: number;
  /** The agent has made all the calls of the tool that its binding permits in a minute. */
  isOverRate?: boolean | undefined;
  /** The events of the turn that brought untrusted content before the call was asked for. */
  taintedBy?: readonly number[] | undefined;
  /** A budget of which nothing is left. */
  usedUp: BudgetStanding | undefined;
}

/** What a rule made of the arguments of a call. */
export interface Rewrite {
  policy: PolicyRef;
  message: string;
}

/** A call in the gate, its tool known and its arguments valid. */
export interface GatedCall extends GateInput {
  tool: ToolDefinition;
  rewritten: Rewrite | undefined;
}

/** What a stage says; undefined lets the call go on to the next one. */
export type StageVerdict =
  | { kind: 'deny'; code: string; message: string; policy?: PolicyRef }
  | { kind: 'ask'; code: string; message: string; policy?: PolicyRef; fourEyes?: boolean }
  /** Only a rule says so: the call need not pass the autonomy matrix. */
  | { kind: 'allow'; message: string; policy: PolicyRef }
  | { kind: 'rewrite'; message: string; policy: PolicyRef; arguments: Record<string, unknown> };

export interface Stage {
  name: string;
  judge: (call: GatedCall) => StageVerdict | undefined;
}
