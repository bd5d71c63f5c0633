#!/usr/bin/env bash
# A Slurm cluster for tests on this machine: loopback alone, nodes and GPUs that are pretended, and
# nothing outside of its directory.
#
#   scripts/slurm-cluster.sh up     write the configuration, start the daemons, wait for the nodes
#   scripts/slurm-cluster.sh down   cancel the jobs and stop the daemons that up started
#   scripts/slurm-cluster.sh why    print the last two errors, or the last line, of each daemon's log
#   scripts/slurm-cluster.sh env    print the setting that Slurm's commands need
#
# SLURM_TEST_DIR (default: a directory below the temporary one), SLURM_TEST_PORT (17600 and some
# above), SLURM_TEST_NODES ("name:type:gpus,type:gpus …") and SLURM_TEST_PRIORITY change it. With
# SLURM_TEST_ACCOUNTING=1 it has slurmdbd with a MariaDB of its own, so that sacct works. It counts GPUs
# by type then; with SLURM_TEST_TRES=gres/gpu it counts them without their types, as most sites do. With
# SLURM_TEST_SHAPES=1 nodes have two sockets, those of the type t4 also four shards for each GPU, those of the type
# v100 a hundred units of MPS, and nodes of several types are in the partition mixed alone. There are the partitions
# urgent, whose jobs preempt, back, whose jobs are requeued then, and lost, whose jobs are cancelled.
set -euo pipefail

dir=${SLURM_TEST_DIR:-${TMPDIR:-/tmp}/hare-slurm-test-$(id -u)}
port=${SLURM_TEST_PORT:-17600}
accounting=${SLURM_TEST_ACCOUNTING:-}
shapes=${SLURM_TEST_SHAPES:-}
nodes=${SLURM_TEST_NODES:-"v100-0:v100:2 t4-0:t4:2 k80-0:k80:2"}
export SLURM_CONF=$dir/slurm.conf

missing=
for tool in slurmctld slurmd munged scontrol; do
  command -v "$tool" >/dev/null || missing=yes
done
if [ -n "$accounting" ]; then
  for tool in slurmdbd mariadbd mariadb-install-db; do
    command -v "$tool" >/dev/null && continue
    echo "Slurm's accounting is not installed: apt-get install --no-install-recommends slurmdbd mariadb-server" >&2
    exit 3
  done
fi
if [ -n "$missing" ] && [ "${1:-}" != env ]; then
  echo "Slurm is not installed: apt-get install --no-install-recommends slurmctld slurmd slurm-client" \
    "slurm-wlm-basic-plugins munge" >&2
  exit 3
fi

# accounting_lines prints the lines of slurm.conf about accounting, and writes slurmdbd.conf.
accounting_lines() {
  if [ -z "$accounting" ]; then
    echo AccountingStorageType=accounting_storage/none
    return
  fi
  (umask 077 && cat >"$dir/slurmdbd.conf") <<CONF
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.sock
DbdHost=$(hostname -s)
DbdAddr=127.0.0.1
DbdPort=$((port + 1))
SlurmUser=$1
LogFile=$dir/log/slurmdbd.log
PidFile=$dir/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$((port + 2))
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
PluginDir=$(dirname "$(find /usr/lib /usr/lib64 -name auth_munge.so 2>/dev/null | head -1)")
CONF
  local tres=${SLURM_TEST_TRES:-} spec
  [ -n "$tres" ] ||
    tres=gres/gpu$(for spec in $nodes; do tr , '\n' <<<"${spec#*:}"; done | sed 's/:.*//; s|^|,gres/gpu:|' | sort -u |
      tr -d '\n')
  [ -z "$shapes" ] || tres=$tres,gres/shard,gres/mps
  echo AccountingStorageType=accounting_storage/slurmdbd
  echo AccountingStorageHost=127.0.0.1
  echo "AccountingStoragePass=$dir/run/munge.sock"
  echo AccountingStoragePort=$((port + 1))
  echo "AccountingStorageTRES=$tres"
  echo AccountingStoreFlags=job_comment
}

