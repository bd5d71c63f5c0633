#!/bin/bash
# Slurm 24.11.5: AllocTRES of a job on nodes with and without GPU types counts the GPUs of one kind of node alone.
#
# Expected: a job that holds 3 GPUs on n1 (Gres=gpu:v100:4) and 3 on n2 (Gres=gpu:4) has gres/gpu=6 in AllocTRES.
# Seen: ReqTRES has gres/gpu=6 and squeue's gres_detail has three GPUs on either node, but AllocTRES has gres/gpu=3
# and gres/gpu:v100=3: the untyped GPUs are missing. The job that has untyped GPUs alone is counted right.
# What follows: who adds up AllocTRES counts too few GPUs on such clusters, and cannot see it. Compare with ReqTRES,
# or give every node's GPUs a type, or none.
#
# Needs: root on Linux (chroot, namespaces), debootstrap, unshare, 2 GB of disk. Takes about two minutes. The daemons
# have a network of their own that is loopback alone; the GPUs are pretended.
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
AccountingStorageTRES=gres/gpu,gres/gpu:v100
GresTypes=gpu
NodeName=n1 NodeHostname=here NodeAddr=127.0.0.1 Port=7001 CPUs=8 Gres=gpu:v100:4
NodeName=n2 NodeHostname=here NodeAddr=127.0.0.1 Port=7002 CPUs=8 Gres=gpu:4
PartitionName=main Nodes=ALL Default=YES
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
for gpu in 0 1 2 3; do mknod gpu$gpu c 1 3; done # as /dev/null
cat >gres.conf <<END
NodeName=n1 Name=gpu Type=v100 File=/slurm/gpu[0-3]
NodeName=n2 Name=gpu File=/slurm/gpu[0-3]
END
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
slurmd -N n2
until_true '[ "$(sinfo -hN -t idle | wc -l)" = 2 ]'

sbatch -Q -o /dev/null -N 2 --gpus-per-node=3 --wrap 'sleep 600'
sbatch -Q -o /dev/null -w n2 --gpus-per-node=1 --wrap 'sleep 600'
until_true '[ "$(sacct -a -n -X -P -o alloctres -s R | grep -c gpu)" = 2 ]'
{
    squeue --json | jq -r '.jobs[] | "job \(.job_id): \(.gres_detail)"' | sort
    sacct -a -X -P -o jobid,reqtres,alloctres
} >seen

cat >expected <<'END'
job 1: ["gpu:v100:3(IDX:0-2)","gpu:3(IDX:0-2)"]
job 2: ["gpu:1(IDX:3)"]
JobID|ReqTRES|AllocTRES
1|billing=2,cpu=2,gres/gpu=6,mem=2M,node=2|billing=2,cpu=2,gres/gpu:v100=3,gres/gpu=3,node=2
2|billing=1,cpu=1,gres/gpu=1,mem=1M,node=1|billing=1,cpu=1,gres/gpu=1,node=1
END
if diff expected seen >&2; then
    echo "as found:"
    cat seen
else
    echo "another behaviour: lines with < were found once, lines with > are so now" >&2
    exit 1
fi
