/** The available channels. A new one needs a file in `modules/webhooks/channels/` and a line here (docs/extending.md). */
import type { Channel } from './channels/channel.ts';
import { WEBHOOK } from './channels/webhook.ts';

const CHANNELS: readonly Channel[] = [WEBHOOK];

/** Protocols allowed in a webhook's URL, without the colon. */
export const CHANNEL_PROTOCOLS: readonly string[] = CHANNELS.flatMap(({ protocols }) => protocols);

/** The channel for a webhook, by its URL's protocol. */
export function channelOf(url: string): Channel | undefined {
  const protocol = new URL(url).protocol.slice(0, -1);
  return CHANNELS.find(({ protocols }) => protocols.includes(protocol));
}
