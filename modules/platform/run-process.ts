/** The life of a process: start, wait for a signal, stop cleanly. */
import type { Config } from '../../config.ts';
import { stopBy } from '../../lib/early-stop.ts';
import { expectFree } from '../../lib/listen.ts';
import { openPlatform, type Platform } from './open-platform.ts';
import { refuseArguments } from './refuse-arguments.ts';
import { lineOf } from './run-once.ts';

interface Program {
  load: () => Config;
  /** The port to listen on, and the variable that sets it. */
  listens: (config: Config) => { port: number; named: string } | undefined;
}

/** A Ctrl-C under `npm start` arrives twice: from the terminal, and from npm, which forwards it. */
const ONE_SIGNAL_MS = 500;

/**
 * Opens the platform, then runs `start`, which adds what it opens to `platform.closers`. SIGTERM or SIGINT closes
 * everything and exits with 0, even during the start; a second one exits at once. An address that cannot be listened on
 * fails before anything is opened. Start-up errors, data lost at shutdown, and a broken embedded database each print
 * one line to stderr and exit with 1. Arguments are refused: there are none.
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
    // A second, deliberate Ctrl-C.
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
    // A start that was stopped by a signal is no failure.
    const isStopped = error === stop.signal.reason;
    if (!isStopped) process.stderr.write(`${lineOf(error)}\n`);
    // Further losses are in the log, and the exit code is 1 already.
    await platform?.close().catch(() => undefined);
    process.exit(isStopped ? 0 : 1);
  }
}

/** The least characters of a key that cannot be guessed. */
const SOUND_KEY_CHARS = 16;

function warnOfSettings({ config, log }: Platform['context']): void {
  for (const variable of config.unreadVariables)
    log.warn({ variable }, 'this variable is named like one of Drover’s, and nothing reads it');
  for (const [variable, reason] of Object.entries(config.unheeded))
    log.warn({ variable, reason }, 'this variable asks OpenTelemetry for what Drover does not do');
  const keys = { DROVER_SECRET_KEY: config.secretKeys, DROVER_API_KEY: [config.apiKey ?? []].flat() };
  for (const [variable, values] of Object.entries(keys)) {
    if (values.some((key) => key.length < SOUND_KEY_CHARS))
      log.warn({ variable }, 'a key of less than 16 characters can be guessed');
  }
}
