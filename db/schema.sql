-- Made by `npx tsx scripts/dump-schema.ts` from db/migrations. A listing to read, not to run.

domain call_mode as text CHECK ((VALUE = ANY (ARRAY['pure'::text, 'inline'::text, 'queued'::text, 'wait'::text])))
domain call_status as text CHECK ((VALUE = ANY (ARRAY['proposed'::text, 'denied'::text, 'awaiting_approval'::text, 'pending'::text, 'running'::text, 'succeeded'::text, 'failed'::text, 'unknown'::text])))
domain checkpoint_trigger as text CHECK ((VALUE = ANY (ARRAY['turn_complete'::text, 'tool_result'::text, 'manual'::text])))
domain file_content_state as text CHECK ((VALUE = ANY (ARRAY['writing'::text, 'stored'::text, 'garbage'::text])))
domain file_origin as text CHECK ((VALUE = ANY (ARRAY['user'::text, 'tool'::text, 'provider'::text])))
domain message_origin as text CHECK ((VALUE = ANY (ARRAY['user'::text, 'model'::text, 'tool'::text, 'drover'::text])))
domain message_role as text CHECK ((VALUE = ANY (ARRAY['user'::text, 'assistant'::text])))
domain reservation_state as text CHECK ((VALUE = ANY (ARRAY['open'::text, 'settled'::text, 'estimated'::text, 'released'::text])))
domain run_kind as text CHECK ((VALUE = ANY (ARRAY['agent'::text, 'workflow'::text])))
domain run_status as text CHECK ((VALUE = ANY (ARRAY['created'::text, 'initializing'::text, 'planning'::text, 'executing'::text, 'awaiting_tool'::text, 'awaiting_human'::text, 'reflecting'::text, 'completed'::text, 'failed'::text, 'cancelled'::text])))
domain tool_effect as text CHECK ((VALUE = ANY (ARRAY['read_only'::text, 'idempotent'::text, 'unknown'::text])))
domain trust as text CHECK ((VALUE = ANY (ARRAY['trusted'::text, 'untrusted'::text])))
domain turn_status as text CHECK ((VALUE = ANY (ARRAY['running'::text, 'complete'::text, 'awaiting_tool'::text, 'awaiting_human'::text, 'failed'::text, 'cancelled'::text])))

table agent_skills row level security forced
  comment 'No content of runs: what a tenant has set up, not what was said in a run'
  tenant_id uuid not null
  agent_id uuid not null
  name text not null
  constraint agent_skills_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id)
  constraint agent_skills_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint agent_skills_pkey PRIMARY KEY (tenant_id, name, agent_id)
  CREATE INDEX agent_skills_by_agent ON public.agent_skills USING btree (agent_id)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table agent_versions row level security forced
  comment 'No content of runs: what a tenant has set up, not what was said in a run'
  agent_id uuid not null
  version text not null
  ordinal integer not null
  tenant_id uuid not null
  definition jsonb not null
  content_hash text not null
  created_at timestamp with time zone not null default now()
  constraint agent_versions_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id)
  constraint agent_versions_pkey PRIMARY KEY (agent_id, version)
  CREATE INDEX agent_versions_inactive ON public.agent_versions USING btree (tenant_id, agent_id, version) WHERE ((definition -> 'is_active'::text) = 'false'::jsonb)
  CREATE UNIQUE INDEX agent_versions_page ON public.agent_versions USING btree (agent_id, ordinal)
  CREATE INDEX agent_versions_with_health ON public.agent_versions USING btree (tenant_id, agent_id) WHERE ((definition -> 'health'::text) IS NOT NULL)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant insert, select to drover_app

table agents row level security forced
  comment 'No content of runs: what a tenant has set up, not what was said in a run'
  id uuid not null
  tenant_id uuid not null
  workspace_id uuid not null
  name text not null
  status text not null
  current_version text not null
  last_heartbeat_at timestamp with time zone
  suspended_at timestamp with time zone
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  heartbeats integer not null default 0
  offline_since timestamp with time zone
  external_id text
  own_name text
  constraint agents_status_check CHECK ((status = ANY (ARRAY['active'::text, 'idle'::text, 'busy'::text, 'offline'::text, 'deprecated'::text])))
  constraint agents_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint agents_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id)
  constraint agents_pkey PRIMARY KEY (id)
  CREATE INDEX agents_beating ON public.agents USING btree (last_heartbeat_at) WHERE ((last_heartbeat_at IS NOT NULL) AND (status = ANY (ARRAY['active'::text, 'idle'::text])))
  CREATE UNIQUE INDEX agents_by_external_id ON public.agents USING btree (workspace_id, external_id) WHERE (external_id IS NOT NULL)
  CREATE UNIQUE INDEX agents_by_name ON public.agents USING btree (workspace_id, own_name) WHERE ((own_name = name) AND (status <> 'deprecated'::text))
  CREATE INDEX agents_by_tool_name ON public.agents USING btree (workspace_id, "left"(('run_'::text || regexp_replace(name, '[^A-Za-z0-9_-]'::text, '_'::text, 'g'::text)), 60) COLLATE "C") WHERE (status <> 'deprecated'::text)
  CREATE INDEX agents_deprecated_named ON public.agents USING btree (workspace_id, name) WHERE (status = 'deprecated'::text)
  CREATE INDEX agents_named ON public.agents USING btree (workspace_id, name) WHERE (status <> 'deprecated'::text)
  CREATE INDEX agents_of_status ON public.agents USING btree (tenant_id, status, id)
  CREATE INDEX agents_offline ON public.agents USING btree (offline_since) WHERE (status = 'offline'::text)
  CREATE INDEX agents_page ON public.agents USING btree (tenant_id, id)
  CREATE INDEX agents_suspended ON public.agents USING btree (tenant_id) WHERE (suspended_at IS NOT NULL)
  policy maintenance_suspended_agents for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant select to drover_maintenance

table api_keys row level security forced
  comment 'No content of runs: what a tenant has set up, not what was said in a run'
  id uuid not null
  tenant_id uuid not null
  workspace_id uuid
  name text not null
  key_hash bytea not null
  scopes text[] not null
  expires_at timestamp with time zone
  revoked_at timestamp with time zone
  created_at timestamp with time zone not null default now()
  constraint api_keys_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint api_keys_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id)
  constraint api_keys_pkey PRIMARY KEY (id)
  CREATE UNIQUE INDEX api_keys_hash ON public.api_keys USING btree (key_hash)
  CREATE INDEX api_keys_page ON public.api_keys USING btree (tenant_id, id)
  policy maintenance_key_lookup for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant select to drover_maintenance

table approvals row level security forced
  id uuid not null
  tenant_id uuid not null
  run_id uuid
  turn_id uuid
  kind text not null
  tool_call_id uuid
  plan_id uuid
  tool text not null
  arguments jsonb not null
  original_arguments jsonb
  digest text not null
  message text
  policy jsonb
  four_eyes boolean not null default false
  decided_by uuid
  status text not null
  decision text
  reason text
  expires_at timestamp with time zone not null
  created_at timestamp with time zone not null
  decided_at timestamp with time zone
  workspace_id uuid
  subject_type text
  subject_id uuid
  constraint approvals_kind_check CHECK ((kind = ANY (ARRAY['approval'::text, 'unknown'::text, 'conflict'::text])))
  constraint approvals_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'approved'::text, 'denied'::text, 'expired'::text, 'settled'::text])))
  constraint approvals_pkey PRIMARY KEY (id)
  CREATE INDEX approvals_by_run ON public.approvals USING btree (run_id)
  CREATE INDEX approvals_by_subject ON public.approvals USING btree (subject_id) WHERE (subject_id IS NOT NULL)
  CREATE INDEX approvals_due ON public.approvals USING btree (expires_at) WHERE (status = 'pending'::text)
  CREATE INDEX approvals_edited ON public.approvals USING btree (tool_call_id) WHERE (original_arguments IS NOT NULL)
  CREATE INDEX approvals_open ON public.approvals USING btree (tenant_id, id DESC) WHERE (status = 'pending'::text)
  CREATE INDEX approvals_page ON public.approvals USING btree (tenant_id, id DESC)
  policy maintenance_find_due_approvals for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant select to drover_maintenance

table audit_heads row level security forced
  comment 'No content of runs: a hash'
  tenant_id uuid not null
  seq bigint not null
  hash text not null
  constraint audit_heads_pkey PRIMARY KEY (tenant_id)
  policy maintenance_audit_head_making for insert to drover_maintenance with check true
  policy maintenance_audit_head_moving for update to drover_maintenance using true
  policy maintenance_audit_head_reading for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant insert, select, update to drover_maintenance

