/** What lies outside Drover: an HTTP service with effects, which it counts. */
import { delay, startFakeHttp } from './fake-http.ts';

interface Delivery {
  label: string;
  key: string;
  run: string;
  call: string;
  /** Whether the client left before it had its answer. */
  broken: boolean;
}

export interface World {
  url: string;
  /** Every request with this label, in order. */
  deliveries: (label: string) => Delivery[];
  close: () => Promise<void>;
}

const FOR_EVER_MS = 600_000;

/**
 * A POST `{label, ms?, hang?, status?}` is an effect, and is answered `{label, count}` after `ms`. `hang`: its first
 * request is never answered. `status`: answers with it, once.
 */
export async function startWorld(): Promise<World> {
  const deliveries: Delivery[] = [];
  const server = await startFakeHttp(async ({ headers, body }, response) => {
    const {
      label = '',
      ms = 0,
      hang = false,
      status,
    } = body as Partial<{
      label: string;
      ms: number;
      hang: boolean;
      status: number;
    }>;
    const isFirst = !deliveries.some((earlier) => earlier.label === label);
    const delivery: Delivery = {
      label,
      key: String(headers['idempotency-key']),
      run: String(headers['x-drover-run-id']),
      call: String(headers['x-drover-tool-call-id']),
      broken: false,
    };
    deliveries.push(delivery);
    response.once('close', () => {
      delivery.broken = !response.writableFinished;
    });
    await delay(response, hang && isFirst ? FOR_EVER_MS : ms);
    if (response.destroyed) return;
    const refused = status !== undefined && isFirst;
    response.writeHead(refused ? status : 200, { 'content-type': 'application/json' });
    const count = new Set(deliveries.filter((each) => each.label === label).map(({ key }) => key)).size;
    response.end(JSON.stringify(refused ? { error: 'not now' } : { label, count }));
  });
  return {
    url: server.url,
    deliveries: (label) => deliveries.filter((each) => each.label === label),
    close: server.close,
  };
}
