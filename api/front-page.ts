/** The page at `/` for people who open the service's address in a browser. Other clients get a 404 there. */
import { page } from './admin/pages.ts';
import type { ApiContext, Middleware } from './kit/state.ts';

const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

const CONTENT = `<p>Drover runs AI agents as durable jobs. Requests take a key:
<code>Authorization: Bearer …</code>.</p>
<ul>
<li><a href="/openapi.json">/openapi.json</a>: what the API takes and answers (without a key on this machine alone)</li>
<li><a href="/admin/queues">/admin/queues</a>: the queue board, for the operator</li>
<li><a href="/healthz">/healthz</a> and <a href="/readyz">/readyz</a>: whether it is alive, and can work</li>
</ul>`;

/** Answers `GET /` where HTML is asked for. */
export function frontPage(): Middleware {
  return async (koaContext, next) => {
    const ctx = koaContext as ApiContext;
    const isRead = ctx.method === 'GET' || ctx.method === 'HEAD';
    if (ctx.path !== '/' || !isRead) return next();
    ctx.vary('Accept');
    if (ctx.accepts('json', 'html') !== 'html') return next();
    ctx.state.route = '/';
    ctx.set('Content-Security-Policy', POLICY);
    ctx.type = 'text/html; charset=utf-8';
    ctx.body = page('API', CONTENT);
  };
}
