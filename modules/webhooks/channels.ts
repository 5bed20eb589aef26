/** The channels that there are: a new one is a file in `modules/webhooks/channels/` and a line here (docs/extending.md). */
import type { Channel } from './channels/channel.ts';
import { WEBHOOK } from './channels/webhook.ts';

const CHANNELS: readonly Channel[] = [WEBHOOK];

/** What the URL of a webhook may begin with, without the colon. */
export const CHANNEL_PROTOCOLS: readonly string[] = CHANNELS.flatMap(({ protocols }) => protocols);

/** The channel of a webhook, by the protocol of its URL. */
export function channelOf(url: string): Channel | undefined {
  const protocol = new URL(url).protocol.slice(0, -1);
  return CHANNELS.find(({ protocols }) => protocols.includes(protocol));
}
