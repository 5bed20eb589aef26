/** The means of sending a webhook's deliveries. Listed in `modules/webhooks/channels.ts`. */
import type { Egress } from '../../../tools/egress.ts';

export interface Channel {
  /** Accepted URL protocols, without the colon. */
  protocols: readonly string[];
  /** Sends once; returns the response status (2xx means delivered). Throws an `EgressError`. */
  send(notice: Notice, to: Recipient, egress: Pick<Egress, 'fetch'>): Promise<number>;
}

/** An event as sent outside. */
export interface Notice {
  /** The same for each attempt. */
  id: string;
  type: string;
  timestamp: string;
  data: { run_id: string | null; seq: number | null; payload: Record<string, unknown>; [field: string]: unknown };
}

interface Recipient {
  url: string;
  /** For signing; shared only with the recipient. */
  secret: string;
  /** Start of this attempt, by the database's clock, since the process's may be off. */
  at: Date;
  limits: { maxBytes: number; maxRedirects: number; timeoutMs: number; signal: AbortSignal };
}
