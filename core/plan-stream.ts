/** Plans being streamed: subtasks that are already complete, and which of them the final plan contains. Pure. */
import { digestOf } from './ids.ts';

/** The complete elements of the list `list` in the beginning `json` of a JSON object; none if it is not JSON. */
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

/** The position after the opening bracket of the list, which must be a field of the outermost object. */
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

/** Yields brackets and quotes outside of strings; `depth` is the nesting after the character, counted from `from`. */
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

/** A subtask without its id: equal values are the same work. */
export interface PlannedWork {
  id: string;
  description: string;
  dependencies: readonly string[];
  required_capabilities?: readonly string[] | undefined;
  /** The agent; if a final plan names none, the one that has begun stays. */
  agent?: string | undefined;
}

/**
 * Finds subtasks of a final plan that were already begun: same work, same inputs, and the agent that the plan names, if any.
 * Returns the begun id by the plan's id. `known`: finished subtasks that both may depend on. Each of `begun` is used once.
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
  // In dependency order: whatever depends on repeated work is repeated, too.
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

/** A digest of each subtask's work and inputs, by id; none for subtasks with missing dependencies. */
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
