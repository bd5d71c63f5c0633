#!/bin/bash
# Slurm 24.11.5: which scheduler starts a job without --time decides whether its limit is none or 365 days.
#
# Expected: in a partition without DefaultTime and MaxTime, a job that was submitted without --time runs without a
# limit, whoever starts it.
# Seen: a job that the main scheduler started has TimeLimit UNLIMITED, "infinite": true. A job that backfill started
# has 365-00:00:00 from then on, "number": 525600 minutes, as if its user had asked for a year.
# What follows: a reader that plans by limits holds the GPUs of such a job for a year. Take exactly 525600 for none
# where the user gave no limit; DefaultTime for each partition avoids both.
#
# Needs: root on Linux (chroot, namespaces), debootstrap, unshare, 2 GB of disk. Takes about two minutes. The daemons
# have a network of their own that is loopback alone.
set -Eeuo pipefail
trap 'exit 2' ERR
if [ "${1:-}" != inside ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    packages=slurmctld,slurmd,slurm-client,slurm-wlm-basic-plugins,munge,jq,iproute2
    debootstrap --variant=minbase --include=$packages trixie "$work/root" >"$work/log" 2>&1 || {
        tail "$work/log" >&2
        exit 2
    }
    [[ $(chroot "$work/root" dpkg-query -W -f '${Version}' slurmctld) == 24.11.5-* ]]
    cp "$0" "$work/root/script.sh"
    # All daemons end with the first process of their namespace.
    unshare --mount --net --uts --pid --fork --kill-child chroot "$work/root" bash /script.sh inside || exit $?
    exit 0
fi

mount -t proc proc /proc
hostname here
ip link set lo up
ip address add 192.0.2.1/32 dev lo # the resolver gives no addresses for names where there is but 127.0.0.1
echo 127.0.0.1 here localhost >/etc/hosts
mkdir -p /slurm/{state,n1,n2}
cd /slurm
head -c 128 /dev/urandom >munge.key
chmod 600 munge.key
cat >slurm.conf <<END
ClusterName=test
SlurmctldHost=here(127.0.0.1)
SlurmUser=root
AuthInfo=socket=/slurm/munge.sock
StateSaveLocation=/slurm/state
SlurmdSpoolDir=/slurm/%n
SlurmctldPidFile=/slurm/slurmctld.pid
SlurmdPidFile=/slurm/%n.pid
SlurmctldLogFile=/slurm/slurmctld.log
SlurmdLogFile=/slurm/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,bf_interval=10
NodeName=n1 NodeHostname=here NodeAddr=127.0.0.1 Port=7001 CPUs=2 Feature=first
NodeName=n2 NodeHostname=here NodeAddr=127.0.0.1 Port=7002 CPUs=2
PartitionName=main Nodes=n[1-2] Default=YES
END
echo CgroupPlugin=disabled >cgroup.conf
export SLURM_CONF=/slurm/slurm.conf
until_true() { # a shell command, for at most a minute
    for ((i = 0; i < 300; i++)); do
        bash -c "$1" >log 2>&1 && return
        sleep 0.2
    done
    echo "in vain: $1" >&2
    tail -n 3 ./*log >&2
    return 1
}
munged --force --key-file=munge.key --socket=/slurm/munge.sock --pid-file=munged.pid --log-file=munged.log \
    --seed-file=munge.seed 2>log
slurmctld -i -c 2>log
slurmd -N n1
slurmd -N n2
until_true '[ "$(sinfo -hN -t idle | wc -l)" = 2 ]'

sbatch -Q -o /dev/null -C first --exclusive --wrap 'sleep 600'
until_true '[ "$(squeue -h -t R | wc -l)" = 1 ]'
sbatch -Q -o /dev/null -C first --wrap 'sleep 600' # waits for n1, and the main scheduler looks at no job behind it
sbatch -Q -o /dev/null --wrap 'sleep 600'
until_true '[ "$(squeue -h -t R | wc -l)" = 2 ]'
{
    grep -oE 'sched(/backfill)?: .*JobId=[0-9]+' slurmctld.log | sed 's/^/log: /'
    squeue -h -S i -o 'squeue %A: %T, limit %l'
    squeue --json | jq -r '.jobs[] | "squeue --json \(.job_id): \(.time_limit)"' | sort
} >seen

cat >expected <<'END'
log: sched: Allocate JobId=1
log: sched/backfill: _start_job: Started JobId=3
squeue 1: RUNNING, limit UNLIMITED
squeue 2: PENDING, limit UNLIMITED
squeue 3: RUNNING, limit 365-00:00:00
squeue --json 1: {"set":false,"infinite":true,"number":0}
squeue --json 2: {"set":false,"infinite":true,"number":0}
squeue --json 3: {"set":true,"infinite":false,"number":525600}
END
if diff expected seen >&2; then
    echo "as found:"
    cat seen
else
    echo "another behaviour: lines with < were found once, lines with > are so now" >&2
    exit 1
fi
