export const BOARD = '/admin/queues';
export const SIGN_IN = `${BOARD}/sign-in`;
export const SIGN_OUT = `${BOARD}/sign-out`;

/** In characters. Addresses pass through a form; longer ones are dropped. */
const LONGEST = 2000;

/** The path on the board, with query, that an address leads to; the board's start for any other address. */
export function placeOnBoard(address: string): string {
  const here = 'http://here';
  if (address.length > LONGEST || !URL.canParse(address, here)) return BOARD;
  const { origin, pathname, search } = new URL(address, here);
  const isBelow = origin === here && pathname.startsWith(`${BOARD}/`);
  return isBelow && pathname !== SIGN_IN && pathname !== SIGN_OUT ? `${pathname}${search}` : BOARD;
}