table audit_log row level security forced
  comment 'No content of runs: ids, names, outcomes and digests; its chain stays verifiable'
  id uuid not null
  tenant_id uuid not null
  workspace_id uuid
  action text not null
  actor_type text not null
  actor_id uuid
  target_type text not null
  target_id text
  digest text
  details jsonb not null default '{}'::jsonb
  ip text
  forwarded_for text
  request_id text
  created_at timestamp with time zone not null default now()
  seq bigint
  hash text
  constraint audit_log_actor_type_check CHECK ((actor_type = ANY (ARRAY['api_key'::text, 'operator'::text, 'system'::text])))
  constraint audit_log_pkey PRIMARY KEY (id)
  CREATE UNIQUE INDEX audit_log_chain ON public.audit_log USING btree (tenant_id, seq) WHERE (seq IS NOT NULL)
  CREATE INDEX audit_log_newest ON public.audit_log USING btree (tenant_id, created_at DESC, id DESC)
  CREATE INDEX audit_log_newest_of_action ON public.audit_log USING btree (tenant_id, action, created_at DESC, id DESC)
  CREATE INDEX audit_log_newest_of_actor ON public.audit_log USING btree (tenant_id, actor_id, created_at DESC, id DESC)
  CREATE INDEX audit_log_newest_of_target ON public.audit_log USING btree (tenant_id, target_id, created_at DESC, id DESC)
  CREATE INDEX audit_log_unsealed ON public.audit_log USING btree (tenant_id, id) WHERE (seq IS NULL)
  policy maintenance_audit_reading for select to drover_maintenance using true
  policy maintenance_audit_sealing for update to drover_maintenance using (seq IS NULL) with check ((seq IS NOT NULL) AND (hash IS NOT NULL))
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant select to drover_app
  grant select to drover_maintenance

table budget_usage row level security forced
  budget_id uuid not null
  period_start date not null
  tenant_id uuid not null
  tokens numeric not null
  cost_usd numeric not null
  steps bigint not null
  constraint budget_usage_budget_id_fkey FOREIGN KEY (budget_id) REFERENCES budgets(id) ON DELETE CASCADE
  constraint budget_usage_pkey PRIMARY KEY (budget_id, period_start)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table budgets row level security forced
  comment 'No content of runs: what a tenant has set up, not what was said in a run'
  id uuid not null
  tenant_id uuid not null
  workspace_id uuid
  agent_id uuid
  name text not null
  period text not null
  max_tokens bigint
  max_cost_usd numeric
  soft_limit numeric
  on_soft_limit text
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  constraint budgets_on_soft_limit_check CHECK ((on_soft_limit = ANY (ARRAY['warn'::text, 'ask'::text])))
  constraint budgets_period_check CHECK ((period = ANY (ARRAY['day'::text, 'month'::text, 'total'::text])))
  constraint budgets_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint budgets_pkey PRIMARY KEY (id)
  CREATE INDEX budgets_page ON public.budgets USING btree (tenant_id, id)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table checkpoints partition by RANGE (run_id) row level security forced
  tenant_id uuid not null
  run_id uuid not null
  seq bigint not null
  id uuid not null
  parent_id uuid
  node text not null
  trigger checkpoint_trigger not null
  lineage uuid not null
  length integer not null
  state jsonb not null
  channel_versions jsonb not null
  pending_sends jsonb not null
  hash text not null
  created_at timestamp with time zone not null
  constraint checkpoints_pkey PRIMARY KEY (run_id, seq)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant insert, select to drover_app

table checkpoints_default partition of checkpoints DEFAULT

table due_titles row level security forced
  thread_id uuid not null
  tenant_id uuid not null
  due_at timestamp with time zone not null
  attempts integer not null default 0
  constraint due_titles_pkey PRIMARY KEY (thread_id)
  CREATE INDEX due_titles_by_tenant ON public.due_titles USING btree (tenant_id, due_at)
  CREATE INDEX due_titles_due ON public.due_titles USING btree (due_at)
  policy maintenance_take_due_titles for all to drover_maintenance using true with check true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant select, update to drover_maintenance

table embedding_lengths row level security forced
  comment 'No content of runs: names of models'
  model text not null
  length integer not null
  seen_at timestamp with time zone not null
  constraint embedding_lengths_pkey PRIMARY KEY (model)
  policy maintenance_embeds for all to drover_maintenance using true with check true
  grant insert, select, update to drover_maintenance

table embedding_settings row level security forced
  comment 'No content of runs: names of models'
  model text not null
  has_key boolean not null
  seen_at timestamp with time zone not null
  constraint embedding_settings_pkey PRIMARY KEY (model, has_key)
  policy maintenance_embeds for all to drover_maintenance using true with check true
  grant insert, select, update to drover_maintenance

table erasures row level security forced
  comment 'No content of runs: ids of what goes, and who asked for it'
  kind text not null
  id uuid not null
  tenant_id uuid not null
  dependents boolean not null
  asked_by jsonb not null
  due_at timestamp with time zone not null default (clock_timestamp() + '00:01:00'::interval)
  constraint erasures_kind_check CHECK ((kind = ANY (ARRAY['run'::text, 'thread'::text])))
  constraint erasures_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint erasures_pkey PRIMARY KEY (kind, id)
  CREATE INDEX erasures_due ON public.erasures USING btree (due_at)
  policy maintenance_takes_erasures for all to drover_maintenance using true with check true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant select, update to drover_maintenance

table file_contents row level security forced
  comment 'No content of runs: digests, sizes and states'
  id uuid not null
  tenant_id uuid not null
  state file_content_state not null
  sha256 text
  size bigint
  changed_at timestamp with time zone not null default now()
  constraint file_contents_pkey PRIMARY KEY (id)
  CREATE UNIQUE INDEX file_contents_stored ON public.file_contents USING btree (tenant_id, sha256) WHERE ((state)::text = 'stored'::text)
  CREATE INDEX file_contents_to_sweep ON public.file_contents USING btree (changed_at) WHERE ((state)::text <> 'stored'::text)
  policy maintenance_finds_garbage for all to drover_maintenance using ((state)::text <> 'stored'::text)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant select to drover_maintenance

table file_usage row level security forced
  tenant_id uuid not null
  bytes bigint not null default 0
  constraint file_usage_pkey PRIMARY KEY (tenant_id)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table file_uses row level security forced
  tenant_id uuid not null
  run_id uuid not null
  file_id uuid not null
  created_at timestamp with time zone not null default now()
  constraint file_uses_file_id_fkey FOREIGN KEY (file_id) REFERENCES files(id) ON DELETE CASCADE
  constraint file_uses_pkey PRIMARY KEY (run_id, file_id)
  CREATE INDEX file_uses_by_file ON public.file_uses USING btree (file_id)
  CREATE INDEX file_uses_by_time ON public.file_uses USING btree (created_at)
  policy maintenance_finds_uses for all to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant select to drover_maintenance

table files row level security forced
  id uuid not null
  tenant_id uuid not null
  workspace_id uuid not null
  thread_id uuid
  run_id uuid
  content_id uuid not null
  sha256 text not null
  size bigint not null
  filename text not null
  mime_type text not null
  origin file_origin not null
  trust trust not null
  created_at timestamp with time zone not null default now()
  is_utf8 boolean
  pages integer
  constraint files_content_id_fkey FOREIGN KEY (content_id) REFERENCES file_contents(id)
  constraint files_pkey PRIMARY KEY (id)
  CREATE INDEX files_by_content ON public.files USING btree (content_id)
  CREATE INDEX files_by_run ON public.files USING btree (run_id, id DESC) WHERE (run_id IS NOT NULL)
  CREATE INDEX files_by_thread ON public.files USING btree (thread_id, id DESC) WHERE (thread_id IS NOT NULL)
  CREATE INDEX files_page ON public.files USING btree (tenant_id, workspace_id, id DESC)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table handoffs row level security forced
  id uuid not null
  tenant_id uuid not null
  workspace_id uuid not null
  task_id uuid
  workflow_id uuid
  source_agent_id uuid not null
  target_agent_id uuid not null
  source_run_id uuid
  tool_call_id uuid
  previous_id uuid
  place integer not null
  carried_by text not null
  status text not null
  reason text not null
  urgency text not null
  expected_action text
  context jsonb not null
  schema_version text not null
  checksum text not null
  target_tokens integer not null
  summary jsonb not null
  summary_tokens integer not null
  full_tokens integer not null
  requested_by uuid
  target_run_id uuid
  rejection jsonb
  returned_run_id uuid
  estimated_pickup timestamp with time zone
  created_at timestamp with time zone not null default clock_timestamp()
  accepted_at timestamp with time zone
  completed_at timestamp with time zone
  constraint handoffs_carried_by_check CHECK ((carried_by = ANY (ARRAY['workflow'::text, 'thread'::text, 'run'::text])))
  constraint handoffs_status_check CHECK ((status = ANY (ARRAY['initiated'::text, 'accepted'::text, 'completed'::text, 'rejected'::text, 'failed'::text, 'cancelled'::text])))
  constraint handoffs_urgency_check CHECK ((urgency = ANY (ARRAY['low'::text, 'medium'::text, 'high'::text, 'critical'::text])))
  constraint handoffs_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint handoffs_pkey PRIMARY KEY (id)
  CREATE UNIQUE INDEX handoffs_by_call ON public.handoffs USING btree (tool_call_id) WHERE (tool_call_id IS NOT NULL)
  CREATE INDEX handoffs_by_returned_run ON public.handoffs USING btree (returned_run_id) WHERE (returned_run_id IS NOT NULL)
  CREATE INDEX handoffs_by_source ON public.handoffs USING btree (source_agent_id, created_at)
  CREATE INDEX handoffs_by_source_run ON public.handoffs USING btree (source_run_id) WHERE (source_run_id IS NOT NULL)
  CREATE INDEX handoffs_by_target_run ON public.handoffs USING btree (target_run_id) WHERE (target_run_id IS NOT NULL)
  CREATE INDEX handoffs_by_task ON public.handoffs USING btree (task_id, id) WHERE (task_id IS NOT NULL)
  CREATE INDEX handoffs_by_workflow ON public.handoffs USING btree (workflow_id) WHERE (workflow_id IS NOT NULL)
  CREATE INDEX handoffs_open ON public.handoffs USING btree (tenant_id, id) WHERE (completed_at IS NULL)
  CREATE INDEX handoffs_page ON public.handoffs USING btree (workspace_id, id DESC)
  policy maintenance_carry_handoffs for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table idempotency_keys row level security forced
  tenant_id uuid not null
  route text not null
  key text not null
  body_digest text not null
  status integer
  response jsonb
  created_at timestamp with time zone not null default now()
  shown_id text default (response ->> 'id'::text)
  constraint idempotency_keys_pkey PRIMARY KEY (tenant_id, route, key)
  CREATE INDEX idempotency_keys_age ON public.idempotency_keys USING btree (created_at)
  CREATE INDEX idempotency_keys_by_shown ON public.idempotency_keys USING btree (shown_id) WHERE (shown_id IS NOT NULL)
  policy maintenance_expire_keys for delete to drover_maintenance using true
  policy maintenance_find_old_keys for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant delete, select to drover_maintenance

