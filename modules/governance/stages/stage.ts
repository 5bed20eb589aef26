/** A stage of the gate: its input and its verdicts. */
import type { BudgetStanding } from '../../../core/budget.ts';
import type { AgentDefinition } from '../../../core/definition.ts';
import type { OfferedTools } from '../../../core/intents.ts';
import type { PolicyRef } from '../../../core/policy.ts';
import type { ToolDefinition } from '../../../core/tool.ts';
import type { Governance } from '../governance.ts';
import type { RuleInput } from '../rules.ts';

export interface GateInput extends OfferedTools {
  /** The current governance, whatever the run has pinned. */
  governance: Governance;
  /** The agent's definition as pinned by the run, and the run's autonomy level. */
  definition: AgentDefinition;
  autonomyLevel: number;
  /** The user of the session that the run belongs to or works for; empty without a session. */
  userId: string;
  /** Variables of a rule's `when`. */
  agent: RuleInput['agent'];
  run: RuleInput['run'];
  name: string;
  arguments: Record<string, unknown>;
  /** Calls made earlier in this turn. */
  callsInTurn: number;
  /** The call is in the ledger: that its turn may make it was checked on request. */
  isRequested?: boolean | undefined;
  /** Whether the agent has reached its binding's calls per minute of the tool. */
  isOverRate?: boolean | undefined;
  /** Events that brought untrusted content earlier in the turn, before the call was requested. */
  taintedBy?: readonly number[] | undefined;
  /** A budget that is used up. */
  usedUp: BudgetStanding | undefined;
}

/** A rule's change of a call's arguments. */
export interface Rewrite {
  policy: PolicyRef;
  message: string;
}

/** A call in the gate, with a known tool and valid arguments. */
export interface GatedCall extends GateInput {
  tool: ToolDefinition;
  rewritten: Rewrite | undefined;
}

/** A stage's verdict; undefined passes the call on to the next stage. */
export type StageVerdict =
  | { kind: 'deny'; code: string; message: string; policy?: PolicyRef }
  | { kind: 'ask'; code: string; message: string; policy?: PolicyRef; fourEyes?: boolean }
  /** Only from a rule: the call skips the autonomy matrix. */
  | { kind: 'allow'; message: string; policy: PolicyRef }
  | { kind: 'rewrite'; message: string; policy: PolicyRef; arguments: Record<string, unknown> };

export interface Stage {
  name: string;
  judge: (call: GatedCall) => StageVerdict | undefined;
}
