/** The demo's output, for terminals and for files. */
import pc from 'picocolors';

const INDENT = ' '.repeat(10);
const MAX_WIDTH = 160;

export interface ToolCall {
  tool: string;
  input: unknown;
}

export interface Screen {
  title(text: string): void;
  line(label: string, text: string): void;
  say(text?: string): void;
  question(text: string): void;
  /** A piece of a text while the model writes it; shown at once on a terminal. */
  delta(step: number, text: string): void;
  /** A whole text, with its step's usage. */
  text(step: number, shown: { content: string; usage: string }): void;
  toolCall(call: ToolCall): void;
  toolResult(result: { tool: string; output: unknown; isError: boolean }): void;
  crash(text: string): void;
  answer(text: string): void;
  verdict(text: string, ok: boolean): void;
}

/** Writes to `out`, in colour depending on NO_COLOR and the terminal (picocolors). */
export function createScreen(out: NodeJS.WriteStream): Screen {
  // The step whose text is on the screen without a final line break.
  let open: { step: number; text: string } | undefined;
  const width = Math.min(out.columns ?? 120, MAX_WIDTH);
  const write = (text: string) => out.write(text);
  const endLine = () => {
    if (open) write('\n');
    open = undefined;
  };
  const say = (text = '') => {
    endLine();
    write(`${text}\n`);
  };
  const begin = (step: number) => {
    endLine();
    write(`  ${pc.cyan(`step ${step}`.padEnd(8))}`);
    open = { step, text: '' };
  };
  return {
    say,
    title: (text) => say(`\n${pc.bold(text)}\n`),
    line: (label, text) => say(`  ${pc.dim(label.padEnd(9))}${text}`),
    question: (text) => say(`\n${pc.bold('Question:')} ${text}\n`),
    delta(step, text) {
      if (!out.isTTY) return;
      if (open?.step !== step) begin(step);
      if (open) open.text += text;
      write(text.replaceAll('\n', `\n${INDENT}`));
    },
    text(step, { content, usage }) {
      if (open?.step !== step || open.text !== content) begin(step);
      if (open?.text === '') write(content.replaceAll('\n', `\n${INDENT}`));
      write(`  ${pc.dim(usage)}`);
      open = { step, text: content };
      endLine();
    },
    toolCall: ({ tool, input }) => say(fit(`${pc.yellow('→')} ${pc.bold(tool)} `, JSON.stringify(input))),
    toolResult: ({ tool, output, isError }) =>
      say(fit(`${isError ? pc.red('✗') : pc.green('←')} ${pc.dim(tool)} `, asText(output))),
    crash: (text) => say(`\n  ${pc.red(pc.bold(text))}\n`),
    answer: (text) => say(`\n${pc.bold('Answer:')} ${text}\n`),
    verdict: (text, ok) => say((ok ? pc.green : pc.red)(pc.bold(text))),
  };

  function fit(label: string, text: string): string {
    const room = Math.max(40, width - INDENT.length - 20);
    return `${INDENT}${label}${text.length > room ? `${text.slice(0, room - 1)}…` : text}`;
  }
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value.replaceAll(/\s+/g, ' ') : JSON.stringify(value);
}
