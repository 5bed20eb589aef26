/** How somebody hears of an event: what a webhook's deliveries are sent with. Listed in `modules/webhooks/channels.ts`. */
import type { Egress } from '../../../tools/egress.ts';

export interface Channel {
  /** Of the URLs that it takes, without the colon. */
  protocols: readonly string[];
  /** Sends once and answers with the status that came back: 2xx is delivered. Throws an `EgressError`. */
  send(notice: Notice, to: Recipient, egress: Pick<Egress, 'fetch'>): Promise<number>;
}

/** An event, as it is told outside. */
export interface Notice {
  /** The same in each attempt. */
  id: string;
  type: string;
  timestamp: string;
  data: { run_id: string | null; seq: number | null; payload: Record<string, unknown>; [field: string]: unknown };
}

interface Recipient {
  url: string;
  /** To sign with; only the recipient has it too. */
  secret: string;
  /** When this attempt began, by the database's clock: the process's may be off. */
  at: Date;
  limits: { maxBytes: number; maxRedirects: number; timeoutMs: number; signal: AbortSignal };
}
