/** Reads a tool's arguments from a message, by types and names in the tool's JSON Schema. */

type Schema = Record<string, unknown>;

interface FilledArguments {
  input: Record<string, unknown>;
  /** Required properties that the message has no value for. */
  missing: string[];
}

/**
 * Fills the properties that a JSON object in the message names, the other required ones, and optional ones whose enum
 * value or URL the message names.
 */
export function fillArguments(schema: Schema, message: string): FilledArguments {
  const properties = asSchema(schema['properties']);
  const { json, rest } = splitJson(message);
  const given = json && Object.keys(json).some((name) => Object.hasOwn(properties, name)) ? json : undefined;
  const finds = findIn(rest);
  const required = new Set(asStrings(schema['required']));
  const texts = [...required].filter((name) => typeOf(asSchema(properties[name])) === 'string');
  const input: Record<string, unknown> = {};
  const missing: string[] = [];
  for (const [name, property] of Object.entries(properties)) {
    const own = asSchema(property);
    const found = () => (required.has(name) ? valueFor(name, own, finds) : enumValue(own, finds.message));
    const value = given && Object.hasOwn(given, name) ? given[name] : found();
    const mayBeAll = given === undefined && texts.length === 1 && texts[0] === name && isPlainText(own);
    if (value !== undefined) input[name] = value;
    else if (required.has(name) && mayBeAll) input[name] = message.trim();
    else if (required.has(name)) missing.push(name);
  }
  return { input, missing };
}

/** The JSON object in a message, from its first brace to its last, and the words around it. */
function splitJson(message: string): { json?: Schema; rest: string } {
  const [from, to] = [message.indexOf('{'), message.lastIndexOf('}') + 1];
  if (from < 0 || to <= from) return { rest: message };
  try {
    const json = JSON.parse(message.slice(from, to)) as Schema;
    return { json, rest: `${message.slice(0, from)} ${message.slice(to)}` };
  } catch {
    return { rest: message };
  }
}

/** Turns strings that look like numbers or booleans into those where the schema asks for them. */
export function coerceToSchema(value: unknown, schema: Schema): unknown {
  if (Array.isArray(value)) return value.map((item) => coerceToSchema(item, asSchema(schema['items'])));
  if (typeof value === 'object' && value !== null) {
    const properties = asSchema(schema['properties']);
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, coerceToSchema(item, asSchema(properties[key]))]),
    );
  }
  if (typeof value !== 'string') return value;
  const type = typeOf(schema);
  if ((type === 'number' || type === 'integer') && /^[-+]?\d+(\.\d+)?$/.test(value.trim())) return Number(value);
  if (type === 'boolean' && /^(true|false)$/i.test(value.trim())) return value.trim().toLowerCase() === 'true';
  return value;
}

