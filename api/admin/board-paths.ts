export const BOARD = '/admin/queues';
export const SIGN_OUT = `${BOARD}/sign-out`;
