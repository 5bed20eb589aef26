/** Which network addresses tools may reach (docs/tools.md, Egress). */
import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

export interface AddressRules {
  /** `hostname` as in the URL (no brackets), and the resolved `address` of the same connection. */
  allows(target: { hostname: string; port: number; address: string }): boolean;
}

/**
 * Rules that allow public unicast addresses and the entries of `allow`: `host`, `host:port`, an address, a CIDR, or an
 * IPv6 address in brackets with a port. Throws with the text of an unreadable entry.
 */
export function createAddressRules(allow: readonly string[], allowLoopback: boolean): AddressRules {
  const rules = allow.map((entry) => entry.trim()).filter((entry) => entry !== '');
  const parsed = rules.map(parseRule);
  return {
    allows({ hostname, port, address }) {
      if (!ipaddr.isValid(address)) return false;
      const ip = ipaddr.process(address);
      if (isPublic(ip)) return true;
      if (allowLoopback && ip.range() === 'loopback') return true;
      const host = normalHost(hostname);
      return parsed.some((rule) => (rule.port === undefined || rule.port === port) && matches(rule, { host, ip }));
    },
  };
}

/** Azure's platform channel: a public address that always leads to the machine's own host. */
const PLATFORM_ADDRESSES = ['168.63.129.16'];
/** Only 2000::/3 is global unicast (RFC 4291); the library calls every unnamed range unicast. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3');

/** Public unicast: not private, loopback, link-local, mapped, translated, reserved or a cloud's own. */
function isPublic(ip: Address): boolean {
  if (ip.range() !== 'unicast' || PLATFORM_ADDRESSES.includes(ip.toString())) return false;
  return ip instanceof ipaddr.IPv4 || ip.match(GLOBAL_UNICAST);
}

/** Whether `createAddressRules` can read an entry. */
export function isAddressRule(entry: string): boolean {
  return readRule(entry) !== undefined;
}

type Rule = { port?: number | undefined } & ({ host: string } | { network: [Address, number] });

function parseRule(entry: string): Rule {
  const rule = readRule(entry);
  if (!rule) throw new Error(`"${entry}" is not a host, host:port, address or CIDR`);
  return rule;
}

function readRule(entry: string): Rule | undefined {
  if (ipaddr.isValidCIDR(entry)) return { network: ipaddr.parseCIDR(entry) };
  if (ipaddr.isValid(entry)) return { network: single(entry) };
  const parts = /^(?:\[([0-9a-fA-F:.]+)\]|([^[\]:/\s]+))(?::(\d{1,5}))?$/.exec(entry);
  const host = parts?.[1] ?? parts?.[2];
  const port = parts?.[3] === undefined ? undefined : Number(parts[3]);
  if (host === undefined || port === 0 || (port !== undefined && port > 65_535)) return undefined;
  if (ipaddr.isValid(host)) return { network: single(host), port };
  // A name ending in a number is parsed as an address; an invalid one occurs in no URL.
  return URL.canParse(`http://${host}`) ? { host: normalHost(host), port } : undefined;
}

function single(address: string): [Address, number] {
  const ip = ipaddr.process(address);
  return [ip, ip instanceof ipaddr.IPv4 ? 32 : 128];
}

function matches(rule: Rule, { host, ip }: { host: string; ip: Address }): boolean {
  if ('host' in rule) return rule.host === host;
  const [network, bits] = rule.network;
  if (network instanceof ipaddr.IPv4) return ip instanceof ipaddr.IPv4 && ip.match(network, bits);
  return ip instanceof ipaddr.IPv6 && ip.match(network, bits);
}

function normalHost(host: string): string {
  return host.toLowerCase().replace(/\.$/, '');
}
