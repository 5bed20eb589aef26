/** The release that this build is, as `package.json` says; a test compares them. */
export const VERSION = '0.2.0';
