export const BOARD = '/admin/queues';
export const SIGN_IN = `${BOARD}/sign-in`;
export const SIGN_OUT = `${BOARD}/sign-out`;

/** Longer ones are not kept: they go through a form. */
const LONGEST = 2000;

/** Where on the board an address leads, its query included; the board's beginning for any that leads elsewhere. */
export function placeOnBoard(address: string): string {
  const here = 'http://here';
  if (address.length > LONGEST || !URL.canParse(address, here)) return BOARD;
  const { origin, pathname, search } = new URL(address, here);
  const isBelow = origin === here && pathname.startsWith(`${BOARD}/`);
  return isBelow && pathname !== SIGN_IN && pathname !== SIGN_OUT ? `${pathname}${search}` : BOARD;
}
