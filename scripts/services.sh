#!/usr/bin/env bash
# A private Postgres (15 or later, with pgvector) and a private Redis for development and tests. See --help.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
READY_SECONDS=60

usage() {
  cat <<'HELP'
usage: scripts/services.sh up|down|env|install [DIR]

  up       starts Postgres (15 or later, with pgvector) and Redis on free ports of 127.0.0.1; installs what is missing
           with apt (root or password-less sudo). What is already running is kept: a second `up` changes nothing.
  env      prints DATABASE_URL=… and REDIS_URL=…; exits 1 when they are not up.
             export $(scripts/services.sh env)
  down     stops the two servers that `up` started, and no others. Their data stays.
  install  installs what `up` needs and starts nothing. To be run once as root where others run `up`.

DIR holds data, logs, ports and the password. Default: $DROVER_SERVICES_DIR, else .drover/services of the repository.
HELP
}

say() { printf 'services: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
is_root() { [ "$(id -u)" = 0 ]; }

main() {
  local command=${1:-}
  case $command in
    -h | --help | help) usage; return ;;
    up | down | env | install) [ $# -le 2 ] || { usage >&2; exit 2; } ;;
    *) usage >&2; exit 2 ;;
  esac
  [ -d /proc/self ] || die 'this script needs Linux; elsewhere, start Postgres 15+ with pgvector and Redis yourself'
  DIR=$(realpath -m "${2:-${DROVER_SERVICES_DIR:-$ROOT/.drover/services}}")
  "do_$command"
}

do_install() {
  ensure_installed
}

do_up() {
  ensure_installed
  mkdir -p "$DIR" || die "cannot make $DIR; pass a directory of your own"
  [ -w "$DIR" ] || die "$DIR belongs to another user; pass a directory of your own"
  lock
  load_state
  choose_home
  start_postgres
  start_redis
  say "up; data in $DATA"
}

do_down() {
  [ -d "$DIR" ] || { say 'not up'; return; }
  lock
  load_state
  [ -n "$DATA" ] || { say 'not up'; return; }
  # "fast": open transactions are rolled back, the data is flushed.
  stop_server postgres INT "$DATA/postgres" "$DATA/postgres/postmaster.pid"
  stop_server redis-server TERM "$DATA/redis" "$DATA/redis/redis.pid"
}

do_env() {
  load_state
  if [ -z "$DATA" ] || ! postgres_pid >/dev/null || ! redis_pid >/dev/null; then
    die 'not up; run scripts/services.sh up first'
  fi
  printf 'DATABASE_URL=postgres://drover:%s@127.0.0.1:%s/drover\n' "$PASSWORD" "$POSTGRES_PORT"
  printf 'REDIS_URL=redis://default:%s@127.0.0.1:%s\n' "$PASSWORD" "$REDIS_PORT"
}

# ---- state: a file of KEY=value lines, readable by its owner alone ----

# Two `up` at once would start two servers on one data directory. The servers must not inherit the lock: see `daemon`.
lock() {
  exec 9>>"$DIR/lock" || die "$DIR belongs to another user"
  flock -w 120 9 || die "another services.sh has been busy in $DIR for two minutes"
}

load_state() {
  DATA='' PASSWORD='' POSTGRES_PORT='' REDIS_PORT=''
  local key value
  [ -e "$DIR/state" ] || return 0
  [ -r "$DIR/state" ] || die "$DIR belongs to another user, who must run this"
  while IFS='=' read -r key value; do
    case $key in
      DATA) DATA=$value ;;
      PASSWORD) PASSWORD=$value ;;
      POSTGRES_PORT) POSTGRES_PORT=$value ;;
      REDIS_PORT) REDIS_PORT=$value ;;
    esac
  done <"$DIR/state"
}

save_state() {
  (
    umask 077
    printf '%s\n' "DATA=$DATA" "PASSWORD=$PASSWORD" "POSTGRES_PORT=$POSTGRES_PORT" "REDIS_PORT=$REDIS_PORT" >"$DIR/state.new"
  )
  mv "$DIR/state.new" "$DIR/state"
}

