/** Work as the queue board shows it to the operator: turns of all tenants, by ids, names and outcomes. */
export {
  countTurns,
  findBoardTurn,
  findTurnAbove,
  listBoardTurns,
  listQueueWorkers,
  listTurnsBelow,
  listTurnsOfRun,
  MOST_SHOWN,
  type BoardTurn,
  type TurnAbove,
  type TurnState,
} from '../../db/queue-board.ts';
