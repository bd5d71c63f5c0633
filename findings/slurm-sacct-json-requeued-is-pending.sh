#!/bin/bash
# Slurm 24.11.5: for sacct --json -D, an attempt that was requeued is PENDING for good, though it has an end.
#
# Expected: the first attempt of a job that was requeued is "REQUEUED" alone, as sacct -P prints it.
# Seen: its "state" is {"current": ["PENDING", "REQUEUED"]} beside a start, an end and nodes, and stays so when the
# job's next attempt has completed.
# What follows: a reader that takes the first word counts such an attempt as a job that waits, for ever. REQUEUED must
# win over PENDING.
#
# Needs: root on Linux (chroot, namespaces), debootstrap, unshare, 2 GB of disk. Takes about two minutes. The daemons
# have a network of their own that is loopback alone.
set -Eeuo pipefail
trap 'exit 2' ERR
if [ "${1:-}" != inside ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    packages=slurmctld,slurmd,slurmdbd,slurm-wlm-mysql-plugin,mariadb-server,munge,jq,iproute2
    debootstrap --variant=minbase --include=$packages trixie "$work/root" >"$work/log" 2>&1 || {
        tail "$work/log" >&2
        exit 2
    }
    # The libmariadb3 that Debian 13 has by now (11.8.9) answers slurmdbd's first query with an error.
    sed s/trixie/bookworm/ "$work/root/etc/apt/sources.list" >"$work/root/etc/apt/sources.list.d/old.list"
    chroot "$work/root" sh -c 'apt-get update && cd /tmp && apt-get download libmariadb3/bookworm &&
        dpkg -x libmariadb3_*.deb /old' >"$work/log" 2>&1
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
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePass=/slurm/munge.sock
AccountingStorageTRES=gres/gpu
NodeName=n1 NodeHostname=here NodeAddr=127.0.0.1 CPUs=8
PartitionName=main Nodes=n1 Default=YES
END
echo CgroupPlugin=disabled >cgroup.conf
cat >slurmdbd.conf <<END
AuthInfo=socket=/slurm/munge.sock
DbdHost=here
DbdAddr=127.0.0.1
SlurmUser=root
PidFile=/slurm/slurmdbd.pid
LogFile=/slurm/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=slurm
StoragePass=slurm
END
chmod 600 slurmdbd.conf
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
mariadb-install-db --no-defaults --user=root --auth-root-authentication-method=normal --datadir=/slurm/db >log 2>&1
mariadbd --no-defaults --user=root --datadir=/slurm/db --socket=/slurm/db.sock --bind-address=127.0.0.1 >db.log 2>&1 &
grant="create user slurm@'127.0.0.1' identified by 'slurm'; grant all on slurm_acct_db.* to slurm@'127.0.0.1'"
until_true "mariadb --no-defaults --socket=/slurm/db.sock --user=root --execute=\"$grant\""
LD_LIBRARY_PATH=/old/usr/lib/$(uname -m)-linux-gnu slurmdbd
until_true "sacctmgr -n show cluster"
slurmctld -i -c 2>log
slurmd -N n1
until_true '[ "$(sinfo -hN -t idle | wc -l)" = 1 ]'

sbatch -Q -o /dev/null --requeue --wrap 'sleep 5'
until_true '[ "$(squeue -h -t R | wc -l)" = 1 ]'
sleep 2 # so that the attempt has a length
scontrol requeue 1
until_true 'scontrol update jobid=1 StartTime=now; sacct -a -n -X -P -o state | grep COMPLETED' # not in two minutes
{
    sacct -a -D -n -X -P -o state | sed 's/^/sacct -P: /'
    sacct -a -D --json | jq -r '.jobs[] | "sacct --json: \(.state.current), on \(.nodes), end after start: " +
        (.time.end > .time.start | tostring)'
} >seen

cat >expected <<'END'
sacct -P: REQUEUED
sacct -P: COMPLETED
sacct --json: ["PENDING","REQUEUED"], on n1, end after start: true
sacct --json: ["COMPLETED"], on n1, end after start: true
END
if diff expected seen >&2; then
    echo "as found:"
    cat seen
else
    echo "another behaviour: lines with < were found once, lines with > are so now" >&2
    exit 1
fi
