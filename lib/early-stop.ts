/** Handles signals while a process loads its code, which takes a second: nothing is open yet. */
const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

const end = () => process.exit(0);

/** Makes a signal end the process with code 0. An entry file calls it before it imports anything large. */
export function stopEarly(): void {
  for (const signal of SIGNALS) process.on(signal, end);
}

/** Passes the signals on to `onSignal`. */
export function stopBy(onSignal: () => void): void {
  for (const signal of SIGNALS) process.on(signal, onSignal).off(signal, end);
}
