/**
 * Decides what the offline model does next: pure and deterministic, from the request alone. It follows worked examples
 * and tool descriptions word by word and pretends to nothing more.
 */
import { beginningOf, textOf } from '../core/content.ts';
import { isMemoryBlock } from '../core/memory/prompt.ts';
import type { Message, ToolResultBlock } from '../core/content.ts';
import type { WorkflowExample } from '../core/definition.ts';
import { ModelError } from '../core/model.ts';
import type { ModelRequest, ToolSpec } from '../core/model.ts';
import { coerceToSchema, expressionIn, fillArguments } from './fill-arguments.ts';
import { literalLength, matchPattern, overlap, wordsOf } from './match-text.ts';
import type { Captures } from './match-text.ts';
import { noImage, toolResultText } from './messages.ts';
import { asText, fillTemplate, fillText, referencedNames, UnresolvedReference } from './templates.ts';

/** The next answer: a text, and at most one call. */
interface Move {
  text: string;
  call?: { tool: string; input: Record<string, unknown> };
}

/** A call made since the question, with its result. */
interface Done {
  tool: string;
  content: string;
  isError: boolean;
}

/** Why it answers, and no other model: no provider has a key, `DROVER_MODEL` says so, or the agent or its run names it. */
export type WhyOffline = 'no_key' | 'default' | 'named';

const WAYS_OUT: Readonly<Record<WhyOffline, string>> = {
  no_key: 'set ANTHROPIC_API_KEY or OPENAI_API_KEY for a model that understands more.',
  default: '`DROVER_MODEL` is `offline`: without it a model answers that understands more.',
  named:
    'its model is `offline` (`llm_config.default_model`, or `model_override` of the run): without that name, and with ' +
    'the key of a provider, a model answers that understands more.',
};

/** Plans the next answer. Throws `ModelError` (`invalid_request`) if the forced tool is not in the request. */
export function nextMove(request: ModelRequest, why: WhyOffline): Move {
  const turn = readTurn(request.messages);
  if (typeof request.toolChoice === 'object') return forcedCall(request, request.toolChoice.tool, turn.question);
  const failed = turn.done.find((call) => call.isError);
  if (failed) return { text: `The tool \`${failed.tool}\` failed: ${shorten(failed.content)}` };
  if (request.toolChoice === 'none') return { text: summaryOf(turn.done.length > 0 ? turn.done : turn.earlier) };
  const plan = pickExample(request, turn.question);
  if (plan) return followExample(plan, turn.done, request.tools);
  return turn.done.length > 0 ? { text: resultText(turn.done) } : chooseTool(request.tools, turn.question, why);
}

interface Turn {
  question: string;
  done: Done[];
  earlier: Done[];
}

/** The last message with a user's own text is the question; calls and results after it are the steps so far. */
function readTurn(messages: readonly Message[]): Turn {
  const at = messages.findLastIndex((message) => message.role === 'user' && isQuestion(message));
  return {
    question: wordsIn(messages[at]).trim(),
    done: doneIn(messages.slice(at + 1)),
    earlier: doneIn(messages.slice(0, Math.max(0, at))),
  };
}

/** The user's own words, without memories. */
function wordsIn(message: Message | undefined): string {
  const blocks: Message['content'][number][] = message?.content ?? [];
  return textOf(blocks.filter((block) => block.type !== 'text' || !isMemoryBlock(block.text)));
}

function isQuestion(message: Message): boolean {
  return message.content.every((block) => block.type !== 'tool_result') && textOf(message.content).trim() !== '';
}

function doneIn(messages: readonly Message[]): Done[] {
  const blocks = messages.flatMap((message): Message['content'][number][] => message.content);
  const results = new Map<string, ToolResultBlock>();
  for (const block of blocks) if (block.type === 'tool_result') results.set(block.tool_use_id, block);
  return blocks.flatMap((block) => {
    const result = block.type === 'tool_use' ? results.get(block.id) : undefined;
    if (block.type !== 'tool_use' || !result) return [];
    return [{ tool: block.name, content: toolResultText(result, noImage), isError: result.is_error === true }];
  });
}

interface Plan {
  example: WorkflowExample;
  captures: Captures;
}

const OVERLAP_THRESHOLD = 0.6;

/** The example that fits best: a matching pattern with the most literal text, else the most shared words. */
function pickExample(request: ModelRequest, question: string): Plan | undefined {
  const offered = new Set(request.tools.map((tool) => tool.name));
  let best: { plan: Plan; score: number } | undefined;
  for (const example of request.examples) {
    if (!example.steps.every((step) => offered.has(step.tool))) continue;
    const captures = matchPattern(example.question, question);
    const score = captures ? 1 + literalLength(example.question) : overlap(example.question, question);
    const usable = captures !== null || (score >= OVERLAP_THRESHOLD && needsNoCaptures(example));
    if (usable && score > (best?.score ?? 0)) best = { plan: { example, captures: captures ?? {} }, score };
  }
  return best?.plan;
}

