/** `npm start` for a parent with an IPC channel: stops when the parent is gone, however it ended. */
process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));
await import('../start.ts');
