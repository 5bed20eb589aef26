/** How much a test of load does: `TEST_SIZE=nightly` asks for all of it, else it is as small as still proves the promise. */
const IS_NIGHTLY = process.env['TEST_SIZE'] === 'nightly';

/** The one of two amounts that this run of the tests takes. */
export const sized = <T>({ usual, nightly }: { usual: T; nightly: T }): T => (IS_NIGHTLY ? nightly : usual);
