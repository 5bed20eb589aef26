/** Hosts of a secret: `name`, `*.name` (its subdomains), each with an optional `:port`. */

const PATTERN = /^(\*\.)?([\p{L}\p{N}._-]+|\[[0-9a-f:.]+\])(?::(\d{1,5}))?$/iu;
const MAX_PORT = 65_535;

/** A pattern in normal form for comparison; undefined if it is invalid. */
export function readHostPattern(text: string): string | undefined {
  const [, wildcard = '', host = '', port] = PATTERN.exec(text) ?? [];
  if (host === '' || Number(port ?? 1) > MAX_PORT || Number(port ?? 1) < 1) return undefined;
  const url = `http://${host}/`;
  if (!URL.canParse(url)) return undefined;
  const name = nameOf(new URL(url));
  const isAddress = name.startsWith('[') || /^[\d.]+$/.test(name);
  if (name === '' || (wildcard !== '' && isAddress)) return undefined;
  return `${wildcard}${name}${port === undefined ? '' : `:${Number(port)}`}`;
}

/** Whether one of these patterns (in the form of `readHostPattern`) matches the URL's host. */
export function namesHost(hosts: readonly string[], url: URL): boolean {
  const name = nameOf(url);
  const port = url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port;
  return hosts.some((pattern) => {
    const [, wildcard, host = '', only] = PATTERN.exec(pattern) ?? [];
    if (only !== undefined && only !== port) return false;
    return wildcard === undefined ? name === host : name.endsWith(`.${host}`);
  });
}

/** A trailing dot makes no other host. */
function nameOf(url: URL): string {
  return url.hostname.replace(/\.$/, '');
}
