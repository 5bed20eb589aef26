import { z } from 'zod';
import { badRequest, DroverError } from '../../core/errors.ts';
import { shortPath } from '../../modules/problem-of.ts';
import { nearestField } from './nearest-field.ts';
import type { ApiContext } from './state.ts';

/** An id in a path; upper case becomes lower case, as ids are stored. */
export const idParam = z.uuid().toLowerCase();

/** RFC 3339; `t` and `z` may be lower case (section 5.6). */
export const momentParam = z
  .string()
  .toUpperCase()
  .check(z.iso.datetime({ offset: true }));

/** A time in any zone, in the years 1 to 9999: Postgres and answers cannot express others. */
export const timeParam = momentParam
  .transform((text) => new Date(text))
  .refine((at) => /^\d/.test(at.toISOString()) && at.getUTCFullYear() > 0, {
    message: 'must be in a year from 1 to 9999 (UTC)',
  });

/** The same as text in UTC: Postgres rejects zones more than 16 hours from it. */
export const timeTextParam = timeParam.transform((at) => at.toISOString());

const MAX_ERRORS = 50;

/** Parses path parameters. Throws 404, with the expected form: malformed ones name nothing that exists. */
export function checkParams(schema: z.ZodType | undefined, ctx: ApiContext): unknown {
  if (!schema) return undefined;
  const parsed = schema.safeParse({ ...ctx.params });
  if (parsed.success) return parsed.data;
  const route = ctx.state.route?.replaceAll(/:(\w+)/g, '{$1}') ?? '';
  const faults = parsed.error.issues.map((issue) => `{${dotted(issue.path)}} ${wording(issue)}`);
  throw new DroverError('not-found', 404, `There is no ${shortPath(ctx.path)}: of ${route} ${faults.join(', ')}.`);
}

/** Parses a part of the request. Throws 400 with all faults, by paths such as `body.config.max_turns`. */
export function checkPart<T extends z.ZodType>(
  schema: T,
  value: unknown,
  where: 'query' | 'body' | 'body.payload',
): z.output<T> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.flatMap((issue) => faultsOf(issue, [where])).slice(0, MAX_ERRORS);
  const errors = faults.map((fault) => ({ path: dotted(fault.path), message: messageOf(fault, schema) }));
  const [first] = errors;
  throw badRequest(first ? `${first.path} ${first.message}` : `The ${where} is not valid.`, errors);
}

type Issue = z.core.$ZodIssue;

interface Fault {
  path: readonly PropertyKey[];
  message: string;
}

const UNKNOWN = 'is not a known field';

function messageOf({ path, message }: Fault, schema: z.ZodType): string {
  const meant = message === UNKNOWN ? nearestField(schema, path.slice(1)) : undefined;
  return meant === undefined ? message : `${message}; did you mean ${meant}?`;
}

function faultsOf(issue: Issue, prefix: readonly PropertyKey[]): Fault[] {
  const path = [...prefix, ...issue.path];
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.slice(0, MAX_ERRORS).map((key) => ({ path: [...path, key], message: UNKNOWN }));
  }
  if (issue.code === 'invalid_union' && issue.errors.some((branch) => branch.some(isMissing))) {
    return [{ path, message: 'is required' }];
  }
  // A union with words of its own says what all its alternatives are.
  const hasOwnWords = issue.message !== 'Invalid input';
  const branch = issue.code === 'invalid_union' && !hasOwnWords ? closestBranch(issue.errors) : undefined;
  if (branch) return branch.flatMap((inner) => faultsOf(inner, path));
  return [{ path, message: wording(issue) }];
}

/** The alternative of a union that was meant: the only one that matches the value's kind. */
function closestBranch(branches: readonly Issue[][]): Issue[] | undefined {
  const possible = branches.filter(
    (issues) => !issues.some(({ path, code }) => path.length === 0 && code === 'invalid_type'),
  );
  return possible.length === 1 ? possible[0] : undefined;
}

function isMissing({ path, code, message }: Issue): boolean {
  return path.length === 0 && code === 'invalid_type' && message.endsWith('received undefined');
}

function wording(issue: Issue): string {
  const { message } = issue;
  if (issue.code === 'invalid_type' && message.endsWith('received undefined')) return 'is required';
  if (issue.code === 'invalid_format' && issue.format === 'uuid') return 'must be a UUID';
  const kinds = issue.code === 'invalid_union' ? kindsOf(issue.errors) : '';
  if (message === 'Invalid input' && kinds !== '') return `expected ${kinds}`;
  return message === 'Invalid input' ? 'is not of a known form' : lowerFirst(message.replace(/^Invalid input: /, ''));
}

/** The kinds of value that a union takes, if the given value has none of them. */
function kindsOf(branches: readonly Issue[][]): string {
  const kinds = branches.map((issues) =>
    issues.flatMap((issue) => (issue.path.length === 0 && issue.code === 'invalid_type' ? [issue.expected] : [])).at(0),
  );
  return kinds.includes(undefined) ? '' : [...new Set(kinds)].join(' or ');
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

function dotted(path: readonly PropertyKey[]): string {
  return path.map(String).join('.');
}
