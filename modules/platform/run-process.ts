/** The life of a process: start, wait for a signal, stop cleanly. */
import type { Config } from '../../config.ts';
import { stopBy } from '../../lib/early-stop.ts';
import { expectFree } from '../../lib/listen.ts';
import { openPlatform, type Platform } from './open-platform.ts';
import { refuseArguments } from './refuse-arguments.ts';
import { lineOf } from './run-once.ts';

interface Program {
  load: () => Config;
  /** The port on which it will listen, and the variable that says so. */
  listens: (config: Config) => { port: number; named: string } | undefined;
}

/** A Ctrl-C under `npm start` comes twice at once: from the terminal, and from npm, which passes on its own. */
const ONE_SIGNAL_MS = 500;

/**
 * Opens the platform, and `start` what works on it, which is given to `platform.closers`. SIGTERM or SIGINT closes
 * everything and ends the process with 0, also while it is still starting; a second one ends it at once. An address that
 * cannot be listened on is noticed before anything is opened. What the start fails of, such as a mistake in the configuration, is one line on stderr and exit code 1, as is what is lost at the end,
 * and an embedded database that cannot go on. Arguments are refused: there are none.
 */
export async function runProcess(
  { load, listens }: Program,
  start: (platform: Platform) => Promise<void>,
): Promise<void> {
  if (refuseArguments()) return;
  const stop = new AbortController();
  const stopped = new Promise<undefined>((resolve) => {
    stop.signal.addEventListener('abort', () => resolve(undefined));
  });
  let stoppedMs = Infinity;
  const onSignal = () => {
    // A second Ctrl-C means it.
    if (performance.now() - stoppedMs > ONE_SIGNAL_MS) process.exit(130);
    stoppedMs = Math.min(stoppedMs, performance.now());
    stop.abort();
  };
  stopBy(onSignal);

  let platform: Platform | undefined;
  try {
    const config = load();
    const place = listens(config);
    if (place) await expectFree({ host: config.host, port: place.port }, place.named);
    platform = await openPlatform(config, { signal: stop.signal });
    warnOfSettings(platform.context);
    await start(platform);
    const broken = await Promise.race([stopped, platform.broken]);
    if (broken) throw broken;
    await platform.close();
    process.exit(0);
  } catch (error) {
    // Whoever has stopped the start knows that it did not come to its end.
    const isStopped = error === stop.signal.reason;
    if (!isStopped) process.stderr.write(`${lineOf(error)}\n`);
    // What is lost on top of it is in the log, and the exit code is 1 already.
    await platform?.close().catch(() => undefined);
    process.exit(isStopped ? 0 : 1);
  }
}

/** Characters of a key that nobody guesses. */
const SOUND_KEY_CHARS = 16;

function warnOfSettings({ config, log }: Platform['context']): void {
  for (const variable of config.unreadVariables)
    log.warn({ variable }, 'this variable is named like one of Drover’s, and nothing reads it');
  const keys = { DROVER_SECRET_KEY: config.secretKeys, DROVER_API_KEY: [config.apiKey ?? []].flat() };
  for (const [variable, values] of Object.entries(keys)) {
    if (values.some((key) => key.length < SOUND_KEY_CHARS))
      log.warn({ variable }, 'a key of less than 16 characters can be guessed');
  }
}
