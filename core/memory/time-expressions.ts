/** Resolves periods named in a question, relative to the time of asking (UTC). */

export interface TimeSpan {
  from: Date;
  /** Exclusive. */
  to: Date;
}

const DAY_MS = 86_400_000;
const MONTHS = 'january february march april may june july august september october november december'.split(' ');
const WEEKDAYS = 'sunday monday tuesday wednesday thursday friday saturday'.split(' ');
const COUNTS: Readonly<Record<string, number>> = {
  a: 1, an: 1, one: 1, two: 2, three: 3, four: 4, five: 5, six: 6, seven: 7, eight: 8, nine: 9, ten: 10, few: 3, couple: 2,
}; // prettier-ignore

/** The period that a text names; undefined if none. The first matching rule wins; the most exact come first. */
export function resolveTime(text: string, at: Date): TimeSpan | undefined {
  const lower = text.toLowerCase();
  for (const rule of RULES) {
    const match = rule.pattern.exec(lower);
    const span = match && rule.span(match, at);
    if (span && span.to > span.from) return span;
  }
  return undefined;
}

interface Rule {
  pattern: RegExp;
  span: (match: RegExpExecArray, at: Date) => TimeSpan | undefined;
}

const MONTH = `(${MONTHS.map((name) => `${name}|${name.slice(0, 3)}`).join('|')})`;
const COUNT = `(\\d{1,3}|${Object.keys(COUNTS).join('|')})`;

const RULES: readonly Rule[] = [
  {
    pattern: /\b(\d{4})-(\d{2})-(\d{2})\b/,
    span: ([, year, month, day]) => days(utc(Number(year), Number(month) - 1, Number(day)), 1),
  },
  {
    pattern: new RegExp(`\\b${MONTH}\\.? (\\d{1,2})(?:st|nd|rd|th)?\\b(?:,? (\\d{4}))?`),
    span: ([, month, day, year], at) => dayOf(at, { month, day, year }),
  },
  {
    pattern: new RegExp(`\\b(\\d{1,2})(?:st|nd|rd|th)? (?:of )?${MONTH}\\b(?:,? (\\d{4}))?`),
    span: ([, day, month, year], at) => dayOf(at, { month, day, year }),
  },
  { pattern: new RegExp(`\\b${MONTH},? (\\d{4})\\b`), span: ([, month, year]) => monthOf(Number(year), month) },
  {
    pattern: new RegExp(`\\b(?:in|during|since|last|this) (${MONTHS.join('|')})\\b`),
    span: ([, month], at) => {
      const span = monthOf(at.getUTCFullYear(), month);
      return span && span.from > at ? monthOf(at.getUTCFullYear() - 1, month) : span;
    },
  },
  { pattern: /\bthe day before yesterday\b/, span: (_, at) => days(dayStart(at, -2), 1) },
  { pattern: /\byesterday\b/, span: (_, at) => days(dayStart(at, -1), 1) },
  { pattern: /\b(?:today|tonight|this morning|this evening)\b/, span: (_, at) => days(dayStart(at, 0), 1) },
  {
    pattern: new RegExp(`\\b${COUNT}(?: of)? (day|week|month|year)s? ago\\b`),
    span: ([, count, unit], at) => ago(at, { count: countOf(count), unit: unit ?? 'day' }),
  },
  {
    pattern: new RegExp(`\\b(?:last|past|previous) ${COUNT}(?: of)? (day|week|month|year)s\\b`),
    span: ([, count, unit], at) => ({ from: back(at, countOf(count), unit ?? 'day'), to: after(at) }),
  },
  {
    pattern: new RegExp(`\\b(?:last|on|this|past) (${WEEKDAYS.join('|')})\\b`),
    span: ([, name = ''], at) => {
      const since = (at.getUTCDay() - WEEKDAYS.indexOf(name) + 7) % 7;
      return days(dayStart(at, -(since === 0 ? 7 : since)), 1);
    },
  },
  { pattern: /\blast week\b/, span: (_, at) => days(weekStart(at, -1), 7) },
  { pattern: /\bthis week\b/, span: (_, at) => days(weekStart(at, 0), 7) },
  { pattern: /\blast month\b/, span: (_, at) => months(at, -1) },
  { pattern: /\bthis month\b/, span: (_, at) => months(at, 0) },
  { pattern: /\blast year\b/, span: (_, at) => yearOf(at.getUTCFullYear() - 1) },
  { pattern: /\bthis year\b/, span: (_, at) => yearOf(at.getUTCFullYear()) },
  { pattern: /\b(?:in|during|since) ((?:19|20)\d{2})\b/, span: ([, year]) => yearOf(Number(year)) },
];

function utc(year: number, month: number, day = 1): Date {
  return new Date(Date.UTC(year, month, day));
}

function days(from: Date, count: number): TimeSpan | undefined {
  return Number.isNaN(from.getTime()) ? undefined : { from, to: new Date(from.getTime() + count * DAY_MS) };
}

function dayStart(at: Date, offset: number): Date {
  return utc(at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate() + offset);
}

/** Weeks begin on Monday. */
function weekStart(at: Date, offset: number): Date {
  return dayStart(at, -((at.getUTCDay() + 6) % 7) + 7 * offset);
}

function months(at: Date, offset: number): TimeSpan {
  const [year, month] = [at.getUTCFullYear(), at.getUTCMonth() + offset];
  return { from: utc(year, month), to: utc(year, month + 1) };
}

function monthOf(year: number, name = ''): TimeSpan | undefined {
  const month = MONTHS.findIndex((each) => each.startsWith(name.slice(0, 3)));
  return { from: utc(year, month), to: utc(year, month + 1) };
}

function yearOf(year: number): TimeSpan {
  return { from: utc(year, 0), to: utc(year + 1, 0) };
}

/** A day of a month; without a year the most recent one. */
function dayOf(at: Date, named: Record<'month' | 'day' | 'year', string | undefined>): TimeSpan | undefined {
  const month = MONTHS.findIndex((each) => each.startsWith((named.month ?? '').slice(0, 3)));
  const of = (year: number) => utc(year, month, Number(named.day));
  if (named.year !== undefined) return days(of(Number(named.year)), 1);
  const thisYear = of(at.getUTCFullYear());
  return days(thisYear > at ? of(at.getUTCFullYear() - 1) : thisYear, 1);
}

function countOf(text = ''): number {
  return COUNTS[text] ?? Number(text);
}

function back(at: Date, count: number, unit: string): Date {
  if (unit === 'month') return utc(at.getUTCFullYear(), at.getUTCMonth() - count, at.getUTCDate());
  if (unit === 'year') return utc(at.getUTCFullYear() - count, at.getUTCMonth(), at.getUTCDate());
  return dayStart(at, -count * (unit === 'week' ? 7 : 1));
}

/** `three weeks ago`: give or take 3 days for weeks, 10 for months and 90 for years, since people speak roughly. */
function ago(at: Date, { count, unit }: { count: number; unit: string }): TimeSpan {
  const day = back(at, count, unit);
  const slack = { day: 0, week: 3, month: 10, year: 90 }[unit] ?? 0;
  return { from: dayStart(day, -slack), to: dayStart(day, slack + 1) };
}

function after(at: Date): Date {
  return new Date(at.getTime() + 1);
}
