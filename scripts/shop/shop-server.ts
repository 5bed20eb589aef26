/** Serves the shop's tools over HTTP, with a database per run. Changes are idempotent by key, as the tools declare. */
import { Refusal, openShop, type Shop, type ShopData } from './shop.ts';
import { SHOP_TOOLS } from './tools.ts';
import { pause, startLocalServer, type LocalServer } from '../torture/local-server.ts';

interface ShopServer extends LocalServer {
  /** The database of a run; undefined if it has sent no request. */
  shopOf: (runId: string) => Shop | undefined;
  /** `changes` were made; `repeats` came again with a known key. */
  counts: { requests: number; changes: number; repeats: number };
}

interface Answer {
  status: number;
  body: unknown;
}

/** Delays each answer by `waitMs`: a process killed meanwhile cannot know its call's outcome. */
export async function startShopServer(data: ShopData, waitMs: number): Promise<ShopServer> {
  const shops = new Map<string, Shop>();
  const answers = new Map<string, Answer>();
  const counts = { requests: 0, changes: 0, repeats: 0 };
  const tools = new Map(SHOP_TOOLS.map((tool) => [`/${tool.name}`, tool]));
  const server = await startLocalServer(async ({ path, headers, body, response }) => {
    const tool = tools.get(path);
    const runId = String(headers['x-drover-run-id']);
    const key = String(headers['idempotency-key']);
    const shop = shops.get(runId) ?? openShop(data);
    shops.set(runId, shop);
    counts.requests += 1;
    const known = tool?.reads ? undefined : answers.get(key);
    if (known) counts.repeats += 1;
    else if (tool && !tool.reads) counts.changes += 1;
    const answer = known ?? answerOf(() => tool?.run(shop, body as Record<string, unknown>));
    answers.set(key, answer);
    if (!(await pause(response, waitMs))) return;
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(JSON.stringify(answer.body));
  });
  return { ...server, shopOf: (runId) => shops.get(runId), counts };
}

function answerOf(run: () => unknown): Answer {
  try {
    return { status: 200, body: run() ?? null };
  } catch (error) {
    if (error instanceof Refusal) return { status: 422, body: { error: error.message } };
    throw error;
  }
}
