/**
 * A flag of V8, to be set before anything opens an embedded database. Those of tests live for seconds, while V8 optimizes
 * each function of PGlite that has run for a moment: that it optimizes only those that have run ten times as long saves a
 * tenth of the CPU.
 */
export const OPTIMIZE_LATER = '--wasm-tiering-budget=20000000';
