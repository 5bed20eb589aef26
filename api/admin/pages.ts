/** The pages around the board: plain HTML, no script. */

interface SignIn {
  action: string;
  /** Where to go after signing in. */
  to: string;
  problem?: string | undefined;
}

/** The sign-in form. */
export function signInPage({ action, to, problem }: SignIn): string {
  return page(
    'Sign in',
    `<p>The queues are for the operator: the default tenant's admin key opens them.</p>
    ${problem === undefined ? '' : `<p class="problem" role="alert">${problem}</p>`}
    <form method="post" action="${action}">
      <input type="hidden" name="to" value="${escape(to)}">
      <label for="key">API key</label>
      <input id="key" name="key" type="password" autocomplete="current-password" required autofocus>
      <button>Sign in</button>
    </form>`,
  );
}

/** The sign-out button. */
export function signOutPage(action: string): string {
  return page('Sign out', `<form method="post" action="${action}"><button autofocus>Sign out</button></form>`);
}

/** A page around HTML content. */
export function page(title: string, content: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${title} · Drover</title>
<style>
  :root { color-scheme: light dark }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 26rem; margin: 15vh auto 0; padding: 0 1rem }
  label { display: block }
  input, button { font: inherit; box-sizing: border-box; width: 100%; padding: .5rem; margin: .25rem 0 .75rem }
  .problem { color: #d33 }
  dd { margin: 0 0 .5rem; overflow-wrap: anywhere }
</style>
</head>
<body>
<h1>${title}</h1>
${content}
</body>
</html>
`;
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** Escapes a text for HTML. */
export function escape(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}
