/** The front ends of `examples/` in a browser. By night, where there is one. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CHROMIUM, openPage, SCREENSHOTS, type Page } from '../support/browser.ts';
import { ROOT } from '../support/repository.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { sized } from '../support/size.ts';

const EXAMPLES = fileURLToPath(new URL('examples', ROOT));
/** Built by `npm ci && npm run build` in its folder. */
const BUILT = join(EXAMPLES, 'assistant-ui/dist/main.js');
const TYPES: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript' };

if (CHROMIUM !== undefined && sized({ usual: false, nightly: true })) {
  describe('a front end of the examples, in a browser', function () {
    let files: Server;
    let origin: string;
    let api: ScriptedService;
    let page: Page | undefined;

    before(async () => {
      files = createServer((request, response) => {
        const path = join(EXAMPLES, new URL(request.url ?? '/', 'http://localhost').pathname);
        readFile(path).then(
          (content) => response.writeHead(200, { 'content-type': TYPES[extname(path)] ?? 'text/plain' }).end(content),
          () => response.writeHead(404).end(),
        );
      });
      await new Promise<void>((resolve) => files.listen(0, '127.0.0.1', resolve));
      origin = `http://127.0.0.1:${(files.address() as AddressInfo).port}`;
      // Nobody listens there.
      const away = { OPENAI_API_KEY: 'test', OPENAI_BASE_URL: 'http://127.0.0.1:9/v1' };
      api = await startScriptedService({ env: { DROVER_CORS_ORIGINS: origin, ...away } });
    });
    afterEach(async () => {
      await page?.close();
      page = undefined;
    });
    after(async () => {
      await api.close();
      files.close();
    });

    const click = (on: Page, text: string) =>
      on.evaluate(`[...document.querySelectorAll('button')].find((each) => each.textContent === '${text}').click()`);
    const shows = (text: string) => `document.body.innerText.includes(${JSON.stringify(text)})`;
    async function picture(of: Page, name: string): Promise<void> {
      if (SCREENSHOTS === undefined) return;
      await mkdir(SCREENSHOTS, { recursive: true });
      await of.screenshot(join(SCREENSHOTS, `${name}.png`));
    }
    const fill = (on: Page, selector: string, value: string) =>
      on.evaluate(`document.querySelector('${selector}').value = ${JSON.stringify(value)}`);

    it('without a library talks, shows a plan, and carries it out, and a question, which the next message answers', async () => {
      const agent = await api.newAgent(['calculator', 'ask_user'], { autonomy_level: 0 });
      page = await openPage(`${origin}/session.html`);
      await page.until('it is there', `document.querySelector('#text')`);
      const nameless = `[...document.querySelectorAll('input')].filter((each) => !each.labels.length && !each.ariaLabel).length`;
      assert.deepEqual(await page.evaluate(`[document.documentElement.lang, ${nameless}]`), ['en', 0]);
      await fill(page, '#url', api.url);
      await fill(page, '#key', api.key);
      await fill(page, '#agent', agent);
      await fill(page, '#level', '0');
      await page.type('#text', 'call calculator {"expression":"6*7"} | say It is 42.');
      await click(page, 'Send');
      await page.until('it asks', `!document.querySelector('#plan').hidden`);
      await picture(page, 'session-asks');
      await click(page, 'Execute');
      await page.until('it has its answer', shows('It is 42.'));
      await page.until('the turn is over', `document.querySelector('#status').textContent === 'completed'`);
      await picture(page, 'session-answers');
      await page.type('#text', 'call ask_user {"question":"How much?"}');
      await click(page, 'Send');
      await page.until('it asks', `document.querySelector('#messages').innerText.endsWith('assistant\\n\\nHow much?')`);
      await picture(page, 'session-question');
      // After a reload the page knows server and session by its address, and asks for the key alone.
      await page.evaluate(`location.reload()`);
      await page.until('it is loaded anew', `document.querySelector('#key')?.value === ''`);
      const change = `document.querySelector('#key').dispatchEvent(new Event('change'))`;
      await fill(page, '#key', 'wrong');
      await page.evaluate(change);
      await page.until('it says why not', `document.querySelector('#problem').textContent.includes('key')`);
      await fill(page, '#key', api.key);
      await page.evaluate(change);
      await page.until('it asks again', shows('How much?'));
      await page.type('#text', 'ten of them');
      await click(page, 'Send');
      await page.until('it has the answer', `document.querySelector('#status').textContent !== 'waiting_approval'`);
      await page.until('the turn is over', `document.querySelector('#status').textContent === 'completed'`);
      assert.match(await page.evaluate(`document.querySelector('#messages').textContent`), /ten of them/);
      assert.equal(await page.evaluate(`document.querySelector('#problem').textContent`), '');
    });

    it('without a library says once what is sent twice, keeps what could not be sent, and says why a turn has failed', async () => {
      const agent = await api.newAgent();
      page = await openPage(`${origin}/session.html`);
      await page.until('it is there', `document.querySelector('#text')`);
      await fill(page, '#url', api.url);
      await fill(page, '#key', 'wrong');
      await fill(page, '#agent', agent);
      await page.type('#text', 'say مرحبا');
      await click(page, 'Send');
      await page.until('it says why not', `document.querySelector('#problem').textContent.includes('key')`);
      assert.equal(await page.evaluate(`document.querySelector('#text').value`), 'say مرحبا');
      await fill(page, '#key', api.key);
      await page.evaluate(`for (const time of [1, 2]) document.querySelector('#say').requestSubmit()`);
      await page.until('it has its answer', `document.querySelector('#status').textContent === 'completed'`);
      const texts = `[...document.querySelectorAll('#messages p')].map((each) => each.textContent)`;
      assert.deepEqual(await page.evaluate(`${texts}.filter(Boolean)`), ['say مرحبا', 'مرحبا']);
      await page.evaluate(`location.hash = ''; location.reload()`);
      await page.until('it is loaded anew', `document.querySelector('#key')?.value === ''`);
      await fill(page, '#url', api.url);
      await fill(page, '#key', api.key);
      const execution_config = { provider_outage_seconds: 0 };
      await fill(
        page,
        '#agent',
        await api.newAgent([], { llm_config: { default_model: 'openai/gpt-5' }, execution_config }),
      );
      await page.type('#text', 'Hello');
      await click(page, 'Send');
      await page.until('the turn has failed', `document.querySelector('#status').textContent === 'error'`);
      await page.until('it says why', shows('failed'));
      await picture(page, 'session-failed');
    });

    it('without a library asks what became of a call', async () => {
      const rude = createServer((_, response) => response.destroy());
      await new Promise<void>((resolve) => rude.listen(0, '127.0.0.1', resolve));
      const transport = { type: 'http', endpoint: `http://127.0.0.1:${(rude.address() as AddressInfo).port}/send` };
      await api.call('POST', '/v1/tools', { body: { name: 'send', description: 'Sends.', transport } });
      const agent = await api.newAgent(['send'], { autonomy_level: 3 });
      page = await openPage(`${origin}/session.html`);
      await page.until('it is there', `document.querySelector('#text')`);
      await fill(page, '#url', api.url);
      await fill(page, '#key', api.key);
      await fill(page, '#agent', agent);
      await fill(page, '#level', '3');
      await page.type('#text', 'call send {} | say I have asked.');
      await click(page, 'Send');
      await page.until('it asks', shows('unknown: send'));
      await picture(page, 'session-unknown');
      await click(page, 'It has happened');
      await page.until('it has its answer', shows('I have asked.'));
      await page.until('nothing is asked', `document.querySelector('#waits').textContent === ''`);
      rude.close();
    });

    it('without a library says that a provider is away', async () => {
      page = await openPage(`${origin}/session.html`);
      await page.until('it is there', `document.querySelector('#text')`);
      await fill(page, '#url', api.url);
      await fill(page, '#key', api.key);
      await fill(page, '#agent', await api.newAgent([], { llm_config: { default_model: 'openai/gpt-5' } }));
      await page.type('#text', 'Hello');
      await click(page, 'Send');
      await page.until('it says so', shows('The model has not answered since'));
      await picture(page, 'session-away');
      await click(page, 'Stop');
      await page.until('the turn is over', `document.querySelector('#status').textContent === 'interrupted'`);
    });

    const elsewhere = () => origin.replace('127.0.0.1', 'localhost');
    const notAllowed = () => `Nothing answers at ${api.url}, or DROVER_CORS_ORIGINS does not name ${elsewhere()}.`;

    it('without a library says that its origin is not allowed, or that nothing answers', async () => {
      page = await openPage(`${elsewhere()}/session.html`);
      await page.until('it is there', `document.querySelector('#text')`);
      await fill(page, '#url', api.url);
      await fill(page, '#key', api.key);
      await page.type('#text', 'Hello');
      await click(page, 'Send');
      await page.until('it says so', shows(notAllowed()));
    });

    it('on assistant-ui says that its origin is not allowed, or that nothing answers', async () => {
      const query = new URLSearchParams({ url: api.url, agent: await api.newAgent(), thread: randomUUID() }).toString();
      page = await openPage(`${elsewhere()}/assistant-ui/dist/index.html?${query}`);
      await page.type('input[name=apiKey]', api.key);
      await click(page, 'Connect');
      await page.until('it says so', shows(notAllowed()));
    });

    it('on assistant-ui says that a key is wrong', async () => {
      const query = new URLSearchParams({ url: api.url, agent: await api.newAgent(), thread: randomUUID() }).toString();
      page = await openPage(`${origin}/assistant-ui/dist/index.html?${query}`);
      await page.type('input[name=apiKey]', 'wrong');
      await click(page, 'Connect');
      await page.until('it says so', shows('The key is not valid'));
      await picture(page, 'assistant-ui-wrong-key');
    });

    it('on assistant-ui takes the address of the server with a slash at its end', async () => {
      const given = { url: `${api.url}/`, agent: await api.newAgent(), thread: randomUUID() };
      page = await openPage(`${origin}/assistant-ui/dist/index.html?${new URLSearchParams(given).toString()}`);
      await page.type('input[name=apiKey]', api.key);
      await click(page, 'Connect');
      await page.type('textarea', 'say I am here.');
      await click(page, 'Send');
      await page.until('it has its answer', `document.querySelector('.assistant')?.textContent === 'I am here.'`);
    });

    it('on assistant-ui talks with a token for its thread, and decides what is asked', async () => {
      assert.ok(existsSync(BUILT), 'examples/assistant-ui has to be built first: npm ci && npm run build');
      const agent = await api.newAgent(['calculator'], { autonomy_level: 0 });
      const thread = randomUUID();
      const minted = await api.call('POST', `/v1/threads/front-end-${thread}/tokens`, {
        body: { ttl_seconds: 600, scopes: ['read', 'answer'] },
      });
      assert.equal(minted.status, 201, minted.text);
      const query = new URLSearchParams({ url: api.url, agent, thread: `front-end-${thread}` }).toString();
      page = await openPage(`${origin}/assistant-ui/dist/index.html?${query}`);
      await page.type('input[name=apiKey]', minted.json.token);
      await click(page, 'Connect');
      await page.type('textarea', 'call calculator {"expression":"6*7"} | say It is 42.');
      await click(page, 'Send');
      await page.until('it asks', `document.querySelector('.ask button')`);
      await picture(page, 'assistant-ui-asks');
      await page.evaluate(`location.reload()`);
      await page.until('it is loaded anew', `document.querySelector('input[name=apiKey]')?.value === ''`);
      await page.type('input[name=apiKey]', minted.json.token);
      await click(page, 'Connect');
      await page.until('it asks again', `document.querySelector('.ask button')`);
      assert.equal(await page.evaluate(`document.querySelectorAll('.user').length`), 1);
      await click(page, 'Approve');
      await page.until(
        'it has its answer',
        `[...document.querySelectorAll('.assistant')].at(-1)?.textContent.endsWith('It is 42.')`,
      );
      await page.until('nothing is asked', `!document.querySelector('.ask')`);
      await page.type('textarea', 'say and again');
      await page.until('it may be sent', `!document.querySelector('.composer button').disabled`);
      await click(page, 'Send');
      await page.until(
        'it answers again',
        `[...document.querySelectorAll('.assistant')].at(-1)?.textContent === 'and again'`,
      );
      await picture(page, 'assistant-ui-answers');
      await page.evaluate(`location.reload()`);
      await page.until('it is there again', `document.querySelector('input[name=apiKey]')?.value === ''`);
      await page.type('input[name=apiKey]', minted.json.token);
      await click(page, 'Connect');
      const texts = `[...document.querySelectorAll('.message')].map(({ textContent }) => textContent)`;
      await page.until('all was told', `${texts}.at(-1) === 'and again'`);
      assert.deepEqual(await page.evaluate(texts), [
        'call calculator {"expression":"6*7"} | say It is 42.',
        'calculator({"expression":"6*7"}) → {"result":42}',
        'It is 42.',
        'say and again',
        'and again',
      ]);
      assert.equal(await page.evaluate(`document.querySelector('.failed')?.textContent ?? ''`), '');
    });
  });
}
