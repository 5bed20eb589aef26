/** Money in USD: decimals as texts, added exactly. What API answers show of one is the number nearest to it. */

/** The sum of two. What is not known plus anything is not known, as in SQL. */
export function addMoney(left: string | null, right: string | null): string | null {
  if (left === null || right === null) return null;
  const places = Math.max(placesOf(left), placesOf(right));
  const digits = (scaled(left, places) + scaled(right, places)).toString().padStart(places + 1, '0');
  const whole = digits.slice(0, digits.length - places);
  const rest = digits.slice(digits.length - places).replace(/0+$/, '');
  return rest === '' ? whole : `${whole}.${rest}`;
}

/** The sum of all of them; null if one is not known. */
export function sumMoney(amounts: readonly (string | null)[]): string | null {
  return amounts.reduce(addMoney, '0');
}

/** As API answers show it; null where it is not known. */
export function shownMoney(amount: string): number;
export function shownMoney(amount: string | null): number | null;
export function shownMoney(amount: string | null): number | null {
  return amount === null ? null : Number(amount);
}

/** A sum over what has a known price, as API answers show it: null where nothing has, and something is left out. */
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
