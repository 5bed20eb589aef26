/** Money in USD: decimals as strings, added exactly. API answers show the nearest number. */

/** Adds two amounts. Unknown plus anything is unknown, as in SQL. */
export function addMoney(left: string | null, right: string | null): string | null {
  if (left === null || right === null) return null;
  const places = Math.max(placesOf(left), placesOf(right));
  const digits = (scaled(left, places) + scaled(right, places)).toString().padStart(places + 1, '0');
  const whole = digits.slice(0, digits.length - places);
  const rest = digits.slice(digits.length - places).replace(/0+$/, '');
  return rest === '' ? whole : `${whole}.${rest}`;
}

/** Sums amounts; null if any is unknown. */
export function sumMoney(amounts: readonly (string | null)[]): string | null {
  return amounts.reduce(addMoney, '0');
}

/** The number shown in API answers. */
export function shownMoney(amount: string): number;
export function shownMoney(amount: string | null): number | null;
export function shownMoney(amount: string | null): number | null {
  return amount === null ? null : Number(amount);
}

/** The number shown for a sum of known prices; null if some prices are unknown and none of the others cost anything. */
export function shownSum(known: string, unpriced: number): number | null {
  const sum = shownMoney(known);
  return sum === 0 && unpriced > 0 ? null : sum;
}

function placesOf(money: string): number {
  return money.split('.')[1]?.length ?? 0;
}

function scaled(money: string, places: number): bigint {
  const [whole = '0', rest = ''] = money.split('.');
  return BigInt(whole + rest.padEnd(places, '0'));
}
