/**
 * Texts that are values of an ordered scale, in CEL expressions: compared with a literal they go by their place on the scale, in
 * any case. CEL itself would compare them by the alphabet.
 */
import { type ASTNode, parse } from '@marcbachmann/cel-js';

export interface Scale {
  /** Where its values are read: `risk`, or a field, `tool.risk_level`. */
  paths: readonly string[];
  /** From the least to the most, in capitals. */
  values: readonly string[];
  /** Leaves comparisons with texts that are no value of the scale as CEL has them, instead of refusing them. */
  mayBeOther: boolean;
}

const COMPARISONS: ReadonlySet<string> = new Set(['==', '!=', '<', '<=', '>', '>=']);

/** The variable that holds the place of what is read at a path. */
export const placeName = (path: string) => `place_of_${path.replaceAll('.', '_')}`;

/** The places of what is read, by their variables. */
export function placesIn({ paths, values }: Scale, input: Record<string, unknown>): Record<string, bigint> {
  return Object.fromEntries(paths.map((path) => [placeName(path), placeOf(values, valueAt(input, path))]));
}

function valueAt(input: Record<string, unknown>, path: string): unknown {
  const [name = '', field] = path.split('.');
  const value = input[name];
  return field === undefined ? value : (value as Record<string, unknown> | undefined)?.[field];
}

const placeOf = (values: readonly string[], value: unknown) => BigInt(values.indexOf(String(value).toUpperCase()));

/** Makes a comparison one of places. Throws if its literal is no value of the scale, or if it needs an order and has no literal. */
export function compareByPlace(node: ASTNode, scale: Scale): void {
  if (node.op === 'in') return capitalize(node.args, scale);
  if (!COMPARISONS.has(node.op)) return;
  const sides = node.args as [ASTNode, ASTNode];
  const paths = sides.map((side) => pathOf(side, scale));
  if (paths.every((path) => path === undefined)) return;
  const places = sides.map((side, at) => {
    const path = paths[at];
    return path === undefined ? literalPlace(side, scale) : placeName(path);
  });
  const [left, right] = places;
  if (left !== undefined && right !== undefined) {
    sides[0] = parse(left).ast;
    sides[1] = parse(right).ast;
  } else if (node.op !== '==' && node.op !== '!=' && !scale.mayBeOther) {
    throw new Error(
      `${paths.find((path) => path !== undefined)} is ordered against one of ${scale.values.join(', ')} only`,
    );
  }
}

/** The source of a literal's place; undefined for what is none. */
function literalPlace(node: ASTNode, { values, mayBeOther }: Scale): string | undefined {
  if (node.op !== 'value' || typeof node.args !== 'string') return undefined;
  const place = placeOf(values, node.args);
  if (place >= 0) return String(place);
  if (mayBeOther) return undefined;
  throw new Error(`"${node.args}" is none of ${values.join(', ')}`);
}

/** `risk in ["write_low_risk"]`. */
function capitalize([value, list]: readonly [ASTNode, ASTNode], scale: Scale): void {
  if (pathOf(value, scale) === undefined || list.op !== 'list') return;
  for (const item of list.args) {
    const place = literalPlace(item, scale);
    if (place !== undefined) (item as { args: unknown }).args = scale.values[Number(place)];
  }
}

function pathOf(node: ASTNode, { paths }: Scale): string | undefined {
  const path = read(node);
  return path !== undefined && paths.includes(path) ? path : undefined;
}

function read(node: ASTNode): string | undefined {
  if (node.op === 'id') return node.args;
  if (node.op !== '.' && node.op !== '[]') return undefined;
  const [object, field] = node.args;
  if (object.op !== 'id') return undefined;
  if (typeof field === 'string') return `${object.args}.${field}`;
  return field.op === 'value' && typeof field.args === 'string' ? `${object.args}.${field.args}` : undefined;
}
