/** Regular expressions of foreign schemas, matched in time linear in the text. */
import { RE2JS } from 're2js';

interface Pattern {
  test(text: string): boolean;
  /** The source: Ajv treats patterns with equal strings as the same. */
  toString(): string;
}

/** JavaScript's `\s` inside a class; RE2's is ASCII only. */
const SPACES = String.raw`\t\n\v\f\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`;
/** JavaScript's dot. */
const DOT = String.raw`[^\n\r\x{2028}\x{2029}]`;

/**
 * Compiles a pattern with JavaScript's meaning (flag `u`). Look-around, back-references and the like need JavaScript's
 * own engine, which backtracks: matching needs a time limit. Throws a SyntaxError if it is no pattern.
 */
export function compilePattern(source: string): Pattern {
  const native = new RegExp(source, 'u');
  const translated = translate(source);
  if (translated === undefined) return native;
  try {
    const linear = RE2JS.compile(translated);
    return { test: (text) => linear.matcher(text).find(), toString: () => native.toString() };
  } catch {
    return native;
  }
}

/** Translates a pattern to RE2's syntax; undefined if it has no equivalent. */
function translate(source: string): string | undefined {
  let result = '';
  let inClass = false;
  for (let at = 0; at < source.length; at += 1) {
    const char = source.charAt(at);
    if (char === '\\') {
      const escape = translateEscape(source.slice(at), inClass);
      if (escape === undefined) return undefined;
      result += escape.text;
      at += escape.length - 1;
    } else if (char === '.' && !inClass) {
      result += DOT;
    } else {
      if (char === '[' && !inClass) inClass = true;
      else if (char === '[') result += '\\';
      else if (char === ']') inClass = false;
      result += char;
    }
  }
  return result;
}

function translateEscape(rest: string, inClass: boolean): { text: string; length: number } | undefined {
  const [unicode, brace, four] = /^\\u(?:\{([0-9a-fA-F]+)\}|([0-9a-fA-F]{4}))/.exec(rest) ?? [];
  if (unicode !== undefined) {
    const code = Number.parseInt(brace ?? four ?? '', 16);
    // Half of a surrogate pair: its other half follows, or RE2 does not know it.
    if (code >= 0xd800 && code <= 0xdfff) return undefined;
    return { text: `\\x{${code.toString(16)}}`, length: unicode.length };
  }
  const next = rest.charAt(1);
  if (next === 's') return { text: inClass ? SPACES : `[${SPACES}]`, length: 2 };
  // \S, \cX, \0, back-references and boundaries within classes are left to JavaScript; properties have different names.
  if (/[dDwW]/.test(next) || /[tnvfr]/.test(next) || /[\^$\\.*+?()[\]{}|/-]/.test(next))
    return { text: `\\${next}`, length: 2 };
  if ((next === 'b' || next === 'B') && !inClass) return { text: `\\${next}`, length: 2 };
  const [hex] = /^\\x[0-9a-fA-F]{2}/.exec(rest) ?? [];
  return hex === undefined ? undefined : { text: hex, length: 4 };
}