# Sets DATA and OWNER, the user that runs the servers: the caller, or `postgres` for root, which Postgres refuses.
choose_home() {
  OWNER=$(id -un)
  if is_root; then OWNER=postgres; fi
  if [ -z "$DATA" ]; then
    DATA=$DIR
    # A checkout under /root is closed to `postgres`: its data then lives in that user's home.
    if is_root && ! as_owner test -x "$DIR"; then
      DATA=$(getent passwd postgres | cut -d: -f6)/drover-$(printf %s "$DIR" | cksum | cut -d' ' -f1)
    fi
  fi
  [ -n "$PASSWORD" ] || PASSWORD=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  mkdir -p "$DATA"
  if is_root && [ -e "$DATA/postgres" ]; then OWNER=$(stat -c %U "$DATA/postgres"); fi
  [ "$OWNER" != root ] || die "$DATA/postgres belongs to root; remove it"
  save_state
}

as_owner() {
  if [ "$(id -un)" = "$OWNER" ]; then "$@"; else runuser -u "$OWNER" -- "$@"; fi
}

# Starts a server that keeps neither the caller's pipes nor the lock open.
daemon() {
  (cd / && as_owner "$@") </dev/null >/dev/null 2>&1 9>&-
}

own_directory() {
  mkdir -p "$1"
  chmod 700 "$1"
  if is_root; then chown "$OWNER" "$1"; fi
}

# ---- the two servers ----

postgres_pid() { server_pid postgres "$DATA/postgres" "$DATA/postgres/postmaster.pid"; }
redis_pid() { server_pid redis-server "$DATA/redis" "$DATA/redis/redis.pid"; }

start_postgres() {
  local home=$DATA/postgres log=$DATA/postgres/server.log bin
  if postgres_pid >/dev/null; then return; fi
  wait_until_deserted "$home"
  own_directory "$home"
  bin=$(postgres_bin "$home")
  [ -s "$home/PG_VERSION" ] || create_cluster "$bin" "$home"
  # No server works in the directory any more (see above): a leftover pid file, whose number may be another's by now, is void.
  rm -f "$home/postmaster.pid"
  POSTGRES_PORT=$(usable_port "$POSTGRES_PORT")
  save_state
  daemon "$bin/pg_ctl" -D "$home" -l "$log" -o "-p $POSTGRES_PORT" -t "$READY_SECONDS" -w start || {
    tail -n 20 "$log" >&2 || true
    die "Postgres did not start; above, the end of $log"
  }
  PGPASSWORD=$PASSWORD create_database "$bin"
}

create_cluster() {
  local bin=$1 home=$2 out secret
  secret=$home.password
  (umask 077 && printf '%s\n' "$PASSWORD" >"$secret")
  if is_root; then chown "$OWNER" "$secret"; fi
  if ! out=$(cd / && as_owner "$bin/initdb" -D "$home" -U drover -A scram-sha-256 --pwfile="$secret" -E UTF8 --locale=C.UTF-8 2>&1); then
    rm -rf "$secret" "$home"
    printf '%s\n' "$out" >&2
    die 'initdb failed'
  fi
  rm -f "$secret"
  # No Unix socket: its path may be 107 bytes long, which a deep checkout exceeds.
  cat >>"$home/postgresql.conf" <<CONF
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 400
fsync = on
CONF
}

# Creates the database if missing, at every start: after a kill between initdb and this there would be none.
create_database() {
  local bin=$1 url="host=127.0.0.1 port=$POSTGRES_PORT user=drover dbname=postgres"
  local found
  found=$("$bin/psql" -XAtq "$url" -c "select 1 from pg_database where datname = 'drover'") || die 'Postgres refuses its own password'
  [ "$found" = 1 ] || "$bin/psql" -Xq "$url" -c 'create database drover'
}

