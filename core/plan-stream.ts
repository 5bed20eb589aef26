/** Plans that are still being written: the subtasks that are whole already, and which of them a whole plan has, too. Pure. */
import { digestOf } from './ids.ts';

/**
 * The elements of the list `list` of a JSON object of which `json` is the beginning, as far as they are whole. Nothing of
 * what is not JSON.
 */
export function wholeElements(json: string, list: string): unknown[] {
  const start = startOfList(json, list);
  if (start === undefined) return [];
  const found: unknown[] = [];
  let from: number | undefined;
  for (const { at, char, depth } of structure(json, start)) {
    if (char === ']' && depth === 0) break;
    if (char === '{' && depth === 1) from = at;
    if (char !== '}' || depth !== 0 || from === undefined) continue;
    const element = parsed(json.slice(from, at + 1));
    if (element === undefined) break;
    found.push(element);
    from = undefined;
  }
  return found;
}

/** Just after the bracket that opens the list, among the fields of the outermost object. */
function startOfList(json: string, list: string): number | undefined {
  let key = '';
  let keyFrom: number | undefined;
  for (const { at, char, depth } of structure(json, 0)) {
    if (char === '"' && depth === 1) {
      if (keyFrom === undefined) keyFrom = at;
      else {
        key = json.slice(keyFrom + 1, at);
        keyFrom = undefined;
      }
    }
    if (char === '[' && depth === 2 && key === list && /:\s*$/.test(json.slice(0, at))) return at + 1;
  }
  return undefined;
}

/** The marks outside of strings and the quotes around these; `depth` is that after the mark, counted from `from`. */
function* structure(json: string, from: number): Generator<{ at: number; char: string; depth: number }> {
  let depth = 0;
  let isText = false;
  for (let at = from; at < json.length; at++) {
    const char = json[at] ?? '';
    if (isText && char === '\\') at++;
    else if (char === '"') {
      isText = !isText;
      yield { at, char, depth };
    } else if (!isText && (char === '{' || char === '[')) yield { at, char, depth: ++depth };
    else if (!isText && (char === '}' || char === ']')) yield { at, char, depth: (depth = Math.max(0, depth - 1)) };
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** What a subtask is about: what makes it the same work under another id. */
export interface PlannedWork {
  id: string;
  description: string;
  dependencies: readonly string[];
  required_capabilities?: readonly string[] | undefined;
  /** Who does it; a plan that does not say leaves it to whoever has begun it. */
  agent?: string | undefined;
}

/**
 * Of a whole plan, the subtasks that were begun before it was whole, by their ids in it: each is the same work on the same
 * inputs, by the agent that the plan names. `known` are finished subtasks, which both may depend on. None of `begun` is taken
 * twice.
 */
export function sameWork(
  plan: readonly PlannedWork[],
  begun: readonly PlannedWork[],
  known: readonly string[],
): Map<string, string> {
  const byWork = new Map<string, string[]>();
  const works = worksOf(begun, known);
  for (const { id } of begun) {
    const work = works.get(id);
    if (work !== undefined) byWork.set(work, [...(byWork.get(work) ?? []), id]);
  }
  const planned = new Map(plan.map((subtask) => [subtask.id, subtask]));
  const agents = new Map(begun.map(({ id, agent }) => [id, agent]));
  const same = new Map<string, string>();
  // In the order of their dependencies: what needs something that is done anew is done anew, too.
  for (const [id, work] of worksOf(plan, known)) {
    const { agent, dependencies = [] } = planned.get(id) ?? {};
    if (!dependencies.every((dependency) => same.has(dependency) || known.includes(dependency))) continue;
    const candidates = byWork.get(work) ?? [];
    const fitting = candidates.filter((each) => agent === undefined || agents.get(each) === agent);
    const taken = fitting.includes(id) ? id : fitting[0];
    if (taken === undefined) continue;
    same.set(id, taken);
    byWork.set(
      work,
      candidates.filter((candidate) => candidate !== taken),
    );
  }
  return same;
}

/** By id what a subtask is about, its inputs included; one that depends on what is not there is about nothing. */
function worksOf(subtasks: readonly PlannedWork[], known: readonly string[]): Map<string, string> {
  const works = new Map<string, string>();
  const named = new Map(known.map((name) => [name, `known ${name}`]));
  let left = [...subtasks];
  for (let before = -1; before !== left.length;) {
    before = left.length;
    left = left.filter(({ id, description, dependencies, required_capabilities: skills = [] }) => {
      const inputs = dependencies.flatMap((dependency) => works.get(dependency) ?? named.get(dependency) ?? []);
      if (inputs.length < dependencies.length) return true;
      works.set(id, digestOf([description, [...skills].toSorted(), [...new Set(inputs)].toSorted()]));
      return false;
    });
  }
  return works;
}