view llm_calls {security_invoker=true}
  tenant_id uuid
  run_id uuid
  seq bigint
  turn_id uuid
  step integer
  provider text
  model text
  lineage uuid
  length integer
  stop_reason text
  tokens_in bigint
  tokens_out bigint
  usage jsonb
  recorded boolean
  cost_usd numeric
  latency_ms integer
  created_at timestamp with time zone
  grant select to drover_app

table maintenance_acts row level security forced
  comment 'No content of runs: names of acts'
  act text not null
  due_at timestamp with time zone not null
  constraint maintenance_acts_pkey PRIMARY KEY (act)
  policy maintenance_schedule for all to drover_maintenance using true with check true
  grant insert, select, update to drover_maintenance

table mcp_servers row level security forced
  comment 'No content of runs: what a tenant has set up, not what was said in a run'
  id uuid not null
  tenant_id uuid not null
  digest text not null
  address jsonb not null
  suspended_at timestamp with time zone
  created_at timestamp with time zone not null default now()
  constraint mcp_servers_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint mcp_servers_pkey PRIMARY KEY (id)
  constraint mcp_servers_tenant_id_digest_key UNIQUE (tenant_id, digest)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table memory_accesses row level security forced
  id uuid not null
  tenant_id uuid not null
  memory_id uuid not null
  agent_id uuid
  run_id uuid
  turn_id uuid
  operation text not null
  score double precision
  why jsonb
  accessed_at timestamp with time zone not null default now()
  constraint memory_accesses_operation_check CHECK ((operation = ANY (ARRAY['turn'::text, 'recall'::text, 'query'::text, 'write'::text, 'search'::text, 'resolve'::text])))
  constraint memory_accesses_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint memory_accesses_pkey PRIMARY KEY (id)
  CREATE INDEX memory_accesses_age ON public.memory_accesses USING btree (accessed_at) WHERE (run_id IS NULL)
  CREATE INDEX memory_accesses_of ON public.memory_accesses USING btree (memory_id, id)
  CREATE INDEX memory_accesses_run ON public.memory_accesses USING btree (run_id) WHERE (run_id IS NOT NULL)
  policy maintenance_forget_accesses for all to drover_maintenance using true with check true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant delete, select to drover_maintenance

table memory_archive row level security forced
  id uuid not null
  tenant_id uuid not null
  agent_id uuid not null
  root_id uuid not null
  run_id uuid
  entry jsonb not null
  reason text not null
  archived_at timestamp with time zone not null default now()
  expires_at timestamp with time zone
  thread_id text default (entry ->> 'thread_id'::text)
  constraint memory_archive_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint memory_archive_pkey PRIMARY KEY (id)
  CREATE INDEX memory_archive_by_run ON public.memory_archive USING btree (run_id) WHERE (run_id IS NOT NULL)
  CREATE INDEX memory_archive_by_thread ON public.memory_archive USING btree (thread_id) WHERE (thread_id IS NOT NULL)
  CREATE INDEX memory_archive_expiry ON public.memory_archive USING btree (expires_at) WHERE (expires_at IS NOT NULL)
  CREATE INDEX memory_archive_page ON public.memory_archive USING btree (agent_id, id)
  policy maintenance_finds_expired for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table memory_checks row level security forced
  comment 'No content of runs: ids and times'
  subject_id uuid not null
  tenant_id uuid not null
  subject_type text not null
  owner_id uuid not null
  due_at timestamp with time zone not null default now()
  attempts integer not null default 0
  constraint memory_checks_subject_type_check CHECK ((subject_type = ANY (ARRAY['fragment'::text, 'memory'::text])))
  constraint memory_checks_pkey PRIMARY KEY (subject_id)
  CREATE INDEX memory_checks_due ON public.memory_checks USING btree (due_at)
  CREATE INDEX memory_checks_of_tenant ON public.memory_checks USING btree (tenant_id, due_at)
  policy maintenance_finds_checks for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant select to drover_maintenance

table memory_consolidations row level security forced
  comment 'No content of runs: ids, numbers and settings'
  id uuid not null
  tenant_id uuid not null
  agent_id uuid not null
  strategy text not null
  inputs jsonb not null
  diff jsonb not null
  consolidated integer not null
  evicted integer not null
  key_id uuid
  created_at timestamp with time zone not null default now()
  reverted_at timestamp with time zone
  reverted_by uuid
  constraint memory_consolidations_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint memory_consolidations_pkey PRIMARY KEY (id)
  CREATE INDEX memory_consolidations_page ON public.memory_consolidations USING btree (agent_id, id)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table memory_entries row level security forced
  id uuid not null
  tenant_id uuid not null
  agent_id uuid not null
  thread_id text
  memory_type text not null
  content text not null
  content_hash text not null
  summary text
  status text not null default 'active'::text
  origin text not null
  run_id uuid
  turn_id uuid
  seq integer
  key_id uuid
  root_id uuid not null
  version integer not null default 1
  supersedes uuid
  superseded_by uuid
  reason text
  made_from uuid[]
  importance double precision not null default 0.5
  relevance_score double precision not null default 0.5
  metadata jsonb not null default '{}'::jsonb
  tokens integer not null
  is_profile boolean not null default false
  access_count integer not null default 0
  last_accessed timestamp with time zone
  valid_from timestamp with time zone
  valid_to timestamp with time zone
  expires_at timestamp with time zone
  embedding vector
  embedding_model text
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  user_id text
  constraint memory_entries_memory_type_check CHECK ((memory_type = ANY (ARRAY['SHORT_TERM'::text, 'EPISODIC'::text, 'SEMANTIC'::text, 'PROCEDURAL'::text])))
  constraint memory_entries_origin_check CHECK ((origin = ANY (ARRAY['user'::text, 'agent'::text, 'tool'::text, 'web'::text, 'memory'::text])))
  constraint memory_entries_status_check CHECK ((status = ANY (ARRAY['active'::text, 'superseded'::text, 'disputed'::text, 'archived'::text])))
  constraint memory_entries_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint memory_entries_pkey PRIMARY KEY (id)
  CREATE INDEX memory_entries_by_thread ON public.memory_entries USING btree (thread_id) WHERE (thread_id IS NOT NULL)
  CREATE INDEX memory_entries_expiry ON public.memory_entries USING btree (expires_at) WHERE (expires_at IS NOT NULL)
  CREATE INDEX memory_entries_hash ON public.memory_entries USING btree (tenant_id, content_hash)
  CREATE INDEX memory_entries_listed ON public.memory_entries USING btree (agent_id, status, importance DESC, id)
  CREATE INDEX memory_entries_live ON public.memory_entries USING btree (agent_id, id) WHERE (status = ANY (ARRAY['active'::text, 'disputed'::text]))
  CREATE INDEX memory_entries_lost ON public.memory_entries USING btree (agent_id) WHERE (superseded_by IS NOT NULL)
  CREATE INDEX memory_entries_made ON public.memory_entries USING btree (agent_id) WHERE (made_from IS NOT NULL)
  CREATE INDEX memory_entries_model ON public.memory_entries USING btree (agent_id, embedding_model) WHERE ((status = ANY (ARRAY['active'::text, 'disputed'::text])) AND (embedding IS NOT NULL))
  CREATE INDEX memory_entries_near_offline ON public.memory_entries USING hnsw (((embedding)::vector(512)) vector_cosine_ops) WHERE ((embedding_model = 'offline'::text) AND (status = ANY (ARRAY['active'::text, 'disputed'::text])))
  CREATE INDEX memory_entries_of_user ON public.memory_entries USING btree (agent_id, user_id, status, importance DESC, id)
  CREATE INDEX memory_entries_profile ON public.memory_entries USING btree (agent_id) WHERE (is_profile AND (status = ANY (ARRAY['active'::text, 'disputed'::text])))
  CREATE INDEX memory_entries_refused ON public.memory_entries USING btree (agent_id, embedding_model) WHERE ((embedding IS NULL) AND (embedding_model IS NOT NULL) AND (status = ANY (ARRAY['active'::text, 'disputed'::text])))
  CREATE INDEX memory_entries_root ON public.memory_entries USING btree (root_id)
  CREATE INDEX memory_entries_run ON public.memory_entries USING btree (run_id) WHERE (run_id IS NOT NULL)
  CREATE INDEX memory_entries_short ON public.memory_entries USING btree (created_at) WHERE ((memory_type = 'SHORT_TERM'::text) AND (status = ANY (ARRAY['active'::text, 'disputed'::text])))
  CREATE INDEX memory_entries_thread ON public.memory_entries USING btree (agent_id, thread_id, id)
  CREATE INDEX memory_entries_top ON public.memory_entries USING btree (agent_id, memory_type, importance DESC, id)
  CREATE INDEX memory_entries_unembedded ON public.memory_entries USING btree (agent_id, id) WHERE ((embedding_model IS NULL) AND (status = ANY (ARRAY['active'::text, 'disputed'::text])))
  policy maintenance_finds_unembedded for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table memory_extractions row level security forced
  turn_id uuid not null
  tenant_id uuid not null
  agent_id uuid not null
  run_id uuid not null
  status text not null default 'due'::text
  due_at timestamp with time zone not null default now()
  attempts integer not null default 0
  made_by text
  added uuid[] not null default '{}'::uuid[]
  superseded uuid[] not null default '{}'::uuid[]
  refused jsonb not null default '{}'::jsonb
  created_at timestamp with time zone not null default now()
  finished_at timestamp with time zone
  constraint memory_extractions_made_by_check CHECK ((made_by = ANY (ARRAY['model'::text, 'rules'::text])))
  constraint memory_extractions_status_check CHECK ((status = ANY (ARRAY['due'::text, 'done'::text])))
  constraint memory_extractions_pkey PRIMARY KEY (turn_id)
  CREATE INDEX memory_extractions_age ON public.memory_extractions USING btree (finished_at) WHERE ((status = 'done'::text) AND (added = '{}'::uuid[]) AND (superseded = '{}'::uuid[]))
  CREATE INDEX memory_extractions_due ON public.memory_extractions USING btree (due_at) WHERE (status = 'due'::text)
  CREATE INDEX memory_extractions_of_tenant ON public.memory_extractions USING btree (tenant_id, due_at) WHERE (status = 'due'::text)
  CREATE INDEX memory_extractions_page ON public.memory_extractions USING btree (agent_id, turn_id)
  CREATE INDEX memory_extractions_run ON public.memory_extractions USING btree (run_id)
  policy maintenance_finds_extractions for select to drover_maintenance using true
  policy maintenance_forget_extractions for delete to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant delete, select to drover_maintenance

