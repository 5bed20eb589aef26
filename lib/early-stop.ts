/** Signals that come while a process still loads its code, which takes a second: nothing is open yet. */
const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

const end = () => process.exit(0);

/** From now on a signal ends the process with 0. An entry file calls it before it imports anything large. */
export function stopEarly(): void {
  for (const signal of SIGNALS) process.on(signal, end);
}

/** From now on it is for `onSignal` to say what a signal does. */
export function stopBy(onSignal: () => void): void {
  for (const signal of SIGNALS) process.on(signal, onSignal).off(signal, end);
}
