/** Compiles policy rules, and judges a call by all of them. */
import { celCompiler, type Condition } from '../../core/cel.ts';
import { canonicalJson } from '../../core/canonical-json.ts';
import { RISK_LEVELS } from '../../core/tool.ts';
import { mergePatch, type PolicyDefinition, type PolicyRef } from '../../core/policy.ts';

/** The variables of a rule's `when`. */
export interface RuleInput {
  tool: Record<string, unknown>;
  arguments: Record<string, unknown>;
  agent: Record<string, unknown>;
  run: Record<string, unknown>;
  tenant: Record<string, unknown>;
  /** The user of the run's session; the id is empty without a session. */
  user: { id: string };
  risk: string;
  /** Events that brought untrusted content earlier in the turn. */
  tainted_by: readonly number[];
}

const compilerFor = (mayBeOther: boolean) =>
  celCompiler({
    objects: ['tool', 'arguments', 'agent', 'run', 'tenant', 'user'],
    texts: ['risk'],
    lists: ['tainted_by'],
    bare: { tool: 'name', user: 'id' },
    scale: { paths: ['risk', 'tool.risk_level'], values: RISK_LEVELS, mayBeOther },
  });

/** Compiles a `when`, or says what is wrong with it. */
export const compileWhen = compilerFor(false);

/** The same for what is stored: a text that is no risk level, which earlier builds accepted, equals none. */
const compileStored = compilerFor(true);

export interface Rule extends PolicyRef {
  definition: PolicyDefinition;
  condition: Condition;
}

/** Compiles rules, in order of evaluation: by priority, then name. */
export function compileRules(rows: readonly { id: string; version: number; definition: PolicyDefinition }[]): Rule[] {
  const rules = rows.map(({ id, version, definition }) => {
    return { id, version, name: definition.name, definition, condition: compiledLater(definition.when) };
  });
  return rules.toSorted((a, b) => a.definition.priority - b.definition.priority || (a.name < b.name ? -1 : 1));
}

/** Compiles on first use: most drives have no call to gate. */
function compiledLater(when: string): Condition {
  let condition: Condition | undefined;
  const compile = (): Condition => {
    const compiled = compileStored(when);
    // A rule that an earlier build accepted but this one does not is an error at every call, so that it fails closed.
    return compiled.ok ? compiled.value : { test: () => compiled };
  };
  return { test: (input) => (condition ??= compile()).test(input) };
}

interface Matched {
  rule: Rule;
  /** Why the rule could not be evaluated; it then counts as matching, to fail closed. */
  error?: string;
}

/** The matching rules. One that cannot be evaluated matches, too, unless it would allow: an error never permits a call. */
export function matchRules(rules: readonly Rule[], input: RuleInput): Matched[] {
  return rules.flatMap((rule): Matched[] => {
    const tested = rule.condition.test({ ...input });
    if (tested.ok) return tested.value ? [{ rule }] : [];
    return rule.definition.decision === 'allow' ? [] : [{ rule, error: tested.error }];
  });
}

type RuleVerdict =
  | { kind: 'allow' | 'block' | 'ask'; rule: Rule; message: string }
  | { kind: 'rewrite'; rule: Rule; message: string; arguments: Record<string, unknown> };

/**
 * The matching rules' verdict: any `block` wins, else the first. `rewritten`: a rule has rewritten the arguments, and
 * no second one may; a rewrite that changes nothing is skipped.
 */
export function judgeByRules(
  matched: readonly Matched[],
  args: Record<string, unknown>,
  rewritten: boolean,
): RuleVerdict | undefined {
  const blocking = matched.find(({ rule, error }) => blocks(rule, error));
  if (blocking) return { kind: 'block', rule: blocking.rule, message: messageOf(blocking) };
  for (const match of matched) {
    const { rule } = match;
    const { decision, rewrite } = rule.definition;
    if (decision === 'require_approval') return { kind: 'ask', rule, message: messageOf(match) };
    if (decision === 'allow') return { kind: 'allow', rule, message: messageOf(match) };
    const changed = mergePatch(args, rewrite?.arguments ?? {}) as Record<string, unknown>;
    if (canonicalJson(changed) === canonicalJson(args)) continue;
    if (!rewritten) return { kind: 'rewrite', rule, message: messageOf(match), arguments: changed };
    return { kind: 'block', rule, message: `The policy "${rule.name}" would rewrite arguments that were rewritten.` };
  }
  return undefined;
}

function blocks(rule: Rule, error: string | undefined): boolean {
  const { decision } = rule.definition;
  return decision === 'block' || (decision === 'rewrite' && error !== undefined);
}

function messageOf({ rule, error }: Matched): string {
  if (error === undefined) return rule.definition.reason;
  return `${rule.definition.reason} (The policy "${rule.name}" could not be evaluated: ${error}.)`;
}