table memory_forgettings row level security forced
  comment 'No content of runs: ids alone'
  id uuid not null
  tenant_id uuid not null
  memories uuid[] not null
  runs uuid[] not null
  calls uuid[] not null
  told uuid[] not null
  created_at timestamp with time zone not null default clock_timestamp()
  due_at timestamp with time zone not null default (clock_timestamp() + '00:01:00'::interval)
  constraint memory_forgettings_pkey PRIMARY KEY (id)
  CREATE INDEX memory_forgettings_due ON public.memory_forgettings USING btree (due_at)
  CREATE INDEX memory_forgettings_told ON public.memory_forgettings USING btree (tenant_id) WHERE (told <> '{}'::uuid[])
  policy maintenance_finds_forgettings for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table memory_fragment_versions row level security forced
  comment 'No content of runs: what clients have put into a shared space, where it is deleted'
  tenant_id uuid not null
  fragment_id uuid not null
  version integer not null
  content jsonb not null
  provenance jsonb not null
  created_at timestamp with time zone not null default now()
  constraint memory_fragment_versions_fragment_id_fkey FOREIGN KEY (fragment_id) REFERENCES memory_fragments(id) ON DELETE CASCADE
  constraint memory_fragment_versions_pkey PRIMARY KEY (fragment_id, version)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table memory_fragments row level security forced
  comment 'No content of runs: what clients have put into a shared space, where it is deleted'
  id uuid not null
  tenant_id uuid not null
  space_id uuid not null
  content jsonb not null
  words text not null
  version integer not null default 1
  visibility text not null
  allowed_agents text[] not null default '{}'::text[]
  denied_agents text[] not null default '{}'::text[]
  created_by_agent text
  provenance jsonb not null
  requires_resolution boolean not null default false
  retention_policy text
  expires_at timestamp with time zone
  last_accessed timestamp with time zone
  embedding vector
  embedding_model text
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  constraint memory_fragments_visibility_check CHECK ((visibility = ANY (ARRAY['private'::text, 'team'::text, 'workflow'::text, 'global'::text])))
  constraint memory_fragments_space_id_fkey FOREIGN KEY (space_id) REFERENCES memory_spaces(id)
  constraint memory_fragments_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint memory_fragments_pkey PRIMARY KEY (id)
  CREATE INDEX memory_fragments_expiry ON public.memory_fragments USING btree (expires_at) WHERE (expires_at IS NOT NULL)
  CREATE INDEX memory_fragments_model ON public.memory_fragments USING btree (space_id, embedding_model) WHERE (embedding IS NOT NULL)
  CREATE INDEX memory_fragments_near_offline ON public.memory_fragments USING hnsw (((embedding)::vector(512)) vector_cosine_ops) WHERE (embedding_model = 'offline'::text)
  CREATE INDEX memory_fragments_page ON public.memory_fragments USING btree (space_id, created_at, id)
  CREATE INDEX memory_fragments_refused ON public.memory_fragments USING btree (space_id, embedding_model) WHERE ((embedding IS NULL) AND (embedding_model IS NOT NULL))
  CREATE INDEX memory_fragments_unembedded ON public.memory_fragments USING btree (space_id, id) WHERE (embedding_model IS NULL)
  policy maintenance_finds_expired_fragments for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table memory_models row level security forced
  comment 'No content of runs: ids and names of models'
  agent_id uuid not null
  model text not null
  tenant_id uuid not null
  wanted text not null
  tried_at timestamp with time zone
  constraint memory_models_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint memory_models_pkey PRIMARY KEY (agent_id, model)
  CREATE INDEX memory_models_pairs ON public.memory_models USING btree (wanted, model, agent_id)
  policy maintenance_finds_models for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant select to drover_maintenance

table memory_spaces row level security forced
  comment 'No content of runs: what a tenant has set up, not what was said in a run'
  id uuid not null
  tenant_id uuid not null
  workspace_id uuid not null
  name text
  team_id text
  workflow_id text
  scope text not null
  allowed_agents text[] not null default '{}'::text[]
  denied_agents text[] not null default '{}'::text[]
  max_fragments integer
  retention_policy text
  created_at timestamp with time zone not null default now()
  conflict_check text not null default 'off'::text
  is_of_team boolean not null default false
  fragment_count integer
  constraint memory_spaces_conflict_check_check CHECK ((conflict_check = ANY (ARRAY['off'::text, 'rules'::text, 'model'::text])))
  constraint memory_spaces_scope_check CHECK ((scope = ANY (ARRAY['private'::text, 'team'::text, 'workflow'::text, 'global'::text])))
  constraint memory_spaces_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint memory_spaces_pkey PRIMARY KEY (id)
  CREATE INDEX memory_spaces_by_team ON public.memory_spaces USING btree (team_id) WHERE is_of_team
  CREATE INDEX memory_spaces_page ON public.memory_spaces USING btree (workspace_id, id)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table memory_terms row level security forced
  tenant_id uuid not null
  owner_id uuid not null
  term text not null
  entry_id uuid not null
  tf smallint not null
  len smallint not null
  constraint memory_terms_pkey PRIMARY KEY (owner_id, term, entry_id)
  CREATE INDEX memory_terms_entry ON public.memory_terms USING btree (entry_id)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table messages partition by RANGE (lineage) row level security forced
  tenant_id uuid not null
  lineage uuid not null
  ordinal integer not null
  run_id uuid not null
  role message_role not null
  content jsonb not null
  chain text not null
  created_at timestamp with time zone not null
  origin message_origin
  trust trust
  constraint messages_pkey PRIMARY KEY (lineage, ordinal)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant insert, select to drover_app

table messages_default partition of messages DEFAULT

table metadata_entries row level security forced
  tenant_id uuid not null
  entry uuid not null
  id uuid not null
  constraint metadata_entries_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint metadata_entries_pkey PRIMARY KEY (tenant_id, entry, id)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table model_outages row level security forced
  comment 'No content of runs: names of models, and what their providers said of themselves'
  name text not null
  since timestamp with time zone not null
  failures integer not null
  next_at timestamp with time zone not null
  error jsonb not null
  probing_run uuid
  probing_until timestamp with time zone
  constraint model_outages_pkey PRIMARY KEY (name)
  policy maintenance_end_outages for all to drover_maintenance using true with check true
  policy one_for_all for all to drover_app using true with check true
  grant delete, insert, select, update to drover_app
  grant delete, select, update to drover_maintenance

table model_rates row level security forced
  comment 'No content of runs: names of models'
  name text not null
  closed_until timestamp with time zone not null
  requests_until timestamp with time zone not null
  tokens_until timestamp with time zone not null
  constraint model_rates_pkey PRIMARY KEY (name)
  policy one_for_all for all to drover_app using true with check true
  grant insert, select, update to drover_app

