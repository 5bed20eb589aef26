/** Webhook notifications besides run events. They are in no log. */
export const NOTICE_TYPES = ['memory.conflicted'] as const;

/** `approval.…` are also events of runs; approvals that belong to no run are told in the same words. */
export type NoticeType =
  | (typeof NOTICE_TYPES)[number]
  | 'approval.requested'
  | 'approval.granted'
  | 'approval.denied'
  | 'approval.expired'
  | 'approval.settled';
