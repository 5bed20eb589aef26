/**
 * Flags of V8 for processes that live for seconds, to be set before anything opens an embedded database: what V8 would
 * optimize in them is hardly run any more.
 */

/** Functions of PGlite stay as they are compiled at first: a tenth of the CPU of a test process that opens embedded databases. */
export const TEST_FLAGS = '--no-wasm-tier-up --no-wasm-dynamic-tiering';

/** Functions of our own are optimized later, too: with the other, a program begins with a little more than half of the CPU, and with 100 MB less. */
export const PROGRAM_FLAGS = `${TEST_FLAGS} --interrupt-budget=1000000`;