table objectives row level security forced
  tenant_id uuid not null
  request_id text not null
  body_digest text not null
  run_id uuid
  created_at timestamp with time zone not null default now()
  constraint objectives_pkey PRIMARY KEY (tenant_id, request_id)
  CREATE INDEX objectives_of_run ON public.objectives USING btree (run_id)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table outbox row level security forced
  comment 'No content of runs: ids alone'
  id uuid not null
  tenant_id uuid not null
  queue text not null
  job_id text not null
  payload jsonb not null
  created_at timestamp with time zone not null default now()
  not_before timestamp with time zone
  parent jsonb
  constraint outbox_pkey PRIMARY KEY (id)
  policy maintenance_outbox_sent for delete to drover_maintenance using true
  policy maintenance_outbox_sweep for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant delete, select to drover_maintenance

table own_model_calls row level security forced
  comment 'No content of runs: ids, names of models, sums and a state'
  id uuid not null
  tenant_id uuid not null
  workspace_id uuid not null
  agent_id uuid
  thread_id uuid
  run_id uuid
  purpose text not null
  provider text not null
  model text not null
  state text not null
  tokens_in bigint not null default 0
  tokens_out bigint not null default 0
  usage jsonb
  cost_usd numeric
  error_code text
  created_at timestamp with time zone not null default clock_timestamp()
  settled_at timestamp with time zone
  lease_expires_at timestamp with time zone
  constraint own_model_calls_state_check CHECK ((state = ANY (ARRAY['open'::text, 'settled'::text, 'estimated'::text, 'released'::text])))
  constraint own_model_calls_pkey PRIMARY KEY (id)
  CREATE INDEX own_model_calls_age ON public.own_model_calls USING btree (created_at)
  CREATE INDEX own_model_calls_by_run ON public.own_model_calls USING btree (run_id) WHERE (run_id IS NOT NULL)
  CREATE INDEX own_model_calls_by_thread ON public.own_model_calls USING btree (thread_id) WHERE (thread_id IS NOT NULL)
  CREATE INDEX own_model_calls_open ON public.own_model_calls USING btree (tenant_id, created_at) WHERE (state = 'open'::text)
  CREATE INDEX own_model_calls_page ON public.own_model_calls USING btree (tenant_id, created_at DESC)
  policy maintenance_forget_own_calls for all to drover_maintenance using true with check true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant delete, select to drover_maintenance

table parked_runs row level security forced
  comment 'No content of runs: ids and names of models'
  run_id uuid not null
  outage text not null
  tenant_id uuid not null
  parked_at timestamp with time zone not null
  until timestamp with time zone not null
  constraint parked_runs_pkey PRIMARY KEY (run_id, outage)
  CREATE INDEX parked_runs_by_outage ON public.parked_runs USING btree (outage, parked_at)
  CREATE INDEX parked_runs_due ON public.parked_runs USING btree (until)
  policy maintenance_find_parked_runs for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant select to drover_maintenance

table plans row level security forced
  id uuid not null
  tenant_id uuid not null
  run_id uuid not null
  turn_id uuid not null
  step integer not null
  purpose text not null
  max_risk_level text not null
  auto_executing boolean not null
  status text not null
  steps jsonb not null
  approval_id uuid
  reason text
  created_at timestamp with time zone not null
  approved_at timestamp with time zone
  started_at timestamp with time zone
  completed_at timestamp with time zone
  constraint plans_status_check CHECK ((status = ANY (ARRAY['proposed'::text, 'approved'::text, 'rejected'::text, 'executing'::text, 'completed'::text, 'completed_with_errors'::text])))
  constraint plans_pkey PRIMARY KEY (id)
  CREATE INDEX plans_by_run ON public.plans USING btree (run_id, turn_id)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table policies row level security forced
  comment 'No content of runs: what a tenant has set up, not what was said in a run'
  id uuid not null
  tenant_id uuid not null
  name text not null
  status text not null
  current_version integer not null
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  constraint policies_status_check CHECK ((status = ANY (ARRAY['active'::text, 'deleted'::text])))
  constraint policies_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint policies_pkey PRIMARY KEY (id)
  CREATE UNIQUE INDEX policies_name ON public.policies USING btree (tenant_id, name) WHERE (status = 'active'::text)
  CREATE INDEX policies_page ON public.policies USING btree (tenant_id, id)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table policy_decisions row level security forced
  tenant_id uuid not null
  run_id uuid not null
  seq bigint not null
  turn_id uuid
  tool_call_id uuid not null
  decision text not null
  stage text not null
  policy_id uuid
  policy_version integer
  reason text not null
  created_at timestamp with time zone not null
  constraint policy_decisions_decision_check CHECK ((decision = ANY (ARRAY['allow'::text, 'block'::text, 'rewrite'::text, 'require_approval'::text])))
  constraint policy_decisions_pkey PRIMARY KEY (run_id, seq)
  CREATE INDEX policy_decisions_by_policy ON public.policy_decisions USING btree (policy_id, created_at) WHERE (policy_id IS NOT NULL)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table policy_versions row level security forced
  comment 'No content of runs: what a tenant has set up, not what was said in a run'
  policy_id uuid not null
  version integer not null
  tenant_id uuid not null
  definition jsonb not null
  created_by uuid not null
  created_at timestamp with time zone not null default now()
  constraint policy_versions_policy_id_fkey FOREIGN KEY (policy_id) REFERENCES policies(id)
  constraint policy_versions_pkey PRIMARY KEY (policy_id, version)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant insert, select to drover_app

table rate_counts row level security forced
  comment 'No content of runs: ids, digests and counts'
  name text not null
  used integer not null
  until timestamp with time zone not null
  seconds bigint[]
  counts integer[]
  constraint rate_counts_pkey PRIMARY KEY (name)
  policy maintenance_forget_rate_counts for all to drover_maintenance using true with check true
  policy one_for_all for all to drover_app using true with check true
  grant insert, select, update to drover_app
  grant delete, select to drover_maintenance

table reservations row level security forced
  comment 'No content of runs: sums and a state'
  run_id uuid not null
  step integer not null
  fence integer not null
  tenant_id uuid not null
  workspace_id uuid not null
  agent_id uuid not null
  root_run_id uuid not null
  state reservation_state not null
  tokens bigint not null
  cost_usd numeric
  rolled_up boolean not null default false
  created_at timestamp with time zone not null
  settled_at timestamp with time zone
  chain uuid[]
  constraint reservations_pkey PRIMARY KEY (run_id, step, fence)
  CREATE INDEX reservations_by_root ON public.reservations USING btree (root_run_id)
  CREATE INDEX reservations_fresh ON public.reservations USING btree (tenant_id) WHERE (NOT rolled_up)
  CREATE INDEX reservations_open ON public.reservations USING btree (created_at) WHERE ((state)::text = 'open'::text)
  policy maintenance_find_reservations for select to drover_maintenance using true
  policy maintenance_forget_reservations for delete to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant delete, select to drover_maintenance

view run_events {security_invoker=true}
  comment 'commit_seq: of the last event of the same commit, by which the log is indexed'
  tenant_id uuid
  workspace_id uuid
  run_id uuid
  seq bigint
  turn_id uuid
  step integer
  type text
  schema_version integer
  actor text
  payload jsonb
  occurred_at timestamp with time zone
  commit_seq bigint
  grant insert, select to drover_app

table run_log partition by RANGE (run_id) row level security forced
  tenant_id uuid not null
  workspace_id uuid not null
  run_id uuid not null
  seq bigint not null
  turn_id uuid
  step integer
  type text
  schema_version integer
  actor text
  payload jsonb
  occurred_at timestamp with time zone not null
  event_count integer
  events text
  constraint run_log_pkey PRIMARY KEY (run_id, seq)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant insert, select to drover_app

table run_log_default partition of run_log DEFAULT

table runs row level security forced
  id uuid not null
  tenant_id uuid not null
  workspace_id uuid not null
  agent_id uuid not null
  agent_version text not null
  thread_id uuid not null
  kind run_kind not null
  status run_status not null
  waiting_for jsonb
  idle_since timestamp with time zone
  open_turn_id uuid
  turn_count integer not null
  stop_reason text
  error jsonb
  output_ordinal integer
  keep_open boolean not null
  lineage uuid not null
  lineage_base jsonb not null
  base_length integer not null
  length integer not null
  steps integer not null
  tokens_in bigint not null
  tokens_out bigint not null
  cost_usd numeric
  parent_run_id uuid
  root_run_id uuid
  parent_task_id uuid
  depth integer not null
  forked_from_run_id uuid
  forked_at_seq bigint
  retried_from uuid
  traceparent text
  created_at timestamp with time zone not null
  started_at timestamp with time zone
  completed_at timestamp with time zone
  updated_at timestamp with time zone not null
  last_seq bigint not null
  fence integer not null
  checkpoint_seq bigint
  driver_lease_expires_at timestamp with time zone
  dormant boolean not null
  thread_place integer
  output_bytes bigint not null default 0
  erased_at timestamp with time zone
  queued jsonb
  dequeued_id uuid
  rolled_up boolean default false
  structured text
  trust trust
  metadata jsonb
  config jsonb not null
  pinned jsonb not null
  lost_leases integer not null default 0
  constraint runs_pkey PRIMARY KEY (id)
  CREATE INDEX runs_by_agent ON public.runs USING btree (agent_id, id DESC)
  CREATE INDEX runs_by_origin ON public.runs USING btree (forked_from_run_id) WHERE (forked_from_run_id IS NOT NULL)
  CREATE INDEX runs_by_parent ON public.runs USING btree (parent_run_id, id) WHERE (parent_run_id IS NOT NULL)
  CREATE INDEX runs_by_root ON public.runs USING btree (root_run_id, id) WHERE (parent_run_id IS NOT NULL)
  CREATE INDEX runs_by_status ON public.runs USING btree (tenant_id, status, id DESC)
  CREATE INDEX runs_counted_apart ON public.runs USING btree (thread_id, thread_place) WHERE ((turn_count <> 1) OR (forked_from_run_id IS NOT NULL))
  CREATE INDEX runs_dormant ON public.runs USING btree (COALESCE(((waiting_for ->> 'type'::text) = 'timer'::text), false), id DESC) WHERE ((open_turn_id IS NOT NULL) AND dormant)
  CREATE INDEX runs_idle ON public.runs USING btree (idle_since) WHERE (idle_since IS NOT NULL)
  CREATE INDEX runs_not_rolled_up ON public.runs USING btree (tenant_id, id) WHERE (NOT rolled_up)
  CREATE INDEX runs_of_thread ON public.runs USING btree (thread_id, thread_place)
  CREATE UNIQUE INDEX runs_one_unfinished ON public.runs USING btree (thread_id) WHERE (((status)::text <> ALL (ARRAY['completed'::text, 'failed'::text, 'cancelled'::text])) AND (parent_run_id IS NULL))
  CREATE INDEX runs_page ON public.runs USING btree (tenant_id, id DESC)
  CREATE INDEX runs_to_drive ON public.runs USING btree (id) WHERE ((open_turn_id IS NOT NULL) AND (NOT dormant))
  policy maintenance_reconcile_runs for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant select to drover_maintenance

