/** For a suite: spans are sent soon after they are told. OpenTelemetry's SDK reads its variables from the process itself. */
export function sendSpansSoon(): void {
  const name = 'OTEL_BSP_SCHEDULE_DELAY';
  before(() => {
    process.env[name] = '50';
  });
  after(() => {
    delete process.env[name];
  });
}
