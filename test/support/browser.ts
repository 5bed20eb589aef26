/** A headless Chromium over its DevTools protocol, where there is one on this machine. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { WebSocket } from 'ws';
import { waitUntil } from './wait-until.ts';

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** The program; undefined if none is installed. */
export const CHROMIUM = [process.env['CHROMIUM'] ?? '', ...PLACES].find((path) => path !== '' && existsSync(path));

/** Where pictures of what was seen go; none are made unless this is set. */
export const { SCREENSHOTS } = process.env;

export interface Page {
  /** The value of an expression in the page. */
  evaluate: <Value>(expression: string) => Promise<Value>;
  /** Until an expression in the page is true. */
  until: (what: string, expression: string) => Promise<void>;
  /** Types into the first element that a selector finds, as a person does. */
  type: (selector: string, text: string) => Promise<void>;
  /** What the page looks like, as a PNG at this path. */
  screenshot: (path: string) => Promise<void>;
  close: () => Promise<void>;
}

/** Opens a page in a browser of its own. */
export async function openPage(url: string): Promise<Page> {
  const profile = await mkdtemp(join(tmpdir(), 'drover-chromium-'));
  const flags = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run'];
  const own = ['--remote-debugging-port=0', `--user-data-dir=${profile}`, '--window-size=900,1000', 'about:blank'];
  const browser = spawn(CHROMIUM ?? '', [...flags, ...own], { stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = new Promise((resolve) => browser.once('exit', resolve));
  let said = '';
  browser.stderr.on('data', (data: Buffer) => (said += data.toString()));
  const port = () => /ws:\/\/127\.0\.0\.1:(\d+)\//.exec(said)?.[1];
  await waitUntil('the browser listens', () => port() !== undefined);
  const targets = (await (await fetch(`http://127.0.0.1:${port()}/json`)).json()) as Target[];
  const { send, close } = await connect(targets.find(({ type }) => type === 'page')?.webSocketDebuggerUrl ?? '');
  await send('Page.enable');
  await send('Page.navigate', { url });
  const evaluate = async <Value>(expression: string): Promise<Value> => {
    const answer = await send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (answer.exceptionDetails) throw new Error(`${expression}: ${JSON.stringify(answer.exceptionDetails)}`);
    return answer.result?.value as Value;
  };
  const until = (what: string, expression: string) =>
    waitUntil(what, async () => evaluate<boolean>(`Boolean(${expression})`).catch(() => false));
  return {
    evaluate,
    until,
    async type(selector, text) {
      await until(`there is ${selector}`, `document.querySelector(${JSON.stringify(selector)})`);
      await evaluate(`document.querySelector(${JSON.stringify(selector)}).focus()`);
      await send('Input.insertText', { text });
    },
    async screenshot(path) {
      const { data = '' } = await send('Page.captureScreenshot', { format: 'png' });
      await writeFile(path, Buffer.from(data, 'base64'));
    },
    async close() {
      close();
      browser.kill('SIGKILL');
      await ended;
      await rm(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

interface Target {
  type: string;
  webSocketDebuggerUrl: string;
}

interface Answer {
  result?: { value?: unknown };
  exceptionDetails?: unknown;
  data?: string;
}

async function connect(url: string) {
  const socket = new WebSocket(url);
  const waiting = new Map<number, (answer: Answer) => void>();
  let last = 0;
  await new Promise((resolve, reject) => {
    socket.once('open', resolve);
    socket.once('error', reject);
  });
  socket.on('message', (data: Buffer) => {
    const { id, result } = JSON.parse(data.toString()) as { id?: number; result?: Answer };
    if (id === undefined) return;
    waiting.get(id)?.(result ?? {});
    waiting.delete(id);
  });
  const send = (method: string, params: object = {}) =>
    new Promise<Answer>((resolve) => {
      last += 1;
      waiting.set(last, resolve);
      socket.send(JSON.stringify({ id: last, method, params }));
    });
  return { send, close: () => socket.terminate() };
}
