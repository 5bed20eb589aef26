/** Preloaded into each process of a torture: it ends with the one that started it, however that one ended. */
process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));
process.channel?.unref();