/** The longest arithmetic expression, with words as signs; undefined if there is none. */
export function expressionIn(message: string): string | undefined {
  const signs = message
    .slice(0, READ_CHARACTERS)
    .replace(URL_PATTERN, ' ')
    .replace(DATE_PATTERN, ' ')
    .replace(/\b(?:times|multiplied by)\b|×/gi, '*')
    .replace(/\bdivided by\b|÷/gi, '/')
    .replace(/\bplus\b/gi, '+')
    .replace(/\bminus\b/gi, '-');
  const found = signs.match(
    /(?:(?:sqrt|abs|round|log|sin|cos|tan|exp|min|max)\s*\(|[-+\d.(])[\d\s.,()+\-*/^%a-z]*[\d)]/gi,
  );
  const usable = (found ?? [])
    .map(trimWords)
    .filter((text) => /\d\s*\)*\s*[-+*/^%]\s*\(*\s*[-+]?[\d(a-z]|[a-z]\(/i.test(text));
  return usable.toSorted((a, b) => b.length - a.length)[0];
}

/** Only the beginning of a message is read: the patterns below take quadratic time at worst. */
const READ_CHARACTERS = 4000;

const URL_PATTERN = /\bhttps?:\/\/[^\s<>"')]+/gi;
const DATE_PATTERN = /\b\d{4}-\d{2}-\d{2}(?:T[\d:.]+(?:Z|[-+]\d{2}:?\d{2})?)?\b/g;

/** Values found in a message; each list is consumed from its front. */
interface Finds {
  message: string;
  urls: string[];
  dates: string[];
  quoted: string[];
  numbers: number[];
  emails: string[];
  zones: string[];
}

function findIn(whole: string): Finds {
  const message = whole.slice(0, READ_CHARACTERS);
  const bare = message.replace(URL_PATTERN, ' ').replace(DATE_PATTERN, ' ');
  return {
    message,
    urls: (message.match(URL_PATTERN) ?? []).map((url) => url.replace(/[.,;:!?]+$/, '')),
    dates: message.match(DATE_PATTERN) ?? [],
    quoted: [...message.matchAll(/"([^"]+)"|“([^”]+)”|`([^`]+)`|(?<!\w)'([^']+)'(?!\w)/g)].map(
      (match) => match[1] ?? match[2] ?? match[3] ?? match[4] ?? '',
    ),
    numbers: (bare.match(/(?<![\w.])[-+]?\d+(?:\.\d+)?(?![\w]|\.\d)/g) ?? []).map(Number),
    emails: message.match(/[\w.+-]+@[\w-]+\.[\w.-]*\w/g) ?? [],
    zones: message.match(/\b[A-Z][A-Za-z]+\/[A-Z][A-Za-z_]+\b/g) ?? [],
  };
}

function valueFor(name: string, schema: Schema, finds: Finds): unknown {
  if ('const' in schema) return schema['const'];
  if (Array.isArray(schema['enum'])) return enumValue(schema, finds.message) ?? schema['default'];
  return byType(name, schema, finds) ?? schema['default'];
}

function byType(name: string, schema: Schema, finds: Finds): unknown {
  switch (typeOf(schema)) {
    case 'integer':
      return takeWhere(finds.numbers, Number.isInteger);
    case 'number':
      return finds.numbers.shift();
    case 'boolean':
      return !/\b(?:false|no|not|without)\b/i.test(finds.message);
    case 'string':
      return stringFor(name, schema, finds);
    case 'array':
      return arrayFor(asSchema(schema['items']), finds);
    case 'object':
      return objectFor(schema, finds);
    default:
      return undefined;
  }
}

function stringFor(name: string, schema: Schema, finds: Finds): string | undefined {
  const format = typeof schema['format'] === 'string' ? schema['format'] : '';
  const says = (pattern: RegExp) => pattern.test(format) || pattern.test(name);
  if (says(/ur[il]|link|href|endpoint/i)) return finds.urls.shift();
  if (says(/date|\bday\b|since|until/i)) return finds.dates.shift();
  if (says(/e?mail/i)) return finds.emails.shift();
  if (says(/time_?zone|^tz$/i)) return finds.zones.shift();
  if (says(/expression|formula/i)) return finds.quoted.shift() ?? expressionIn(finds.message);
  return takeWhere(finds.quoted, (text) => text !== name);
}

function arrayFor(items: Schema, finds: Finds): unknown[] | undefined {
  const type = typeOf(items);
  const values = type === 'number' || type === 'integer' ? finds.numbers.splice(0) : finds.quoted.splice(0);
  return values.length > 0 ? values : undefined;
}

function objectFor(schema: Schema, finds: Finds): Record<string, unknown> | undefined {
  const { input, missing } = fillArguments(schema, finds.message);
  return missing.length === 0 ? input : undefined;
}

/** The longest enum value that the message contains as words. */
function enumValue(schema: Schema, message: string): unknown {
  const values = Array.isArray(schema['enum']) ? (schema['enum'] as unknown[]) : [];
  const said = ` ${message.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, ' ')} `;
  return values
    .filter((value) => {
      const word = String(value)
        .toLowerCase()
        .replace(/[^\p{L}\p{N}]+/gu, ' ')
        .trim();
      return word !== '' && said.includes(` ${word} `);
    })
    .toSorted((a, b) => String(b).length - String(a).length)[0];
}

/** Whether the whole message may be the value: a string without format or enum. */
function isPlainText(schema: Schema): boolean {
  return typeOf(schema) === 'string' && schema['format'] === undefined && schema['enum'] === undefined;
}

function typeOf(schema: Schema): string | undefined {
  const type = schema['type'];
  if (typeof type === 'string') return type;
  if (Array.isArray(type)) return (type as unknown[]).map(String).find((item) => item !== 'null');
  return schema['properties'] === undefined ? undefined : 'object';
}

function takeWhere<T>(values: T[], fits: (value: T) => boolean): T | undefined {
  const at = values.findIndex(fits);
  return at < 0 ? undefined : values.splice(at, 1)[0];
}

/** Cuts words off either end of an expression, as in `2 + 2 and 3`. */
function trimWords(text: string): string {
  return (text.split(/\s+(?!(?:sqrt|abs|round|log|sin|cos|tan|exp|min|max)\b)[a-z]+\b/i)[0] ?? '')
    .replace(/[\s,.]+$/, '')
    .trim();
}

function asSchema(value: unknown): Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Schema) : {};
}

function asStrings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item): item is string => typeof item === 'string') : [];
}