table secrets row level security forced
  comment 'No content of runs: what a tenant has set up, not what was said in a run'
  tenant_id uuid not null
  name text not null
  key_id text not null
  sealed bytea not null
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  hosts text[]
  constraint secrets_hosts_check CHECK ((cardinality(hosts) > 0))
  constraint secrets_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint secrets_pkey PRIMARY KEY (tenant_id, name)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table sessions row level security forced
  id uuid not null
  tenant_id uuid not null
  workspace_id uuid not null
  agent_id uuid not null
  user_id text not null
  autonomy_level smallint not null
  context jsonb not null default '{}'::jsonb
  archived_at timestamp with time zone
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  constraint sessions_autonomy_level_check CHECK (((autonomy_level >= 0) AND (autonomy_level <= 3)))
  constraint sessions_id_fkey FOREIGN KEY (id) REFERENCES threads(id)
  constraint sessions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint sessions_pkey PRIMARY KEY (id)
  policy maintenance_look_for_streams for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table signals row level security forced
  run_id uuid not null
  id text not null
  tenant_id uuid not null
  type text not null
  created_at timestamp with time zone not null default now()
  digest text
  constraint signals_pkey PRIMARY KEY (run_id, id)
  policy maintenance_find_signals for select to drover_maintenance using true
  policy maintenance_forget_signals for delete to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant delete, select to drover_maintenance

table skills row level security forced
  comment 'No content of runs: what a tenant has set up, not what was said in a run'
  tenant_id uuid not null
  name text not null
  embedding vector
  embedding_model text
  tried_at timestamp with time zone
  constraint skills_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint skills_pkey PRIMARY KEY (tenant_id, name)
  CREATE INDEX skills_near ON public.skills USING hnsw (((embedding)::vector(512)) vector_cosine_ops) WHERE (embedding_model = 'offline'::text)
  CREATE INDEX skills_unembedded ON public.skills USING btree (tenant_id) WHERE (tried_at IS NULL)
  policy maintenance_embed_skills for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table tasks row level security forced
  id uuid not null
  tenant_id uuid not null
  workspace_id uuid not null
  workflow_id uuid
  name text not null
  place integer not null
  description text not null
  input jsonb
  requirements jsonb not null
  agent_id uuid
  dependencies uuid[] not null
  status text not null
  retry_count integer not null default 0
  failed_agents uuid[] not null default '{}'::uuid[]
  assigned_agent_id uuid
  assigned_at timestamp with time zone
  assignment_reason text
  run_id uuid
  approval_id uuid
  error jsonb
  tokens_used bigint
  latency_ms integer
  deadline timestamp with time zone
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  completed_at timestamp with time zone
  handoff_count integer not null default 0
  is_early boolean not null default false
  parent_run_id uuid
  parent_task_id uuid
  asked_at timestamp with time zone
  open_inputs integer
  dependents uuid[] not null default '{}'::uuid[]
  path integer not null default 1
  requested_by uuid
  constraint tasks_parent CHECK (((workflow_id IS NOT NULL) OR (parent_run_id IS NOT NULL)))
  constraint tasks_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'assigned'::text, 'in_progress'::text, 'awaiting_handoff'::text, 'completed'::text, 'failed'::text, 'cancelled'::text])))
  constraint tasks_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint tasks_pkey PRIMARY KEY (id)
  CREATE INDEX tasks_by_agent ON public.tasks USING btree (assigned_agent_id) WHERE (status = ANY (ARRAY['assigned'::text, 'in_progress'::text]))
  CREATE INDEX tasks_by_parent ON public.tasks USING btree (parent_run_id, status) WHERE (parent_run_id IS NOT NULL)
  CREATE INDEX tasks_by_run ON public.tasks USING btree (run_id) WHERE (run_id IS NOT NULL)
  CREATE INDEX tasks_by_workflow ON public.tasks USING btree (workflow_id, status)
  CREATE INDEX tasks_due ON public.tasks USING btree (deadline) WHERE ((deadline IS NOT NULL) AND (status = ANY (ARRAY['pending'::text, 'assigned'::text, 'in_progress'::text, 'awaiting_handoff'::text])))
  CREATE INDEX tasks_left ON public.tasks USING btree (workflow_id) WHERE (status <> 'completed'::text)
  CREATE INDEX tasks_open ON public.tasks USING btree (id) WHERE (status = ANY (ARRAY['assigned'::text, 'in_progress'::text]))
  CREATE INDEX tasks_overdue ON public.tasks USING btree (workflow_id, deadline) WHERE ((status = 'pending'::text) AND (deadline IS NOT NULL))
  CREATE INDEX tasks_page ON public.tasks USING btree (workspace_id, id DESC)
  CREATE INDEX tasks_ready ON public.tasks USING btree (workflow_id, deadline, path DESC, place) WHERE ((open_inputs = 0) AND (status = ANY (ARRAY['pending'::text, 'awaiting_handoff'::text])))
  CREATE INDEX tasks_under_way ON public.tasks USING btree (workflow_id) WHERE (status = ANY (ARRAY['assigned'::text, 'in_progress'::text, 'awaiting_handoff'::text, 'failed'::text, 'cancelled'::text]))
  policy maintenance_reconcile_tasks for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant select to drover_maintenance

table team_members row level security forced
  comment 'No content of runs: what a tenant has set up, not what was said in a run'
  team_id uuid not null
  agent_id uuid not null
  tenant_id uuid not null
  role text not null
  priority integer not null
  constraint team_members_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id)
  constraint team_members_team_id_fkey FOREIGN KEY (team_id) REFERENCES teams(id) ON DELETE CASCADE
  constraint team_members_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint team_members_pkey PRIMARY KEY (team_id, agent_id)
  CREATE INDEX team_members_by_agent ON public.team_members USING btree (agent_id)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table teams row level security forced
  comment 'No content of runs: what a tenant has set up, not what was said in a run'
  id uuid not null
  tenant_id uuid not null
  workspace_id uuid not null
  name text not null
  orchestration_pattern text not null
  supervisor_agent_id uuid
  config jsonb not null
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  constraint teams_orchestration_pattern_check CHECK ((orchestration_pattern = ANY (ARRAY['hierarchical'::text, 'parallel'::text, 'sequential'::text])))
  constraint teams_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint teams_pkey PRIMARY KEY (id)
  CREATE INDEX teams_by_supervisor ON public.teams USING btree (supervisor_agent_id)
  CREATE INDEX teams_page ON public.teams USING btree (workspace_id, id DESC)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table tenants row level security forced
  comment 'No content of runs: what a tenant has set up, not what was said in a run'
  id uuid not null
  name text not null
  plan_tier text not null default 'standard'::text
  settings jsonb not null default '{}'::jsonb
  policy_epoch bigint not null default 1
  suspended_by text
  created_at timestamp with time zone not null default now()
  constraint tenants_suspended_by_check CHECK ((suspended_by = ANY (ARRAY['operator'::text, 'tenant'::text])))
  constraint tenants_pkey PRIMARY KEY (id)
  policy maintenance_tenant_creation for insert to drover_maintenance with check true
  policy maintenance_tenant_lookup for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant insert, select to drover_maintenance

