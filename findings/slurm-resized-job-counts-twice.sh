#!/bin/bash
# Slurm 22.05.8: accounting counts the time of a job that shrank twice.
#
# Expected: of a job that gives a node back, one row tells the time with two nodes and another the time with one, as
# Slurm 24.11.5 does it: the second one's submission, eligible time and start are the time of the change.
# Seen: submission and eligible time of the second row are the time of the change, but its start is that of the whole
# job, before its submission, and ElapsedRaw counts from there.
# What follows: whoever sums up ElapsedRaw, or GPUs from start to end, counts the first part of such a job twice, and
# has more in use than there is. A row that starts before it was submitted, behind one in the state RESIZING that ends
# with that submission, has to start there.
#
# Needs: root on Linux (chroot, namespaces), debootstrap, unshare, 2 GB of disk. Takes about two minutes. The daemons
# have a network of their own that is loopback alone.
set -Eeuo pipefail
trap 'exit 2' ERR
if [ "${1:-}" != inside ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    packages=slurmctld,slurmd,slurm-wlm-basic-plugins,slurmdbd,slurm-wlm-mysql-plugin,mariadb-server,munge,iproute2
    debootstrap --variant=minbase --include=$packages bookworm "$work/root" >"$work/log" 2>&1 || {
        tail "$work/log" >&2
        exit 2
    }
    [[ $(chroot "$work/root" dpkg-query -W -f '${Version}' slurmctld) == 22.05.8-* ]]
    cp "$0" "$work/root/script.sh"
    # All daemons end with the first process of their namespace. This slurmd looks for processors and cgroups in /sys.
    unshare --mount --net --uts --pid --fork --kill-child bash -c 'mount --rbind /sys "$0/sys" &&
        exec chroot "$0" bash /script.sh inside' "$work/root" || exit $?
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
NodeName=n1 NodeHostname=here NodeAddr=127.0.0.1 Port=17001 CPUs=8
NodeName=n2 NodeHostname=here NodeAddr=127.0.0.1 Port=17002 CPUs=8
PartitionName=main Nodes=ALL Default=YES
END
echo CgroupMountpoint=/sys/fs/cgroup >cgroup.conf
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
slurmdbd
until_true "sacctmgr -n show cluster"
slurmctld -i -c 2>log
slurmd -N n1
slurmd -N n2
until_true '[ "$(sinfo -hN -t idle | wc -l)" = 2 ]'

sbatch -Q -N2 -o /dev/null --wrap 'sleep 15'
until_true '[ "$(squeue -h -t R | wc -l)" = 1 ]'
sleep 4 # so that each part has a length
scontrol update jobid=1 numnodes=1
until_true 'sacct -a -n -X -P -o state | grep COMPLETED'
# The job runs for about 15 seconds, of which it has two nodes for about 4.
sacct -a -D -n -X -P -o state,nnodes,submit,start,end,elapsedraw >rows
while IFS='|' read -r state nodes submit start end s; do
    submit=$(date -d "$submit" +%s) start=$(date -d "$start" +%s) end=$(date -d "$end" +%s)
    echo "$state, nodes: $nodes, starts before its submission: $((start < submit)), elapsed from start to end:" \
        "$((s == end - start)), elapsed for 14 s or more: $((s >= 14))"
done <rows >seen

cat >expected <<'END'
RESIZING, nodes: 2, starts before its submission: 0, elapsed from start to end: 1, elapsed for 14 s or more: 0
COMPLETED, nodes: 1, starts before its submission: 1, elapsed from start to end: 1, elapsed for 14 s or more: 1
END
if diff expected seen >&2; then
    echo "as found:"
    cat seen
else
    echo "another behaviour: lines with < were found once, lines with > are so now" >&2
    exit 1
fi
