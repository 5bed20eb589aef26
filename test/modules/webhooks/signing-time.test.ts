import assert from 'node:assert/strict';
import { Webhook } from 'standardwebhooks';
import { WEBHOOK } from '../../../modules/webhooks/channels/webhook.ts';

describe('A signed webhook', () => {
  it('has the time at which its attempt was claimed, whatever the clock of the process says', async () => {
    const secret = `whsec_${Buffer.from('a secret that is long enough').toString('base64')}`;
    const at = new Date(Date.now() - 200_000);
    const sent: Record<string, string>[] = [];
    const fetch = (_url: string, { headers = {}, body }: { headers?: Record<string, string>; body?: unknown }) => {
      new Webhook(secret).verify(String(body), headers);
      sent.push(headers);
      return Promise.resolve(new Response(null, { status: 204 }));
    };
    const notice = {
      id: 'd',
      type: 'run.completed',
      timestamp: at.toISOString(),
      data: { run_id: 'r', seq: 1, payload: {} },
    };
    const limits = { maxBytes: 1000, maxRedirects: 0, timeoutMs: 1000, signal: new AbortController().signal };
    await WEBHOOK.send(notice, { url: 'https://example.com/', secret, at, limits }, { fetch } as never);
    assert.deepEqual(
      sent.map((headers) => headers['webhook-timestamp']),
      [String(Math.floor(at.getTime() / 1000))],
    );
  });
});
