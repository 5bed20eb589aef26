/** `npm start` for a parent that holds it by an IPC channel: when the parent is gone, however it ended, this stops too. */
process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));
await import('../start.ts');
