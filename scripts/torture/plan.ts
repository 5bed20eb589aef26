/** The work of a torture, all from the seed: what each run's model requests, and how tools behave. */
import { createRandom, type Random } from './random.ts';

/** `calculator` is built in and pure; the others are the torture's HTTP tools, `…_inline` called by the driver itself. */
export const HTTP_TOOLS = ['lookup', 'record', 'charge', 'record_inline', 'charge_inline'] as const;
/** A tool whose calls a person must allow. */
export const GATED_TOOL = 'wire';
export type HttpTool = (typeof HTTP_TOOLS)[number] | typeof GATED_TOOL;
type ToolName = HttpTool | 'calculator' | 'ask_user';

/**
 * A tool's fault at the first delivery: `break` has its effect, then drops the connection; `refuse` answers 503 with
 * Retry-After, without effect.
 */
type Misbehaviour = 'none' | 'break' | 'refuse';

/** Arguments of an HTTP tool. An intent is one call that the model requests once, whatever happens to it. */
export interface ToolInput {
  intent: string;
  ms: number;
  fault: Misbehaviour;
  /** Extra bytes in its answer. */
  bytes?: number;
}

export interface PlannedCall {
  tool: ToolName;
  input: ToolInput | { expression: string } | { question: string };
}

export interface PlannedStep {
  calls: PlannedCall[];
  /** Time until the model begins its answer. */
  thinkMs: number;
  /** Whether the first answer breaks off in the middle. */
  breaks: boolean;
}

/** The JSON content of a run's message, which the stand-in model parses. */
export interface Script {
  label: string;
  steps: PlannedStep[];
}

export interface PlannedRun extends Script {
  startAtMs: number;
  /** Whether its request has an Idempotency-Key. */
  keyed: boolean;
  /** Label of the run whose thread it continues, once that run has ended. */
  follows?: string;
}

const MEBIBYTE = 1024 * 1024;
const HUGE_SHARE = 0.06;

/** Of this many runs in a row, the last two continue the thread of the one before. */
const THREAD_EVERY = 5;

interface PlannedWork {
  runs: number;
  withinMs: number;
  leaseMs: number;
  /** Whether some runs continue another's thread. */
  threads: boolean;
  /** Whether some tools answer with megabytes. */
  hugeOutputs: boolean;
}

/** Plans `runs` runs that start within `withinMs`. Some tools take longer than a lease. */
export function planRuns(seed: number, work: PlannedWork): PlannedRun[] {
  const random = createRandom(seed, 'runs');
  const sizes = createRandom(seed, 'huge outputs');
  return Array.from({ length: work.runs }, (_, index) => {
    const label = `run-${index + 1}`;
    const steps = Array.from({ length: random.whole(2, 5) }, (_step, step) =>
      planStep(random, `${label}-${step + 1}`, work.leaseMs),
    ).map((step) => (work.hugeOutputs ? enlarged(sizes, step) : step));
    const startAtMs = Math.floor((index * work.withinMs) / work.runs);
    const follows = work.threads && index % THREAD_EVERY >= THREAD_EVERY - 2;
    // A repeated request without a key would find the unfinished run of the first one.
    if (follows) return { label, startAtMs, steps, keyed: true, follows: `run-${index}` };
    return { label, startAtMs, steps, keyed: index % 2 === 0 };
  });
}

/** The same work under another label, so that none of it counts as repeated. */
export function renamed(plan: PlannedRun, label: string): PlannedRun {
  const rename = ({ tool, input }: PlannedCall): PlannedCall =>
    'intent' in input
      ? { tool, input: { ...input, intent: `${label}${input.intent.slice(plan.label.length)}` } }
      : { tool, input };
  return { ...plan, label, steps: plan.steps.map((step) => ({ ...step, calls: step.calls.map(rename) })) };
}

/** The run's expected last answer; `before`: labels of earlier runs on its thread. */
export function answerOf(label: string, before: readonly string[]): string {
  return before.length === 0 ? `done: ${label}` : `done: ${label} after ${before.join(', ')}`;
}

function planStep(random: Random, name: string, leaseMs: number): PlannedStep {
  const calls = Array.from({ length: random.whole(1, 3) }, (_, place): PlannedCall => {
    const tool = random.pick<ToolName>(['calculator', ...HTTP_TOOLS, 'charge']);
    if (tool === 'calculator')
      return { tool, input: { expression: `${random.whole(1, 99)} + ${random.whole(1, 99)}` } };
    return {
      tool,
      input: { intent: `${name}-${place + 1}`, ms: toolMs(random, leaseMs), fault: misbehaviour(random) },
    };
  });
  return { calls, thinkMs: random.whole(0, 150), breaks: random.chance(0.03) };
}

/** Makes the first call of about one step in sixteen answer with more than a model is shown. */
function enlarged(random: Random, step: PlannedStep): PlannedStep {
  const bytes = random.whole(1, 4) * MEBIBYTE;
  const [first, ...others] = step.calls;
  if (!random.chance(HUGE_SHARE) || !first || !('intent' in first.input)) return step;
  return { ...step, calls: [{ ...first, input: { ...first.input, bytes } }, ...others] };
}

function toolMs(random: Random, leaseMs: number): number {
  const kind = random.next();
  if (kind < 0.7) return random.whole(2, 60);
  if (kind < 0.9) return random.whole(100, 800);
  return random.whole(Math.floor(leaseMs * 1.1), Math.floor(leaseMs * 1.6));
}

function misbehaviour(random: Random): Misbehaviour {
  const kind = random.next();
  if (kind < 0.1) return 'break';
  return kind < 0.2 ? 'refuse' : 'none';
}