table threads row level security forced
  id uuid not null
  tenant_id uuid not null
  workspace_id uuid not null
  agent_id uuid not null
  created_at timestamp with time zone not null
  head_run_id uuid
  run_count integer not null default 0
  erased_at timestamp with time zone
  title text
  extras jsonb not null default '{}'::jsonb
  updated_at timestamp with time zone
  parent_run_id uuid
  metadata jsonb not null default '{}'::jsonb
  external_id text
  constraint threads_pkey PRIMARY KEY (id)
  CREATE UNIQUE INDEX threads_by_external_id ON public.threads USING btree (workspace_id, external_id) WHERE (external_id IS NOT NULL)
  CREATE INDEX threads_newest ON public.threads USING btree (workspace_id, created_at DESC, id DESC)
  CREATE INDEX threads_newest_of_agent ON public.threads USING btree (agent_id, created_at DESC, id DESC)
  policy maintenance_look_for_streams for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table tool_calls row level security forced
  id uuid not null
  tenant_id uuid not null
  run_id uuid not null
  turn_id uuid not null
  step integer not null
  place integer not null
  tool_use_id text not null
  tool_id uuid
  tool_version text
  name text not null
  mode call_mode not null
  arguments jsonb not null
  effect tool_effect not null
  idempotency_key text not null
  recorded_from uuid
  status call_status not null
  attempt integer not null
  lease_expires_at timestamp with time zone
  retry_at timestamp with time zone
  output jsonb
  is_error boolean
  error jsonb
  output_bytes integer
  latency_ms integer
  traceparent text
  created_at timestamp with time zone not null
  started_at timestamp with time zone
  finished_at timestamp with time zone
  model_output jsonb
  claim_id uuid
  trust trust
  tainted_by integer[]
  remote jsonb
  origin message_origin
  asked jsonb
  constraint tool_calls_pkey PRIMARY KEY (id)
  CREATE UNIQUE INDEX tool_calls_by_run ON public.tool_calls USING btree (run_id, step, place)
  CREATE INDEX tool_calls_queued ON public.tool_calls USING btree (run_id) WHERE (((mode)::text = 'queued'::text) AND ((status)::text = ANY (ARRAY['pending'::text, 'running'::text])))
  CREATE INDEX tool_calls_remote ON public.tool_calls USING btree (id) WHERE (remote IS NOT NULL)
  CREATE INDEX tool_calls_unsplit ON public.tool_calls USING btree (id) WHERE ((output_bytes > 1048576) AND (model_output IS NULL))
  policy maintenance_reconcile_calls for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant select to drover_maintenance

table tool_permissions row level security forced
  comment 'No content of runs: what a tenant has set up, not what was said in a run'
  tenant_id uuid not null
  name text not null
  tool_id uuid not null
  version text not null
  constraint tool_permissions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint tool_permissions_tool_id_fkey FOREIGN KEY (tool_id) REFERENCES tools(id)
  constraint tool_permissions_pkey PRIMARY KEY (tenant_id, name, tool_id, version)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant insert, select to drover_app

table tool_versions row level security forced
  comment 'No content of runs: what a tenant has set up, not what was said in a run'
  tool_id uuid not null
  version text not null
  ordinal integer not null
  tenant_id uuid not null
  definition jsonb not null
  content_hash text not null
  created_at timestamp with time zone not null default now()
  constraint tool_versions_tool_id_fkey FOREIGN KEY (tool_id) REFERENCES tools(id)
  constraint tool_versions_pkey PRIMARY KEY (tool_id, version)
  CREATE UNIQUE INDEX tool_versions_page ON public.tool_versions USING btree (tool_id, ordinal)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant insert, select to drover_app

table tools row level security forced
  comment 'No content of runs: what a tenant has set up, not what was said in a run'
  id uuid not null
  tenant_id uuid not null
  name text not null
  status text not null
  current_version text not null
  suspended_at timestamp with time zone
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  proposed jsonb
  constraint tools_status_check CHECK ((status = ANY (ARRAY['registered'::text, 'deleted'::text])))
  constraint tools_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint tools_pkey PRIMARY KEY (id)
  CREATE UNIQUE INDEX tools_name ON public.tools USING btree (tenant_id, name) WHERE (status = 'registered'::text)
  CREATE INDEX tools_page ON public.tools USING btree (tenant_id, id)
  CREATE INDEX tools_suspended ON public.tools USING btree (tenant_id) WHERE (suspended_at IS NOT NULL)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table turn_extras row level security forced
  turn_id uuid not null
  tenant_id uuid not null
  run_id uuid not null
  extras jsonb not null
  constraint turn_extras_pkey PRIMARY KEY (turn_id)
  CREATE INDEX turn_extras_run ON public.turn_extras USING btree (run_id)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table turns row level security forced
  id uuid not null
  tenant_id uuid not null
  run_id uuid not null
  number integer not null
  status turn_status not null
  output_ordinal integer
  stop_reason text
  error jsonb
  checkpoint_id uuid
  steps integer not null
  tokens_in bigint not null
  tokens_out bigint not null
  cost_usd numeric
  created_at timestamp with time zone not null
  completed_at timestamp with time zone
  structured text
  started_seq bigint
  failed_agent_id uuid
  input jsonb not null
  agent_id uuid
  constraint turns_pkey PRIMARY KEY (id)
  CREATE UNIQUE INDEX turns_by_run ON public.turns USING btree (run_id, number)
  CREATE INDEX turns_completed ON public.turns USING btree (id DESC) WHERE ((status)::text = ANY (ARRAY['complete'::text, 'cancelled'::text]))
  CREATE INDEX turns_failed ON public.turns USING btree (id DESC) WHERE ((status)::text = 'failed'::text)
  CREATE INDEX turns_failed_of_agent ON public.turns USING btree (failed_agent_id, completed_at DESC, id DESC) WHERE ((status)::text = 'failed'::text)
  CREATE INDEX turns_failed_of_tenant ON public.turns USING btree (tenant_id, completed_at DESC, id DESC) WHERE ((status)::text = 'failed'::text)
  CREATE INDEX turns_of_agent ON public.turns USING btree (agent_id, created_at DESC, id DESC) WHERE (agent_id IS NOT NULL)
  policy maintenance_queue_board for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table usage_daily row level security forced
  comment 'No content of runs: sums, and names of models and of registered tools'
  tenant_id uuid not null
  workspace_id uuid not null
  agent_id uuid not null
  day date not null
  kind text not null
  name text not null
  count bigint not null
  failed bigint not null
  turns bigint not null
  steps bigint not null
  tokens_in bigint not null
  tokens_out bigint not null
  cost_usd numeric not null
  duration_ms bigint not null
  unpriced bigint not null default 0
  constraint usage_daily_kind_check CHECK ((kind = ANY (ARRAY['run'::text, 'model'::text, 'tool'::text])))
  constraint usage_daily_pkey PRIMARY KEY (tenant_id, workspace_id, day, agent_id, kind, name)
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table waits row level security forced
  id uuid not null
  tenant_id uuid not null
  run_id uuid not null
  turn_id uuid not null
  type text not null
  name text
  until timestamp with time zone not null
  token_hash bytea
  token_key_id text
  token_sealed bytea
  created_at timestamp with time zone not null
  claimed_until timestamp with time zone
  closed_at timestamp with time zone
  constraint waits_type_check CHECK ((type = ANY (ARRAY['user'::text, 'webhook'::text, 'timer'::text, 'tool_results'::text, 'child'::text])))
  constraint waits_pkey PRIMARY KEY (id)
  CREATE INDEX waits_by_run ON public.waits USING btree (run_id)
  CREATE UNIQUE INDEX waits_by_token ON public.waits USING btree (token_hash) WHERE (token_hash IS NOT NULL)
  CREATE INDEX waits_due ON public.waits USING btree (until) WHERE (closed_at IS NULL)
  CREATE INDEX waits_for_children ON public.waits USING btree (id) WHERE ((closed_at IS NULL) AND (type = 'child'::text))
  policy maintenance_claim_due_waits for update to drover_maintenance using true
  policy maintenance_find_waits for select to drover_maintenance using true
  policy maintenance_forget_waits for delete to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant delete, select to drover_maintenance

table webhook_deliveries row level security forced
  id uuid not null
  tenant_id uuid not null
  webhook_id uuid not null
  run_id uuid
  seq bigint
  type text not null
  status text not null
  attempts integer not null default 0
  next_at timestamp with time zone not null default now()
  response_status integer
  error text
  delivered_at timestamp with time zone
  created_at timestamp with time zone not null default now()
  notice jsonb
  constraint webhook_deliveries_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text])))
  constraint webhook_deliveries_pkey PRIMARY KEY (id)
  CREATE INDEX webhook_deliveries_age ON public.webhook_deliveries USING btree (created_at)
  CREATE INDEX webhook_deliveries_by_status ON public.webhook_deliveries USING btree (webhook_id, status, created_at DESC, id DESC)
  CREATE INDEX webhook_deliveries_due ON public.webhook_deliveries USING btree (next_at) WHERE (status = 'pending'::text)
  CREATE INDEX webhook_deliveries_due_of ON public.webhook_deliveries USING btree (webhook_id, next_at) WHERE (status = 'pending'::text)
  CREATE INDEX webhook_deliveries_page ON public.webhook_deliveries USING btree (webhook_id, created_at DESC, id DESC)
  CREATE INDEX webhook_deliveries_with_errors ON public.webhook_deliveries USING btree (run_id) WHERE ((error IS NOT NULL) AND (run_id IS NOT NULL))
  policy maintenance_due_deliveries for select to drover_maintenance using true
  policy maintenance_old_deliveries for delete to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant delete, select to drover_maintenance

