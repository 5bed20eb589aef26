/** Brings a page of the board back to the sign-in form once its session has ended: the board goes on showing what it had. */
import { BOARD } from './board-paths.ts';

export const SESSION_END_PATH = `${BOARD}/session-end.js`;

/** The board asks for its data by XMLHttpRequest alone. Without a session, the same address is the form. */
export const SESSION_END_SCRIPT = `'use strict';
const { open } = XMLHttpRequest.prototype;
XMLHttpRequest.prototype.open = function (...args) {
  this.addEventListener('load', () => {
    if (this.status === 401) location.reload();
  });
  return open.apply(this, args);
};
`;

/** The page with the script, before the board's own. */
export function withSessionEnd(html: string): string {
  return html.replace('</head>', `<script src="${SESSION_END_PATH}"></script></head>`);
}
