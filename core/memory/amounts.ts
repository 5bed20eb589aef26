/** Numbers with units, normalised so that equal amounts are one word, however they are written. Pure. */

type Dimension = 'length' | 'mass' | 'time' | 'months';
type System = 'metric' | 'imperial';

interface Unit {
  dimension: Dimension;
  system: System;
  /** Its size in metres, grams, seconds or months. */
  size: number;
}

/** Unit names that are unambiguous after a number: no `in`, and no attached `m`, which may mean millions. */
const UNITS = new Map<string, Unit>(
  (
    [
      ['length', 'metric', 1000, 'km kms kilometer kilometers kilometre kilometres'],
      ['length', 'metric', 1, 'meter meters metre metres'],
      ['length', 'metric', 0.01, 'cm centimeter centimeters centimetre centimetres'],
      ['length', 'metric', 0.001, 'mm millimeter millimeters millimetre millimetres'],
      ['length', 'imperial', 1609.344, 'mi mile miles'],
      ['length', 'imperial', 0.9144, 'yd yard yards'],
      ['length', 'imperial', 0.3048, 'ft foot feet'],
      ['length', 'imperial', 0.0254, 'inch inches'],
      ['mass', 'metric', 1000, 'kg kgs kilo kilos kilogram kilograms'],
      ['mass', 'metric', 1, 'g gram grams'],
      ['mass', 'imperial', 453.592_37, 'lb lbs pound pounds'],
      ['mass', 'imperial', 28.349_523, 'oz ounce ounces'],
      ['time', 'metric', 0.001, 'ms millisecond milliseconds'],
      ['time', 'metric', 1, 's sec secs second seconds'],
      ['time', 'metric', 60, 'min mins minute minutes'],
      ['time', 'metric', 3600, 'h hr hrs hour hours'],
      ['time', 'metric', 86_400, 'day days'],
      ['time', 'metric', 604_800, 'week weeks'],
      ['months', 'metric', 1, 'month months'],
      ['months', 'metric', 12, 'year years'],
    ] as const
  ).flatMap(([dimension, system, size, names]) =>
    names.split(' ').map((name): [string, Unit] => [name, { dimension, system, size }]),
  ),
);
const AMOUNT = /^(\d+(?:[.,]\d+)*)-?(\p{L}*)$/u;
const THOUSANDS = /^\d{1,3}(?:,\d{3})+(?:\.\d+)?$/;
/** Tolerance: people who convert an amount to units of the other system round it. */
const ROUNDED = 0.05;

/** Replaces each amount by one word: `5 km` by `5000 metric length`, `1,000` and `1k` by `1000`. */
export function withAmounts(words: readonly string[]): string[] {
  const joined: string[] = [];
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? '';
    const [, written = '', own = ''] = AMOUNT.exec(word) ?? [];
    const digits = THOUSANDS.test(written) ? written.replaceAll(',', '') : written;
    const number = digits === '' ? Number.NaN : Number(digits);
    const unit = UNITS.get(own === '' ? (words[at + 1] ?? '') : own);
    if (Number.isNaN(number)) joined.push(word);
    else if (unit) {
      joined.push(`${round(number * unit.size)} ${unit.system} ${unit.dimension}`);
      if (own === '') at += 1;
    } else if (own === 'k') joined.push(String(round(number * 1000)));
    // Numbers without a unit may be versions or codes: 1.10 is not 1.1.
    else joined.push(own === '' ? digits : word);
  }
  return joined;
}

/** Whether two amounts in units of different systems are about equal. */
export function areSameAmounts(left: string, right: string): boolean {
  const [[a, ofA, what], [b, ofB, other]] = [left.split(' '), right.split(' ')];
  if (what === undefined || what !== other || ofA === ofB) return false;
  return Math.abs(Number(a) - Number(b)) <= ROUNDED * Math.max(Number(a), Number(b));
}

function round(value: number): number {
  return Number(value.toPrecision(9));
}