# start_accounting starts a MariaDB that listens on loopback alone, and slurmdbd.
start_accounting() {
  [ -n "$accounting" ] || return 0
  mariadb-install-db --no-defaults --auth-root-authentication-method=normal --user="$(id -un)" --datadir="$dir/db" \
    >"$dir/log/mariadb-install.log" 2>&1
  mariadbd --no-defaults --user="$(id -un)" --datadir="$dir/db" --socket="$dir/run/db.sock" --port=$((port + 2)) \
    --bind-address=127.0.0.1 --pid-file="$dir/run/mariadbd.pid" --innodb-buffer-pool-size=128M \
    --innodb-flush-log-at-trx-commit=0 </dev/null >"$dir/log/mariadbd.log" 2>&1 &
  wait_for mariadb-admin --no-defaults --socket="$dir/run/db.sock" -u root ping
  mariadb --no-defaults --socket="$dir/run/db.sock" -u root \
    -e "create user slurm@'127.0.0.1' identified by 'slurm'; grant all on slurm_acct_db.* to slurm@'127.0.0.1'"
  slurmdbd </dev/null >/dev/null 2>&1
  wait_for timeout 5 sacctmgr -n -i show cluster
}

wait_for() {
  for _ in $(seq 150); do "$@" >/dev/null 2>&1 && return 0; sleep 0.2; done
  echo "${1} did not come up; the logs are in $dir/log" >&2
  return 1
}

write_configuration() {
  mkdir -p "$dir"/{state,log,run,gpu,spool}
  chmod 755 "$dir" "$dir/run"
  [ -s "$dir/munge.key" ] || (umask 077 && head -c 128 /dev/urandom >"$dir/munge.key")
  local plugins cgroups me host i=0 k spec name kind type gpus g gres features parts partition default
  declare -A members
  plugins=$(dirname "$(find /usr/lib /usr/lib64 -name auth_munge.so 2>/dev/null | head -1)")
  me=$(id -un) host=$(hostname -s)
  # slurmd looks for cgroups even if no plugin uses them; 24.05 and later can be told not to.
  cgroups=CgroupPlugin=disabled
  [[ $(slurmctld -V) < "slurm-wlm 24.05" ]] && cgroups=CgroupMountpoint=/sys/fs/cgroup
  echo "$cgroups" >"$dir/cgroup.conf"
  : >"$dir/gres.conf"
  cat >"$SLURM_CONF" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$me
SlurmdUser=$me
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$dir/run/munge.sock
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd-%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd-%n.log
PluginDir=$plugins
MpiDefault=none
SwitchType=switch/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
$(accounting_lines "$me")
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=64
GresTypes=gpu${shapes:+,shard,mps}
${shapes:+PreemptType=preempt/partition_prio}
${shapes:+PreemptMode=REQUEUE}
PriorityType=${SLURM_TEST_PRIORITY:-priority/multifactor}
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=${shapes:-5},bf_interval=${shapes:-5},batch_sched_delay=1
MinJobAge=300
MaxJobCount=20000
KillWait=2
InactiveLimit=0
ReturnToService=2
SlurmdParameters=config_overrides
CONF
  for spec in $nodes; do
    name=${spec%%:*} gres= features= g=0 partition=gpu
    for kind in $(tr , ' ' <<<"${spec#*:}"); do
      IFS=: read -r type gpus <<<"$kind"
      gres=$gres,gpu:$type:$gpus features=$features,$type
      for ((k = g; k < g + gpus; k++)); do ln -sfn /dev/null "$dir/gpu/$k"; done # a GPU needs a device
      echo "NodeName=$name Name=gpu Type=$type File=$dir/gpu/[$g-$((g + gpus - 1))]" >>"$dir/gres.conf"
      g=$((g + gpus))
    done
    parts=
    case $shapes$features in
      1,t4) parts=shard:$((4 * g)) ;;
      1,v100) parts=mps:$((100 * g)) ;;
      1,*) partition=mixed ;;
    esac
    [ -z "$parts" ] || echo "NodeName=$name Name=${parts%:*} Count=${parts#*:}" >>"$dir/gres.conf"
    echo "NodeName=$name NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 10 + i)) CPUs=8" \
      "${shapes:+SocketsPerBoard=2 CoresPerSocket=4 ThreadsPerCore=1}" \
      "RealMemory=4096 Feature=${features#,} Gres=${gres#,}${parts:+,$parts} State=UNKNOWN" >>"$SLURM_CONF"
    members[$partition]=${members[$partition]:-},$name
    mkdir -p "$dir/spool/$name"
    i=$((i + 1))
  done
  for partition in "${!members[@]}"; do
    default=
    [ "$partition" != gpu ] || default=Default=YES
    echo "PartitionName=$partition Nodes=${members[$partition]#,} $default MaxTime=60 State=UP" >>"$SLURM_CONF"
  done
  [ -z "$shapes" ] || cat >>"$SLURM_CONF" <<CONF