start_redis() {
  local home=$DATA/redis
  if redis_pid >/dev/null; then return; fi
  wait_until_deserted "$home"
  own_directory "$home"
  rm -f "$home/redis.pid"
  REDIS_PORT=$(usable_port "$REDIS_PORT")
  save_state
  # The password goes in by file: arguments can be read by every user of the machine.
  (umask 077 && cat >"$home/redis.conf") <<CONF
bind 127.0.0.1
port $REDIS_PORT
requirepass $PASSWORD
dir "$home"
pidfile "$home/redis.pid"
logfile "$home/server.log"
daemonize yes
appendonly yes
appendfsync everysec
maxmemory-policy noeviction
CONF
  if is_root; then chown "$OWNER" "$home/redis.conf"; fi
  if ! daemon redis-server "$home/redis.conf" || ! wait_for_redis; then
    tail -n 20 "$home/server.log" >&2 || true
    die "Redis did not start; above, the end of $home/server.log"
  fi
}

# "PONG" comes only when the append-only file has been read.
wait_for_redis() {
  local tries=$((READY_SECONDS * 10))
  until [ "$(REDISCLI_AUTH=$PASSWORD redis-cli -h 127.0.0.1 -p "$REDIS_PORT" ping 2>/dev/null)" = PONG ]; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || return 1
    sleep 0.1
  done
}

# Prints the pid in FILE if that process is a NAME that works in HOME, which both servers make their current directory.
# A pid file alone proves nothing: after a crash its number may be anyone's.
server_pid() {
  local name=$1 home=$2 file=$3 pid
  pid=$(head -n 1 "$file" 2>/dev/null) || return 1
  [ -n "$pid" ] && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$name" ] || return 1
  [ "$(readlink "/proc/$pid/cwd")" = "$(realpath "$home")" ] || return 1
  printf '%s\n' "$pid"
}

stop_server() {
  local name=$1 signal=$2 home=$3 file=$4 pid tries=$((READY_SECONDS * 10))
  pid=$(server_pid "$name" "$home" "$file") || { say "$name is not up"; return; }
  kill "-$signal" "$pid" || die "$name (pid $pid) belongs to another user, who must run this"
  while server_pid "$name" "$home" "$file" >/dev/null; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || die "$name (pid $pid) did not stop within $READY_SECONDS s; its log is $home/server.log"
    sleep 0.1
  done
  say "$name stopped"
}

# The children of a killed postmaster may outlive it for a moment; a new one must not meet them.
wait_until_deserted() {
  local home=$1 tries=100
  while [ -d "$home" ] && find /proc -maxdepth 2 -path '/proc/[0-9]*/cwd' -lname "$(realpath "$home")" 2>/dev/null | grep -q .; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || die "processes are still at work in $home; stop them first"
    sleep 0.1
  done
}

