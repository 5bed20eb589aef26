/** Signs deliveries by the Standard Webhooks specification (standardwebhooks.com). */
import { Webhook } from 'standardwebhooks';
import type { Channel } from './channel.ts';

export const WEBHOOK: Channel = {
  protocols: ['http', 'https'],
  async send({ id, ...notice }, { url, secret, at, limits }, egress) {
    const body = JSON.stringify(notice);
    const headers = {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(secret).sign(id, at, body),
    };
    return (await egress.fetch(url, { method: 'POST', headers, body, ...limits })).status;
  },
};