PartitionName=urgent Nodes=ALL MaxTime=60 State=UP PriorityTier=10 PreemptMode=OFF
PartitionName=back Nodes=ALL MaxTime=60 State=UP PreemptMode=REQUEUE GraceTime=0
PartitionName=lost Nodes=ALL MaxTime=60 State=UP PreemptMode=CANCEL GraceTime=0
CONF
}

up() {
  write_configuration
  munged --force --key-file="$dir/munge.key" --socket="$dir/run/munge.sock" --pid-file="$dir/run/munged.pid" \
    --log-file="$dir/log/munged.log" --seed-file="$dir/run/munge.seed" </dev/null >/dev/null 2>&1
  start_accounting
  slurmctld -i -c -f "$SLURM_CONF" </dev/null >/dev/null 2>&1
  local spec want
  for spec in $nodes; do slurmd -N "${spec%%:*}" -f "$SLURM_CONF" </dev/null >/dev/null 2>&1; done
  want=$(wc -w <<<"$nodes")
  for _ in $(seq 150); do
    [ "$(timeout 5 sinfo -h -N -t idle -o %N 2>/dev/null | sort -u | wc -l)" = "$want" ] && return 0
    sleep 0.2
  done
  echo "the nodes did not come up; the logs are in $dir/log" >&2
  return 1
}

why() {
  local log
  for log in "$dir"/log/{munged,slurmdbd,slurmctld,slurmd-*}.log; do
    [ -s "$log" ] || continue
    { grep -E 'fatal|error' "$log" || tail -n 1 "$log"; } | tail -n 2 | sed "s/^/$(basename "$log" .log): /" >&2
  done
}

down() {
  local file pid
  if [ -s "$dir/run/slurmctld.pid" ] && kill -0 "$(cat "$dir/run/slurmctld.pid")" 2>/dev/null; then
    timeout 20 squeue -h -o %A | sort -u | timeout 20 xargs -r scancel -Q || true
    for _ in $(seq 25); do [ -z "$(timeout 5 squeue -h -t R,CG -o %A)" ] && break; sleep 0.2; done
  fi
  for file in "$dir"/run/slurmd-*.pid; do # at once, for each may take some seconds
    kill "$(cat "$file" 2>/dev/null)" 2>/dev/null || true
  done
  for file in "$dir"/run/slurmd-*.pid "$dir/run/slurmctld.pid" "$dir/run/slurmdbd.pid" \
    "$dir/run/mariadbd.pid" "$dir/run/munged.pid"; do
    pid=$(cat "$file" 2>/dev/null) || continue
    kill "$pid" 2>/dev/null || continue
    for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -KILL "$pid" 2>/dev/null || true # slurmd does not end while it cannot register
  done
}

case ${1:-} in
  up)
    trap '[ $? = 0 ] || why' EXIT # a daemon that does not start ends up, too
    up
    ;;
  why) why ;;
  down) down ;;
  env) echo "export SLURM_CONF=$SLURM_CONF" ;;
  *) sed -n '2,17p' "$0" >&2; exit 2 ;;
esac