table webhooks row level security forced
  id uuid not null
  tenant_id uuid not null
  workspace_id uuid
  url text not null
  events text[] not null
  description text
  status text not null
  disabled_reason text
  failing_since timestamp with time zone
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  failures integer not null default 0
  next_at timestamp with time zone
  taken_until timestamp with time zone
  taken_at timestamp with time zone
  run_id uuid
  push_id text
  token_key_id text
  token_sealed bytea
  constraint webhooks_push_check CHECK (((run_id IS NULL) = (push_id IS NULL)))
  constraint webhooks_status_check CHECK ((status = ANY (ARRAY['active'::text, 'disabled'::text])))
  constraint webhooks_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint webhooks_pkey PRIMARY KEY (id)
  CREATE INDEX webhooks_active ON public.webhooks USING btree (tenant_id) WHERE ((status = 'active'::text) AND (run_id IS NULL))
  CREATE INDEX webhooks_page ON public.webhooks USING btree (tenant_id, id)
  CREATE UNIQUE INDEX webhooks_push ON public.webhooks USING btree (run_id, push_id) WHERE (run_id IS NOT NULL)
  CREATE INDEX webhooks_taken ON public.webhooks USING btree (taken_until) WHERE (taken_until IS NOT NULL)
  policy maintenance_forget_push_configs for delete to drover_maintenance using (run_id IS NOT NULL)
  policy maintenance_take_webhooks for update to drover_maintenance using true with check true
  policy maintenance_webhook_turns for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant delete to drover_maintenance

table workflows row level security forced
  id uuid not null
  tenant_id uuid not null
  workspace_id uuid not null
  name text not null
  agent_id uuid
  team_id uuid
  input jsonb not null
  success_criteria text
  settings jsonb not null
  is_listed boolean not null
  created_at timestamp with time zone not null default now()
  plans integer not null default 0
  gaps jsonb not null default '[]'::jsonb
  meets_criteria boolean
  is_planning boolean not null default false
  recorded_from uuid
  draft jsonb
  constraint workflows_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint workflows_pkey PRIMARY KEY (id)
  CREATE INDEX workflows_page ON public.workflows USING btree (workspace_id, id DESC) WHERE is_listed
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app

table workspaces row level security forced
  comment 'No content of runs: what a tenant has set up, not what was said in a run'
  id uuid not null
  tenant_id uuid not null
  name text not null
  created_at timestamp with time zone not null default now()
  constraint workspaces_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id)
  constraint workspaces_pkey PRIMARY KEY (id)
  CREATE UNIQUE INDEX workspaces_name ON public.workspaces USING btree (tenant_id, name)
  policy maintenance_workspace_lookup for select to drover_maintenance using true
  policy tenant_isolation for all to drover_app using (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid) with check (tenant_id = (NULLIF(current_setting('drover.tenant_id'::text, true), ''::text))::uuid)
  grant delete, insert, select, update to drover_app
  grant select to drover_maintenance

function acquire_model_rate(rate_limiter text, tokens integer, requests_a_minute integer, tokens_a_minute integer) returns integer executable by public
function apply_approvals(tenant uuid, run uuid, list jsonb) returns void executable by public
function apply_plans(tenant uuid, run uuid, list jsonb) returns void executable by public
function apply_policy_decisions(tenant uuid, run uuid, list jsonb) returns void executable by public
function apply_reservations(tenant uuid, run uuid, held integer, list jsonb) returns void executable by public
function apply_turns(tenant uuid, run uuid, list jsonb) returns void executable by public
function attach_partition(parent text, day date) returns boolean security definer executable by drover_maintenance
function back_off_model_rate(rate_limiter text, ms integer) returns void executable by public
function budget_drift(tenant uuid, whole_since date) returns TABLE(run_id uuid, budget_id uuid, step integer, what text) executable by public
function budget_period_start(period text, at timestamp with time zone) returns date executable by public
function budget_room(p jsonb, max_tokens bigint, max_cost_usd numeric, max_steps integer, tokens numeric, cost_usd numeric, steps bigint) returns numeric executable by public
function budget_spending(b budgets, not_run uuid, not_step integer, not_fence integer) returns TABLE(period_start date, tokens numeric, cost_usd numeric, steps bigint, open_tokens numeric, open_cost_usd numeric, open_steps bigint) executable by public
function budget_standing_json(s jsonb) returns jsonb executable by public
function budget_standings(p jsonb) returns TABLE(key text, budget_id uuid, name text, max_tokens bigint, max_cost_usd numeric, max_steps integer, soft_limit numeric, on_soft_limit text, tokens numeric, cost_usd numeric, steps bigint, open_tokens numeric, open_cost_usd numeric, open_steps bigint) executable by public
function change_runs(changes jsonb) returns jsonb executable by public
function change_runs_apart(changes jsonb) returns jsonb executable by public
function charge_model_rate(rate_limiter text, tokens integer, tokens_a_minute integer) returns void executable by public
function check_budgets(p jsonb) returns jsonb executable by public
function claim_run(p jsonb) returns jsonb executable by public
function commit_rest(tenant uuid, c jsonb, r committed_row) returns jsonb executable by public
function commit_run(c jsonb) returns jsonb executable by public
function commit_runs(changes jsonb) returns jsonb executable by public
function count_fragments() returns trigger executable by public
function delete_files(ids uuid[]) returns integer executable by public
function end_model_outages(run uuid) returns void executable by public
function end_probed_outages(run uuid, probed jsonb) returns void executable by public
function ensure_partitions(days_ahead integer) returns integer security definer executable by drover_maintenance
function ensure_vector_index(owner text, model text, dimensions integer) returns boolean security definer executable by drover_maintenance
function enter_model(outage text, rate_limiter text, run uuid, probe_ms integer) returns jsonb executable by public
function enter_own_call(outage text, rate_limiter text, asker uuid, probe_ms integer) returns jsonb executable by public
function erase_checkpoints(run uuid) returns void security definer executable by drover_app
function erase_files_of_run(run uuid) returns integer executable by public
function erase_files_of_thread(thread uuid) returns integer executable by public
function erase_messages(run uuid) returns void security definer executable by drover_app
function erase_run_events(run uuid, list jsonb) returns void security definer executable by drover_app
function events_page(p jsonb) returns jsonb executable by public
function forget_in_events(runs uuid[], ids uuid[]) returns integer security definer executable by drover_app
function head_of_event(e jsonb, row_turn text) returns text executable by public
function insert_run_event() returns trigger executable by public
function is_created_newer(run uuid) returns boolean executable by public
function json_bytes(stored jsonb) returns bigint executable by public
function leave_probes(run uuid) returns void executable by public
function line_with_payload(line text, payload jsonb, version text) returns text executable by public
function list_metadata() returns trigger executable by public
function list_metadata_of_version() returns trigger executable by public
function list_permissions() returns trigger executable by public
function metadata_entries_of(kind text, metadata jsonb) returns SETOF uuid executable by public
function metadata_entry(kind text, name text, value text) returns uuid executable by public
function missing_partitions(days_ahead integer) returns TABLE(parent text, day date) security definer executable by drover_maintenance
function model_back_off_ms(rate_limiter text) returns integer executable by public
function model_outage_pause(failures integer, least_ms integer, most_ms integer) returns interval executable by public
function must_commit_run(c jsonb) returns jsonb executable by public
function name_user_of_memory() returns trigger executable by public
function note_model_outage(outage text, run uuid, problem jsonb, least_ms integer, most_ms integer) returns jsonb executable by public
function note_probe_failure(outage text, outage_since timestamp with time zone, run uuid, problem jsonb, least_ms integer, most_ms integer) returns jsonb executable by public
function partition_bounds(parent text) returns TABLE(first_day date, end_day date) executable by public
function payload_of_line(line text) returns jsonb executable by public
function permissions_in(definition jsonb) returns SETOF text executable by public
function place_run() returns trigger executable by public
function queue_workers(queue text) returns TABLE(pid integer, address text, connected_seconds integer) security definer executable by drover_maintenance
function read_run_page(p jsonb) returns jsonb executable by public
function read_usage(p jsonb) returns TABLE(key text, kind text, name text, count bigint, failed bigint, turns bigint, steps bigint, tokens_in bigint, tokens_out bigint, cost_usd numeric, duration_ms bigint, unpriced bigint) executable by public
function renew_call_lease(tenant text, call uuid, held_attempt integer, lease_ms integer) returns boolean executable by public
function renew_run_lease(tenant text, run uuid, held_fence integer, lease_ms integer) returns boolean executable by public
function roll_up_budgets(tenant uuid, most integer) returns bigint executable by public
function roll_up_usage(tenant uuid, most integer) returns bigint executable by public
function row_with_time(x jsonb, moment timestamp with time zone) returns jsonb executable by public
function rows_in_default_partitions() returns bigint security definer executable by drover_maintenance
function rows_with_time(list jsonb, moment timestamp with time zone) returns jsonb executable by public
function run_messages(r runs, from_ordinal integer, also_calls uuid[]) returns jsonb executable by public
function run_page(r runs, next jsonb) returns jsonb executable by public
function settle_lost_reservations(tenant uuid, quiet_ms integer) returns bigint executable by public
function split_words(text text) returns text executable by public
function steps_of(calls jsonb) returns jsonb executable by public
function take_calls(counted text, wanted integer, most integer) returns integer executable by public
function usage_of_run(r runs) returns TABLE(kind text, name text, count bigint, failed bigint, turns bigint, steps bigint, tokens_in bigint, tokens_out bigint, cost_usd numeric, duration_ms bigint, unpriced bigint) executable by public
function uuid_day(id uuid) returns date executable by public
function uuid_floor(day date) returns uuid executable by public
function void_leases() returns void security definer executable by drover_maintenance
function with_log(c jsonb) returns jsonb executable by public
function with_time(c jsonb, moment timestamp with time zone) returns jsonb executable by public
function without_texts(payload jsonb, ids uuid[]) returns jsonb executable by public
