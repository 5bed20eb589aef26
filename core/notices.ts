/** What webhooks may be told of beside the events of runs: it stands in no log. */
export const NOTICE_TYPES = ['memory.conflicted'] as const;

/** `approval.…` are events of runs, too; those of approvals that belong to none are told in the same words. */
export type NoticeType =
  | (typeof NOTICE_TYPES)[number]
  | 'approval.requested'
  | 'approval.granted'
  | 'approval.denied'
  | 'approval.expired'
  | 'approval.settled';
