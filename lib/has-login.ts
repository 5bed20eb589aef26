/** Whether a URL has a user name or a password. Requests refuse these (RFC 9110, 4.2.4), and showing the URL would show them. */
export function hasLogin(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { username, password } = new URL(url);
  return username !== '' || password !== '';
}