# Prints the port given if it is free, else another: below the range from which the kernel takes ports for clients.
usable_port() {
  local port=$1
  while [ -z "$port" ] || (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
    port=$((20000 + RANDOM % 12000))
  done
  printf '%s\n' "$port"
}

# ---- packages ----

# The newest installed Postgres from 15 on, or the one that made the data in HOME.
postgres_bin() {
  local home=${1:-} major
  if [ -n "$home" ] && [ -s "$home/PG_VERSION" ]; then
    major=$(cat "$home/PG_VERSION")
    [ "$(postgres_major "$(installed_postgres "$major")")" = "$major" ] || die "the data in $home is of PostgreSQL $major, which is not installed any more"
    installed_postgres "$major"
  else
    installed_postgres
  fi
}

# Prints the directory of the server's programs, Debian's or the one in PATH; nothing if no directory fits.
installed_postgres() {
  local wanted=${1:-} bin major best=''
  for bin in /usr/lib/postgresql/*/bin "$(dirname "$(command -v initdb || echo /none/x)")"; do
    if [ ! -x "$bin/initdb" ] || [ ! -x "$bin/pg_config" ]; then continue; fi
    major=$(postgres_major "$bin")
    [ "$major" -ge 15 ] || continue
    if [ -z "$wanted" ] || [ "$major" = "$wanted" ]; then best=$bin; fi
  done
  printf '%s\n' "$best"
}

postgres_major() { if [ -n "$1" ]; then "$1/pg_config" --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/'; fi; }

has_pgvector() { [ -e "$("$1/pg_config" --sharedir)/extension/vector.control" ]; }

ensure_installed() {
  local bin missing=()
  bin=$(installed_postgres)
  [ -n "$bin" ] || missing+=(postgresql)
  command -v redis-server >/dev/null && command -v redis-cli >/dev/null || missing+=(redis-server)
  if [ -n "$bin" ] && [ ${#missing[@]} -eq 0 ] && has_pgvector "$bin"; then return; fi
  require_apt "$bin" "${missing[@]}"
  # PgBouncer is for one test suite, which is skipped without it.
  if [ ${#missing[@]} -gt 0 ]; then apt_install "${missing[@]}" pgbouncer; fi
  bin=$(installed_postgres)
  [ -n "$bin" ] || die "this system's postgresql package is older than 15; install PostgreSQL 15 or later"
  if ! has_pgvector "$bin"; then install_pgvector "$bin"; fi
}

# If this process may not install packages, exits with what is to be installed, and by whom.
require_apt() {
  local bin=$1 wanted
  shift
  if command -v apt-get >/dev/null && (is_root || sudo -n true 2>/dev/null); then return; fi
  wanted="$*"
  if [ -z "$bin" ] || ! has_pgvector "$bin"; then wanted="${wanted:+$wanted }pgvector"; fi
  say "missing: $wanted"
  if command -v apt-get >/dev/null; then
    die "run once as root: $ROOT/scripts/services.sh install"
  fi
  die 'install PostgreSQL 15 or later with its pgvector extension, and Redis 6.2 or later'
}

as_root() { if is_root; then "$@"; else sudo -n "$@"; fi; }

# Debian's packages start a server of their own on the usual ports; the policy file (invoke-rc.d(8)) forbids that.
apt_install() {
  local policy=/usr/sbin/policy-rc.d made=''
  if [ ! -e "$policy" ]; then
    made=$policy
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod +x "$policy"
  fi
  say "installing $*"
  local log failed=''
  log=$(mktemp)
  { refresh_lists && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1 </dev/null || failed=1
  if [ -n "$made" ]; then as_root rm -f "$made"; fi
  if [ -n "$failed" ]; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "apt could not install $*"
  fi
  rm -f "$log"
}

LISTS_FRESH=''
refresh_lists() {
  [ -z "$LISTS_FRESH" ] || return 0
  as_root apt-get update
  LISTS_FRESH=1
}

install_pgvector() {
  local bin=$1 major package
  major=$(postgres_major "$bin")
  package=postgresql-$major-pgvector
  refresh_lists >/dev/null 2>&1 || true
  if apt-cache show "$package" >/dev/null 2>&1; then
    apt_install "$package"
  else
    apt_install "postgresql-server-dev-$major" gcc make dpkg-dev libc6-dev
    build_pgvector "$bin"
  fi
  has_pgvector "$bin" || die "pgvector was installed, but not for $bin"
}

# Debian 12 has no pgvector for its PostgreSQL 15: the source package of its successor builds there. The successor's
# lists stay in a directory of their own, so that the machine's stay as they are.
build_pgvector() {
  local bin=$1 work mirror options
  say "building pgvector for $("$bin/pg_config" --version)"
  work=$(mktemp -d)
  mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
  # shellcheck disable=SC2016 # apt-get fills in the name
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' 2>/dev/null | head -n 1)
  printf 'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s trixie main\n' \
    "${mirror:-http://deb.debian.org/debian}" >"$work/sources.list"
  options=(-o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=)
  if ! (cd "$work" && {
    apt-get "${options[@]}" update && apt-get "${options[@]}" source pgvector &&
      # OPTFLAGS: code for this machine alone would crash on another that shares the image.
      make -C pgvector-*/ with_llvm=no OPTFLAGS='' PG_CONFIG="$bin/pg_config" &&
      as_root make -C pgvector-*/ with_llvm=no OPTFLAGS='' PG_CONFIG="$bin/pg_config" install
  }) >"$work/log" 2>&1 </dev/null; then
    tail -n 20 "$work/log" >&2
    die "pgvector could not be built; its whole log is $work/log"
  fi
  rm -rf "$work"
}

main "$@"
