/** Every limit that is not a setting of an agent, in one place. docs/limits.md shows the same table; a test compares. */
export const LIMITS = {
  /** A request body, what a process reads of all of them, and of messages on WebSockets, at the same time, in bytes, and one tenant's share of that. */
  bodyBytes: 10 * 1024 * 1024,
  bodyBytesAtOnce: 128 * 1024 * 1024,
  tenantBodySharePercent: 50,
  /** Answers of a process that their clients have not taken yet, in bytes, and one tenant's share of that. */
  answerBytesAtOnce: 256 * 1024 * 1024,
  tenantAnswerSharePercent: 50,
  /** Commas, lists and objects of the JSON in a request body, and in what the server of a tool answers. */
  jsonValues: 200_000,
  /** Values of a JSON Schema, where those of an `enum` do not count, and what is slow to compile counts as more. */
  schemaValues: 15_000,
  /** A URL in a request, and its headers together, in bytes; and the time in seconds in which all of a request has come. */
  urlBytes: 16 * 1024,
  headerBytes: 16 * 1024,
  requestSeconds: 60,
  /** How long a connection stays open that no request comes on, in seconds: for longer than a load balancer keeps it (Google's: 600). */
  idleConnectionSeconds: 620,
  /** Connections that the API, and a worker's port, have at once, in percent of the files and connections that a process may have open (`ulimit -n`). */
  connectionSharePercent: 50,
  /** Requests of one connection that wait for the answers to earlier ones. */
  pipelinedRequests: 100,
  /** A file, and all contents of a tenant's files, in bytes, where the tenant's settings do not say. */
  fileBytes: 100 * 1024 * 1024,
  tenantFileBytes: 10 * 1024 * 1024 * 1024,
  /** Time in seconds in which all of an upload has come, and for which it may bring nothing. */
  uploadSeconds: 3600,
  uploadStallSeconds: 60,
  /** What a multipart request has beside its file, in bytes. */
  uploadFieldBytes: 64 * 1024,
  /** Text of a file that a model reads, and all files of a message and of a request to a model, in bytes. */
  attachedTextBytes: 1024 * 1024,
  attachedBytes: 20 * 1024 * 1024,
  /** Contents of files that a process keeps in mind for its requests to models, in characters, and for how many seconds. */
  fileCacheChars: 64 * 1024 * 1024,
  fileCacheSeconds: 600,
  /** Base64 within a result of a tool that stays there, in characters; more of it is kept as a file. */
  inlineBlobChars: 65_536,
  /** Files of one answer that its provider has made and that are kept. */
  generatedFiles: 20,
  /** Time for all files of one answer, in ms. */
  generatedFilesMs: 60_000,
  /** Characters of a file's name. */
  filenameChars: 255,
  /** Hours after which a content that nobody has finished is swept: far more than an upload may take. */
  unfinishedFileHours: 24,
  /** A tool's answer as the model sees it, in bytes; longer ones are cut, with a note. */
  toolOutputForModelBytes: 1024 * 1024,
  /** What is said of a call that has failed, or asked by a remote agent, in characters; where the tool has answered more, the whole answer is the call's output. */
  errorChars: 4000,
  /** Agents of a workspace that are tools of its MCP server: the oldest. */
  mcpAgents: 1000,
  /** How long a call of such a tool may wait for its run, in seconds. */
  mcpWaitSeconds: 1800,
  /** Requests that a tool's MCP server makes of Drover, and notifications and other messages that nobody asked for, a minute. */
  mcpServerRequests: 100,
  mcpServerNotifications: 10_000,
  /** What the built-in tool `read_tool_output` reads of an output at a time, in characters. */
  outputPieceChars: 50_000,
  /** A tool's answer as it is kept, in bytes (`bytesOf`); a longer one is the tool's error. */
  toolOutputBytes: 10 * 1024 * 1024,
  /** What the calls of one run may store in all, in bytes, where the service does not say; a call beyond it fails. */
  runOutputBytes: 512 * 1024 * 1024,
  /** What signals that a run has not used yet come to, in bytes: they lie in its state. */
  keptSignalBytes: 32 * 1024 * 1024,
  /** An output that a stream shows with its event, in bytes; a larger one is named by its address. */
  shownOutputBytes: 64 * 1024,
  /** What is read at once of a log for a stream, and for a page of events, in bytes; a single event may be larger. */
  streamPageBytes: 1024 * 1024,
  eventsPageBytes: 4 * 1024 * 1024,
  /** For which a stream stays open while the database is away, in seconds. */
  streamRetrySeconds: 30,
  /** Between two pieces of an answer that are told; the first is told at once. */
  streamFrameMs: 16,
  /** Turns before the newest that a client of AG-UI gets where it goes on with a thread. */
  snapshotTurns: 200,
  /** Pieces of answers that a stream keeps for a reader which does not keep up, in characters; more are left out. */
  streamDeltaChars: 256 * 1024,
  /** What a client may keep as `extras` of a thread or a conversation, or as `context` of a session, in bytes of JSON, each. */
  extrasBytes: 64 * 1024,
  /** A secret's value, in bytes. */
  secretBytes: 32 * 1024,
  /** Events of one run. */
  eventsPerRun: 100_000,
  /** Tool calls in one answer of a model. */
  toolCallsPerStep: 64,
  /** Leases of a run that are lost in a row, with no event of a driver in between, after which its turn fails. */
  lostLeases: 10,
  /** Leases lost so, after which a process drives the run beside no other such run: one of them may be what it dies of. */
  suspectLeases: 3,
  /** Answers of a model in a row without a valid intent, after which its turn fails. */
  invalidAnswers: 5,
  /** Times that a model is asked again whose answer does not fit its schema, where the agent does not say. */
  outputRetries: 2,
  /** Events with untrusted content that a call names which is asked for after them: the first of its turn. */
  taintedBy: 100,
  /** Steps per turn where the agent does not say. */
  maxTurns: 25,
  /** Driving time of a turn in seconds where the agent does not say. */
  turnTimeoutSeconds: 1800,
  /** Driving time of a run, in seconds. */
  runDrivingSeconds: 86_400,
  /** Idle time after which a run that is kept open completes, in seconds. */
  idleSeconds: 86_400,
  /** Longest life of a token for a run or a thread, in seconds. */
  runTokenSeconds: 3600,
  /** How deep runs may have children. */
  runDepth: 5,
  /** Subtasks of one plan, the dependencies of all of them, and those of a workflow that are worked on at a time. */
  subtasksPerPlan: 1000,
  dependenciesPerPlan: 10_000,
  subtasksAtOnce: 64,
  /** Runs of a tree that are shown at once. */
  treeRuns: 2000,
  /** Further attempts of a task that has failed. */
  taskRetries: 2,
  /** Agents of a workspace that a search looks at, and names of skills that are embedded together. */
  candidateAgents: 20_000,
  skillsEmbeddedTogether: 32,
  /** Handoffs of one piece of work, tokens of one where neither it nor its target says, and seconds for which it may wait to be taken. */
  handoffChain: 10,
  handoffTokens: 32_000,
  /** The context of a handoff as canonical JSON, in bytes. */
  handoffBytes: 1024 * 1024,
  handoffSeconds: 86_400,
  /** Seconds for which an agent may stay offline before it is deprecated. */
  agentOfflineSeconds: 604_800,
  /** What a subtask is told of the result of one that it depends on, in characters; the whole is with that task. */
  dependencyResultChars: 50_000,
  /** Characters of what is delegated, and the longest time in seconds that its end is waited for. */
  briefChars: 100_000,
  delegationSeconds: 604_800,
  /** Time a person has to decide where the agent does not say, in seconds. */
  approvalSeconds: 86_400,
  /** Time the client has for its own tools where the agent does not say, in seconds. */
  clientToolSeconds: 3600,
  /** Time a webhook has where the call does not say, and the longest time that anything is waited for, in seconds. */
  webhookSeconds: 86_400,
  waitSeconds: 31_536_000,
  /** Answer of one model call in tokens where the agent does not say. */
  outputTokens: 4096,
  /** Tokens that a model takes, prompt and answer together, where nobody knows better. */
  contextTokens: 128_000,
  /** Share of the room for the conversation that is filled by estimate, in percent: estimates can be too low by a third. */
  contextFillPercent: 75,
  /** Time in seconds that a remote agent has for a task where the tool does not say. */
  remoteTaskSeconds: 3600,
  /** Longest pause in ms between two looks at a remote task, and how often it is tried to cancel one. */
  remoteLookMs: 30_000,
  remoteCancels: 10,
  /** One attempt of a tool in ms where the tool does not say. */
  toolTimeoutMs: 30_000,
  /** Further attempts of a tool call where the tool does not say, and the first pause before one (doubled each time, and up to a tenth longer by chance). */
  toolRetries: 3,
  toolBackoffMs: 1000,
  /** Most tokens that whoever hands on a task may allow it. */
  taskTokens: 1_000_000_000,
  /** Levels of what a tool answers: what is kept is walked through by recursion whenever it is read. */
  toolOutputDepth: 500,
  /** Longest pauses in ms that a tool may ask for before it is called again, and with `execution.inline`, while a driver waits. */
  toolPauseMs: 86_400_000,
  inlinePauseMs: 30_000,
  /**
   * Further attempts of a tool call whose process had no time left to send it, or does not know its transport, which says
   * nothing of the tool.
   */
  unsentRetries: 10,
  /** What the server of a model sends in answer to one call, in bytes: far more than a model may say. */
  modelAnswerBytes: 64 * 1024 * 1024,
  /** A line of what it sends piece by piece, in bytes: an event of a stream is one. */
  modelLineBytes: 8 * 1024 * 1024,
  /** Models without a list price that have metrics of their own in a process; those after them are `other`. */
  modelSeries: 100,
  /** Attempts of one model call before the fallback model is asked, and before the run waits for its provider. */
  modelAttempts: 3,
  /** Time in seconds that a run waits for a provider that is away where the agent does not say. */
  providerOutageSeconds: 86_400,
  /** Longest pause in ms between two requests to a provider that is away, which one run makes for all that wait. */
  outagePauseMs: 300_000,
  /** Time in ms for which one run alone asks for all that wait; if it is not answered by then, another one asks, too. */
  outageProbeMs: 30_000,
  /** Longest time in ms for which nobody asks a model after such a refusal. */
  throttleMs: 300_000,
  /** Characters that are kept of an answer which its turn did not wait for. */
  partialAnswerChars: 100_000,
  /** What an agent passes on to its provider, in characters of JSON. */
  apiKwargsChars: 16_384,
  /** One attempt of a model call, in ms. */
  modelTimeoutMs: 600_000,
  /** Longest silence of a model's server in one attempt, in ms: Anthropic pings while a model thinks, so that the connection is dead then. */
  modelIdleMs: 180_000,
  /** Output tokens below which what is left of a budget is not worth a model call. */
  budgetLeastOutputTokens: 32,
  /** Pause in ms before a run asks again for room that calls under way hold in a budget. */
  budgetPauseMs: 1000,
  /** Settled reservations that are added up at once. */
  budgetRollUpRows: 5000,
  /** Time in ms that a job is taken to cost its tenant when it is sent; what it takes beyond that is added when it ends. */
  fairJobMs: 1000,
  /** Most seconds that a tenant's jobs stand behind those of others for what it has taken. */
  fairAheadSeconds: 3600,
  /** Share of a worker's jobs at once that one tenant may have while others want to run, in percent. */
  tenantSharePercent: 75,
  /** Starts of a job that only a newer build can read, 5 s apart, after which it fails. */
  putBacks: 720,
  /** Time a driver holds a run before it lets others have their turn, in ms. */
  sliceMs: 30_000,
  /** How soon a process sees that somebody has paused or limited a queue, in ms. */
  queueLookMs: 1000,
  /** How long a driver holds its run for queued calls that its own process makes, in ms. */
  attachedMs: 200,
  /** Steps after which a checkpoint is saved within a turn. */
  checkpointSteps: 25,
  /** Messages of a session that are shown with it. */
  sessionMessages: 50,
  /** Messages at the end of a conversation, results of tools among them, in which those are looked for. */
  sessionMessageWindow: 1000,
  /** Seconds for which what a session shows may lie in the fast store, its size in characters, and how old it may be when it is served. */
  liveStateSeconds: 60,
  liveStateChars: 256 * 1024,
  liveStateStaleMs: 1000,
  /** Characters of a message to a session. */
  chatMessageChars: 5000,
  /** Messages of one user to sessions, an hour; executions of call batches of one session, a minute. */
  chatsPerHour: 100,
  executesPerMinute: 20,
  /** Requests of a tenant, a minute, by its plan tier. */
  freeRequestsPerMinute: 60,
  standardRequestsPerMinute: 600,
  enterpriseRequestsPerMinute: 6000,
  /** Streams, WebSockets and requests waiting for a turn that a tenant has open at a process. */
  openRequests: 1000,
  /** WebSockets that one key has open at a process; what a client may send on one at once, in bytes. */
  socketsPerKey: 1000,
  socketMessageBytes: 4096,
  /** Worked examples of an agent that its model is shown; of more, those that fit the turn's message. */
  examplesShown: 10,
  /** Sessions that are at work on one connection of ACP, and bytes of a message of its client. */
  acpSessions: 100,
  acpMessageBytes: 1024 * 1024,
  /** What waits on a WebSocket for a reader that does not keep up, in bytes, and the seconds for which that much may wait. */
  socketBufferBytes: 1024 * 1024,
  socketStallSeconds: 10,
  /** Seconds that a client has to take what waits for it and to answer, once its WebSocket is being closed. */
  socketCloseSeconds: 30,
  /** Characters of a tool's result, and of a queued message, that a session's stream shows. */
  previewChars: 200,
  /** Runs that a process keeps in mind after it has driven them, and bytes of all their conversations together. */
  cachedRuns: 200,
  cachedRunBytes: 64 * 1024 * 1024,
  /** Seconds for which it does so: a process that no longer drives a run does not hear that it was erased. */
  cachedRunSeconds: 600,
  /** Hours for which an Idempotency-Key is remembered. */
  idempotencyHours: 24,
  /** Days that closed waits are kept, and that signals and reservations are after the end of their run. */
  settledDays: 30,
  /** Seconds a synchronous turn is waited for where its client does not say. */
  syncWaitSeconds: 60,
  /** Longest time in seconds for which a client may have it waited for (`Prefer: wait=N`). */
  preferredWaitSeconds: 600,
  /** Rows that one statement of maintenance takes, such as outbox rows that a sweep sends. */
  sweepRows: 1000,
  /** Runs that one request cancels, or retries, by a filter. */
  cancelRuns: 200,
  retryRuns: 200,
  /** How long a request looks for runs that it may retry, in ms. */
  retryLookMs: 10_000,
  /** Attempts of one delivery to a webhook; hours of failure after which a webhook is disabled; days that deliveries are kept. */
  webhookAttempts: 12,
  webhookFailingHours: 72,
  webhookLogDays: 30,
  /** Webhooks of one tenant; those of them that are delivered to at a time; the longest pause after failures, in seconds. */
  webhooksPerTenant: 50,
  webhooksAtOnce: 5,
  webhookPauseSeconds: 300,
  /** Push configurations of one task, and of one tenant, over A2A; hours that they are kept after the task's end. */
  pushConfigsPerTask: 10,
  pushConfigsPerTenant: 1000,
  pushConfigHours: 24,
  /** Rows of the audit log that one request verifies. */
  auditVerifyRows: 5000,
  /** Seconds between two pings on a quiet stream, and between two looks of a process for all its open streams. */
  streamPingSeconds: 15,
  streamPollSeconds: 3,
  /** A stream, or another answer, whose client takes nothing for so long is cut off. More than streamPingSeconds. */
  streamStallSeconds: 60,
  /** A CEL expression: its source, its tree, and a pattern of `matches` in characters. */
  celSourceChars: 4000,
  celNodes: 500,
  celDepth: 32,
  celPatternChars: 500,
  /** What an expression is evaluated on: characters, and levels of nesting. */
  celInputChars: 1024 * 1024,
  celInputDepth: 64,
  /** Work of one evaluation: tree nodes times rounds of its macros times characters; and steps of its patterns. */
  celWork: 500_000_000,
  celRegexSteps: 2_000_000,
  /** Nodes and edges of an agent's graph; visits of nodes in a turn, for each of its steps (max_turns). */
  graphNodes: 100,
  graphEdges: 500,
  nodeVisitsPerStep: 4,
  /** How often an answer of a turn goes back to the model for the gaps that reflection has found (execution_config.reflect). */
  reflectionsPerTurn: 2,
  /** What a filled-in template may come to, and the channels of `custom` together, in characters. */
  renderedChars: 200_000,
  customChars: 65_536,
  /** Policies of one tenant. */
  policiesPerTenant: 200,
  /** Calls in one answer that make it a call batch, and what is kept of its purpose, in characters. */
  callBatchMin: 3,
  callBatchPurposeChars: 500,
  /** A memory's content in characters, and what of it a vector is made from. */
  memoryChars: 100_000,
  embeddedChars: 4000,
  /** Vectors that a process keeps in mind; one request for vectors, in ms. */
  cachedEmbeddings: 2000,
  embeddingTimeoutMs: 30_000,
  /** How long a recall, or the choice of worked examples, waits for the vector of its question, in ms; without it words alone decide. */
  recallEmbeddingMs: 1500,
  /** Memories that one query answers at most, and where it does not say. */
  recallEntries: 100,
  recallDefault: 5,
  /** Tokens of memories that a turn is given, and of those that are always loaded, where the agent does not say. */
  memoryTokens: 2000,
  profileTokens: 1000,
  /** Hours after which a memory's newness has fallen to 1/e where the agent does not say. */
  memoryHalfLifeHours: 168,
  /** Consolidation where the agent does not say: hours after which a memory of the short term is a candidate, tokens beyond which the oldest are, importance in percent from which it is kept, and tokens of a memory that is kept as it is. */
  consolidationAgeHours: 24,
  shortTermTokens: 8000,
  importanceThresholdPercent: 40,
  longTermEntryTokens: 200,
  /** Writes to one fragment of a shared space that wait for each other in a process. */
  fragmentWriters: 2000,
  /** Memories of the short term that one consolidation looks at; times that turns use the same tools before that is remembered. */
  consolidatedEntries: 500,
  /** Agents of one tenant, and of all, whose short term is looked at by itself within the hour. */
  consolidatedAgentsOfTenant: 1000,
  consolidatedAgents: 20_000,
  procedureTimes: 3,
  /** What one turn may teach: memories to add, as many to correct, and the characters of each. */
  extractedMemories: 20,
  extractedChars: 2000,
  /** A fragment of a shared space, in bytes. */
  fragmentBytes: 262_144,
  /** Spaces that a search which names none goes through: the newest. */
  searchedSpaces: 200,
  /** Days for which it is kept which memories were used where. */
  memoryAccessDays: 90,
  /** Uses of a fragment that are counted where it is read. */
  countedUses: 10_000,
  /** Pause in ms before new memories get their vectors, all of that time together, and how many at once. */
  memoryPauseMs: 250,
  embeddedTogether: 32,
  /** Memories that one job gives their vectors; what is left gets another job. */
  embeddedByJob: 3200,
  /** For so long a process that has said how it embeds counts for others, which leave its vectors alone; after so long what did not succeed in being embedded anew is tried again. */
  embeddingSettingsMs: 900_000,
  replacedAgainMs: 300_000,
  /** Steps of a turn after which the spans of those are exported, though it goes on; turns whose spans wait to be read at once, and as many open ones of which it is kept what is read. */
  tracedSteps: 25,
  tracedTurns: 1000,
} as const;
