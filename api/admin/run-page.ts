/** A run's page: its turns, with ids, names and outcomes. */
import type { BoardTurn } from '../../modules/platform/read-queue-board.ts';
import { BOARD } from './board-paths.ts';
import { outcomeOf } from './turn-card.ts';
import { escape, page } from './pages.ts';

/** `turns`: the run's, newest first, at least one. */
export function runPage(run: BoardTurn, turns: readonly BoardTurn[]): string {
  const rows = [
    ['run', run.run_id],
    ['agent', `${run.agent} ${run.agent_version}`],
    ['tenant', run.tenant_id],
    ['status', run.run_status],
    ['API', `GET /v1/runs/${run.run_id}`],
  ] as const;
  const about = rows.map(([name, value]) => `<dt>${name}</dt><dd>${escape(value)}</dd>`).join('');
  return page(
    'Run',
    `<dl>${about}</dl>
    <ol reversed>${turns.map(turnItem).join('')}</ol>
    <p><a href="${BOARD}/queue/turns">All turns</a></p>`,
  );
}

function turnItem(turn: BoardTurn): string {
  const why = turn.error ? `<br>${escape(turn.error.message)}` : '';
  return `<li value="${turn.number}"><a href="${BOARD}/queue/turns/${turn.id}">${escape(outcomeOf(turn))}</a>${why}</li>`;
}
