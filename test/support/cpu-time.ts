/** Milliseconds of CPU that this process has used so far: for bounds on work, which hold on a busy machine too. */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
