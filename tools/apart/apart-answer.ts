/** The result of an evaluation as JSON, or the fault. */
export type ApartAnswer = { json: string } | { fault: 'too-slow' | 'failed'; message: string };