function needsNoCaptures(example: WorkflowExample): boolean {
  const asked = new Set([...example.question.matchAll(/\{(\w+)\}/g)].map((match) => match[1]));
  return ![example.steps, example.answer ?? ''].flatMap(referencedNames).some((name) => asked.has(name));
}

function followExample(plan: Plan, done: readonly Done[], tools: readonly ToolSpec[]): Move {
  const { steps, answer } = plan.example;
  const outputs = outputsOf(steps, done);
  const sources = { captures: plan.captures, outputs };
  const step = steps[outputs.length];
  try {
    if (!step) return { text: answer === undefined ? resultText(done) : fillText(answer, sources) };
    const schema = tools.find((tool) => tool.name === step.tool)?.input_schema ?? {};
    const input = coerceToSchema(fillTemplate(step.input, sources), schema) as Record<string, unknown>;
    return { text: `I need \`${step.tool}\` for that.`, call: { tool: step.tool, input } };
  } catch (error) {
    if (!(error instanceof UnresolvedReference)) throw error;
    return { text: `I cannot go on: ${error.message} in the results so far. ${resultText(done)}`.trim() };
  }
}

/** Results in the order of the steps. Skips calls of other tools, which another model may have made. */
function outputsOf(steps: WorkflowExample['steps'], done: readonly Done[]): unknown[] {
  const outputs: unknown[] = [];
  for (const call of done) if (steps[outputs.length]?.tool === call.tool) outputs.push(parsed(call.content));
  return outputs;
}

const TOOL_THRESHOLD = 2;

/** Without an example: the tool that shares most words with the question, if the question has its arguments. */
function chooseTool(tools: readonly ToolSpec[], question: string, why: WhyOffline): Move {
  const words = wordsOf(question);
  const ranked = tools
    .map((tool) => ({
      tool,
      score: scoreOf(tool, words, question),
      filled: fillArguments(tool.input_schema, question),
    }))
    .filter(({ score, filled }) => score >= TOOL_THRESHOLD && filled.missing.length === 0)
    .toSorted((a, b) => b.score - a.score);
  const best = ranked[0];
  if (best) {
    const { name } = best.tool;
    return { text: `I need \`${name}\` for that.`, call: { tool: name, input: best.filled.input } };
  }
  return {
    text:
      'The offline planner has no tool or example for this. It only follows the examples and tool descriptions of its ' +
      `agent; ${WAYS_OUT[why]}`,
  };
}

function scoreOf(tool: ToolSpec, words: Set<string>, question: string): number {
  const named = wordsOf(tool.name);
  const described = wordsOf(tool.description);
  const shared = [...words].reduce((sum, word) => sum + (named.has(word) ? 2 : described.has(word) ? 1 : 0), 0);
  const properties = Object.keys(tool.input_schema['properties'] ?? {});
  const takes = (pattern: RegExp) => properties.some((name) => pattern.test(name));
  const calculates = takes(/expression|formula/i) && expressionIn(question) !== undefined;
  const fetches = takes(/^ur[il]$/i) && /https?:\/\//i.test(question);
  return shared + (calculates ? 3 : 0) + (fetches ? 3 : 0);
}

function forcedCall(request: ModelRequest, name: string, question: string): Move {
  const tool = request.tools.find((item) => item.name === name);
  if (!tool) throw new ModelError('invalid_request', `offline: the forced tool "${name}" is not among the tools.`);
  const example = exampleOf(request.examples, name, question);
  if (example) return { text: '', call: { tool: name, input: example } };
  // Missing arguments are left out; validation reports them.
  return { text: '', call: { tool: name, input: fillArguments(tool.input_schema, question).input } };
}

/** The arguments that a worked example has for a forced tool. In Drover's own requests the question follows a heading. */
function exampleOf(
  examples: readonly WorkflowExample[],
  tool: string,
  question: string,
): Record<string, unknown> | undefined {
  const asked = /^Question:\n(.*?)(?:\n\n|$)/s.exec(question)?.[1] ?? question;
  for (const example of examples) {
    const step = example.steps.find((each) => each.tool === tool);
    const captures = step && matchPattern(example.question, asked);
    if (captures) return fillTemplate(step.input, { captures, outputs: [] }) as Record<string, unknown>;
  }
  return undefined;
}

function summaryOf(done: readonly Done[]): string {
  if (done.length === 0) return 'The offline planner has no results so far.';
  return ['Results so far:', ...done.map((call) => `- \`${call.tool}\`: ${plain(call.content)}`)].join('\n');
}

function resultText(done: readonly Done[]): string {
  const last = done.at(-1);
  return last ? `\`${last.tool}\` gives: ${plain(last.content)}` : '';
}

function plain(content: string): string {
  const value = parsed(content);
  const flat =
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.entries(value)
          .map(([key, item]) => `${key}: ${asText(item)}`)
          .join(', ')
      : asText(value);
  return shorten(flat);
}

function parsed(content: string): unknown {
  try {
    return JSON.parse(content);
  } catch {
    return content;
  }
}

function shorten(text: string): string {
  return text.length > 1000 ? `${beginningOf(text, 1000)}…` : text;
}
